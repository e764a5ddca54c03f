//! The profile of a program that samples itself. In: its allocator, its table. Out: the same allocator with samples, and a profile for
//! pprof.

mod build_ids;
mod files;
mod names;
mod naming;
mod profiled;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{is_before_filter, notice_closed, words};
use allocanary_profile::interval::SampleSums;
use allocanary_profile::pprof::{AddressFunction, OF_SAMPLES, PprofWriter};
use allocanary_profile::reader::{self, ProfileTrouble, TableProfile};
use naming::Turn;

pub use profiled::Profiled;

/// The profile of this program in the format of pprof, compressed. Reads the program's file for addresses that it has not named before.
pub fn pprof() -> Result<Vec<u8>, ProfileTrouble> {
    let is_filtered = || is_before_filter().then(|| ProfileTrouble::Filtered(std::process::id()));
    is_filtered().map_or(Ok(()), Err)?;
    // Without a preload, no call reports a closed library.
    notice_closed();
    let profile = own()?;
    let _turn = Turn::wait().ok_or(ProfileTrouble::Forked(profile.pid))?;
    // Another thread may have announced a filter meanwhile.
    is_filtered().map_or(Ok(()), Err)?;
    written(&profile).map_err(|error| ProfileTrouble::Unreadable {
        pid: profile.pid,
        what: "its profile cannot be compressed",
        error,
    })
}

/// Like [`crate::before_filter`]. If another thread is writing a profile, this also waits until the profile is written.
pub fn before_filter() {
    crate::before_filter();
    let _turn = Turn::wait();
}

fn written(profile: &TableProfile) -> std::io::Result<Vec<u8>> {
    let comment = "allocanary: estimates from samples; alloc_ since the profile began, inuse_ now";
    let mut writer = PprofWriter::new(&OF_SAMPLES, "inuse_space", comment);
    writer.sampled(profile.mean);
    profile.limits().iter().for_each(|limit| writer.comment(limit));
    let files = files::of(&profile.mappings);
    let file_of = |pc: u64| files.iter().position(|file| file.has(pc));
    let all: BTreeMap<u32, SampleSums> = live(profile);
    let codes: BTreeSet<u64> = all.keys().flat_map(|stack| profile.stack(*stack)).collect();
    let names = names::of_all(codes.into_iter().map(|pc| (pc, file_of(pc).map_or(0, |at| files[at].number()))));
    // If no address of a file has a name, as in a stripped program, the reader names the addresses. It may have the debug file.
    let is_named = |file: &files::File| {
        names.iter().any(|(pc, frames)| file.has(*pc) && frames.iter().any(|frame| frame.is_named()))
    };
    for file in &files {
        writer.file(&file.described(is_named(file)));
    }
    let mut places: HashMap<u64, u64> = HashMap::new();
    for (stack, sum) in all {
        let shown = names::without_own(profile.stack(stack), &names);
        let mut stack_of = Vec::new();
        for pc in shown {
            let place = places.entry(pc).or_insert_with(|| {
                let file = file_of(pc).map_or(0, |at| at as u64 + 1);
                writer.place(file, pc.saturating_sub(1), names[&pc].iter().filter_map(names::Frame::named))
            });
            stack_of.push(*place);
        }
        if stack_of.is_empty() {
            let named = AddressFunction { function: "(no stack)", ..AddressFunction::default() };
            stack_of.push(*places.entry(0).or_insert_with(|| writer.place(0, 0, [named])));
        }
        let whole = |number: f64| number.round() as u64;
        let frame = &profile.frames[stack as usize];
        let values = [frame.blocks, frame.bytes, sum.blocks, sum.estimate().bytes].map(whole);
        writer.stack(stack_of, &values);
    }
    writer.finish()
}

/// The profile of this program, if it samples itself.
fn own() -> Result<TableProfile, ProfileTrouble> {
    reader::of_own(&words().ok_or(ProfileTrouble::Off)?)
}

/// The live blocks of each stack, by the stack's innermost frame. Stacks whose blocks were all freed are included.
fn live(profile: &TableProfile) -> BTreeMap<u32, SampleSums> {
    let ever = profile.frames.iter().enumerate().filter(|(_, frame)| frame.bytes > 0.0);
    let mut live: BTreeMap<u32, SampleSums> = ever.map(|(at, _)| (at as u32, SampleSums::default())).collect();
    for sample in &profile.samples {
        live.entry(sample.frame).or_default().add(sample.size, profile.mean);
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_profile::pprof::messages;
    use prost::Message;
    use std::io::Read;

    #[test]
    fn what_limits_a_profile_is_in_its_comments() {
        let packed = written(&TableProfile { mean: 512 << 10, is_late: true, ..TableProfile::default() }).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let found = messages::PprofProfile::decode(&bytes[..]).unwrap();
        let comments: Vec<&str> = found.comment.iter().map(|at| found.string_table[*at as usize].as_str()).collect();
        assert_eq!(comments.len(), 3, "{comments:?}");
        assert!(comments[2].contains("turned on while the program ran"), "{comments:?}");
    }
}
