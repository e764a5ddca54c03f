//! Reads a live process. In: its number. Out: a [`Reading`]. It runs on, unless it shall be stopped: a heap that changes while it is
//! read is read again.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{
    CoreFile, Counted, Frozen, Live, Mapping, Memory, Reading, State, Subject, Trouble, Unknown, Walk, Walked, best_of,
    build_id, parse_smaps, walk_all,
};

/// Walks of a heap that changes.
const TRIES: u32 = 3;

/// How a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// While it runs.
    Running,
    /// Stopped, for as long as the walk takes.
    Stopped,
}

/// Reads a process. What cannot be divided is a problem in the reading; a process that cannot be read at all is an error.
///
/// After `time` nothing more of its memory is read, and a heap that is not done by then is not divided. The sizes of its mappings are told
/// in any case: the kernel has them.
pub fn take(pid: u32, how: How, time: Duration) -> Result<Reading, Trouble> {
    let until = Instant::now().checked_add(time);
    let open = || Live::open_until(pid, until);
    let subject = Subject::of(pid).ok_or(Trouble::Gone(pid))?;
    let mut problem = unsupported(pid);
    let mut stopped = None;
    let Walked { memory: live, mut walks } = match (&problem, how) {
        (None, How::Running) => best_of(TRIES, open)?,
        (None, How::Stopped) => {
            let begun = Instant::now();
            let frozen = Frozen::stop(pid)?;
            let walked = best_of(1, open);
            drop(frozen);
            stopped = Some(begun.elapsed().as_micros() as u64);
            walked?
        }
        (Some(_), _) => Walked { memory: open()?, walks: Vec::new() },
    };
    let walked_late = live.is_late();
    if walked_late {
        walks.iter_mut().flatten().for_each(|walk| walk.late = Some(time));
        let seconds = time.as_secs_f64();
        let none = || format!("heap not divided: no heap was found within {seconds} s");
        problem = problem.or(walks.is_empty().then(none));
    }
    if problem.is_none() && walks.is_empty() && !may_read(&live) {
        problem = Some(format!("heap not divided: {}", Trouble::Denied(pid)));
    }
    if problem.is_none() {
        let unwalked: Vec<Unknown> = unwalked(&live, &walks).collect();
        walks.extend(unwalked.into_iter().map(Err));
    }
    let smaps = fs::read(format!("/proc/{pid}/smaps"));
    let smaps = smaps.map_err(|error| Trouble::of(pid, "reading what is resident", error))?;
    let now = Subject::of(pid).ok_or(Trouble::Gone(pid))?;
    if !now.is_same(&subject) {
        return Err(Trouble::Changed(pid));
    }
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let counted = parse_smaps(&String::from_utf8_lossy(&smaps));
    let mut reading = Reading::of(subject, taken, &counted, &live, walks);
    reading.problems.extend(problem);
    if live.is_late() && !walked_late {
        let seconds = time.as_secs_f64();
        reading.problems.push(format!("heaps of runtimes were not all looked for: {seconds} s were over"));
    }
    reading.stopped = stopped;
    Ok(reading)
}

/// Reads a core file. After `time` nothing more of it is read, as in [`take`].
pub fn take_core(path: &Path, time: Duration) -> Result<Reading, Trouble> {
    let until = Instant::now().checked_add(time);
    let core = CoreFile::open(path, until).map_err(|error| Trouble::Core { path: path.into(), error })?;
    let mut walks = walk_all(&core);
    if core.is_late() {
        walks.iter_mut().flatten().for_each(|walk| walk.late = Some(time));
    }
    if core.missing > 0 {
        // What lies in the part that is missing could be anything: only a walk without a doubt is taken.
        let reason = || {
            format!(
                "the core is truncated, and a part of the heap is among the {} bytes that are missing",
                core.missing
            )
        };
        let doubtful = |walk: &Walk| walk.doubt() != (0, 0, 0);
        let whole = |walk: Result<Walk, Unknown>| match walk {
            Ok(walk) if doubtful(&walk) => Err(Unknown { allocator: walk.allocator, reason: reason() }),
            walk => walk,
        };
        walks = walks.into_iter().map(whole).collect();
    }
    let unwalked: Vec<Unknown> = unwalked(&core, &walks).collect();
    walks.extend(unwalked.into_iter().map(Err));
    let count = |mapping: &Mapping| {
        let resident = core.pages().resident(mapping.from, mapping.to);
        let anonymous = if mapping.writable { resident } else { 0 };
        Counted { resident, share: resident, anonymous, mapping: mapping.clone(), ..Counted::default() }
    };
    let counted: Vec<Counted> = core.mappings().iter().map(count).collect();
    let written = fs::metadata(path).and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH);
    let taken = written.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let subject = Subject {
        pid: core.pid,
        name: core.name.clone(),
        executable: core.executable.clone(),
        started: taken / 1000,
        threads: core.threads().len() as u64,
        ..Subject::default()
    };
    let mut reading = Reading::of(subject, taken, &counted, &core, walks);
    if core.missing > 0 {
        reading.problems.push(format!("the core is truncated: {} bytes of it are missing", core.missing));
    }
    if core.is_late() {
        reading.problems.push(format!("the core was not read to its end within {} s", time.as_secs_f64()));
    }
    Ok(reading)
}

/// Whether the kernel lets its memory be read, and not only its mappings: where pages are resident, one can be copied.
fn may_read(live: &Live) -> bool {
    let readable = live.mappings().iter().filter(|one| one.readable && one.writable && !one.shared);
    let resident = |state: &State| matches!(state, State::Resident | State::Huge);
    let mut pages =
        { readable }.flat_map(|one| live.pages().within(one.from, one.to)).filter(|run| resident(&run.state));
    // A process may unmap one of them just now.
    let mut some = pages.by_ref().take(20).map(|run| live.word(run.from).is_some()).peekable();
    some.peek().is_none() || some.any(|read| read)
}

/// Why a program cannot be divided here, whatever allocator it has.
fn unsupported(pid: u32) -> Option<String> {
    let mut head = [0; 20];
    let mut file = fs::File::open(format!("/proc/{pid}/exe")).ok()?;
    std::io::Read::read_exact(&mut file, &mut head).ok()?;
    machine(&head)
}

/// The same from the beginning of its file.
fn machine(head: &[u8; 20]) -> Option<String> {
    const X86_64: u16 = 62;
    if &head[..4] != b"\x7fELF" {
        return None;
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let name = match machine {
        3 => "32-bit x86",
        40 => "32-bit ARM",
        183 => "aarch64",
        243 => "RISC-V",
        _ => "another machine",
    };
    match (head[4], machine) {
        (2, X86_64) => None,
        (1, X86_64) => Some("heap not divided: the program is for x32; wanted: 64-bit x86-64".into()),
        _ => {
            Some(format!("heap not divided: the program is for {name} (ELF machine {machine}); wanted: 64-bit x86-64"))
        }
    }
}

/// Libraries by the beginning of their names, and the allocator that is in them.
const LIBRARIES: &[(&str, &str)] = &[
    ("libjemalloc", "jemalloc"),
    ("libmimalloc", "mimalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libsnmalloc", "snmalloc"),
    ("ld-musl", "musl's malloc"),
    ("libc.so.6", "glibc"),
    ("libc-2.", "glibc"),
];

/// Allocators whose library is mapped and whose heap no walker has found.
fn unwalked<'a>(live: &'a dyn Memory, walks: &[Result<Walk, Unknown>]) -> impl Iterator<Item = Unknown> + use<'a> {
    let found: Vec<&'static str> = walks
        .iter()
        .map(|walk| match walk {
            Ok(walk) => walk.allocator,
            Err(unknown) => unknown.allocator,
        })
        .collect();
    let library = move |&(prefix, allocator): &(&str, &'static str)| {
        // The C library is mapped under every allocator.
        if found.contains(&allocator) || allocator == "glibc" && !found.is_empty() {
            return None;
        }
        let is_it = |path: &str| path.rsplit('/').next().is_some_and(|file| file.starts_with(prefix));
        let file = live.mappings().iter().find(|one| one.inode != 0 && one.offset == 0 && is_it(&one.name))?;
        let build = build_id::of(live, file).map_or_else(|| "without a build-id".into(), |id| format!("build-id {id}"));
        let reason = format!("{} is mapped ({build}), and its layout is not known here", file.name);
        Some(Unknown { allocator, reason })
    };
    LIBRARIES.iter().filter_map(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_for_other_machines_are_told() {
        let head = |class: u8, number: u16| {
            let mut head = [0; 20];
            head[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
            head[18..].copy_from_slice(&number.to_le_bytes());
            machine(&head)
        };
        assert_eq!(head(2, 62), None);
        assert!(head(1, 3).unwrap().contains("32-bit x86"));
        assert!(head(2, 183).unwrap().contains("aarch64"));
        assert_eq!(machine(&[0; 20]), None, "a script has an interpreter, which is the program");
    }

    #[test]
    fn this_process_is_read_and_adds_up() {
        let reading = take(std::process::id(), How::Running, Duration::MAX).unwrap();
        let sum: u64 = reading.heaps.iter().map(|heap| heap.parts.sum()).sum::<u64>()
            + reading.areas.iter().map(|area| area.resident).sum::<u64>();
        assert_eq!((reading.process.pid, sum), (std::process::id(), reading.resident));
        assert!(reading.areas.iter().any(|area| area.name == "program and libraries" && area.resident > 1 << 19));
        assert!(matches!(take(0x3fff_ffff, How::Running, Duration::MAX), Err(Trouble::Gone(_))));
        assert!(matches!(take(std::process::id(), How::Running, Duration::ZERO), Err(Trouble::Late(_))));
    }
}
