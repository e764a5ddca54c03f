//! The profile of a process, for a client of the agent. In: a PID. Out: the format of pprof, as `who PID --format pprof` writes it.

use std::time::Duration;

use allocanary_heap::{LiveProcess, Reader};
use allocanary_names::FrameNames;
use allocanary_node::look::NoProfile;
use allocanary_profile::reader::{self, ProfileTrouble};
use allocanary_text::units::Bytes;
use allocanary_who::sampled::NamedProfile;
use allocanary_who::{Folding, profile};

use super::super::reader::profile as ask;

/// The time for a profile with the names of functions. If it is not enough, `BARE` is the time for one without. A connection lasts for
/// both.
const NAMED: Duration = Duration::from_secs(5);
const BARE: Duration = Duration::from_secs(2);
/// The most bytes of an answer. Even a full table has far fewer.
const MOST: usize = 4 << 20;

/// The agent's side. Naming the functions of a large program may take more time or memory than the child has. Then the child is asked
/// again, without names: the reader of the profile finds them in the program's file.
pub fn read(child: &mut Reader, pid: u32) -> Result<Vec<u8>, NoProfile> {
    let read = ask(child, pid, true, NAMED).or_else(|_| ask(child, pid, false, BARE));
    read.unwrap_or_else(|error| Err(NoProfile::Failed(format!("process {pid}: {error}"))))
}

/// The child's side: reads the profile.
pub fn pprof(pid: u32, named: bool) -> Result<Vec<u8>, NoProfile> {
    let live = LiveProcess::open(pid).map_err(|trouble| match trouble {
        allocanary_heap::ProcessTrouble::Gone(_) => NoProfile::None(trouble.to_string()),
        _ => NoProfile::Failed(trouble.to_string()),
    })?;
    let reading = NamedProfile::of(reader::read(&live).map_err(absent)?);
    let mut names = if named { reading.names() } else { FrameNames::none(&reading.stacks) };
    let what = profile::ProfileSource::Samples(reading.mean());
    let notes = reading.notes(names.notes());
    let written = profile::pprof(
        &reading.program(),
        &reading.stacks,
        &reading.of_stacks(),
        &mut names,
        &Folding::default(),
        what,
        &notes,
    );
    match written {
        Ok(bytes) if bytes.len() <= MOST => Ok(bytes),
        Ok(bytes) => Err(NoProfile::Failed(format!(
            "process {pid}: its profile has {}, wanted at most {}: `allocanary who {pid} --format pprof` on the node has no such limit",
            Bytes(bytes.len() as u64),
            Bytes(MOST as u64)
        ))),
        Err(error) => Err(NoProfile::Failed(format!("process {pid}: writing its profile: {error}"))),
    }
}

fn absent(trouble: ProfileTrouble) -> NoProfile {
    let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    match &trouble {
        ProfileTrouble::None(_) => NoProfile::None(trouble.to_string()),
        ProfileTrouble::Unreadable { error, .. } if is_gone(error) => NoProfile::None(trouble.to_string()),
        _ => NoProfile::Failed(trouble.to_string()),
    }
}
