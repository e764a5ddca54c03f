//! Writes stacks with their figures as a profile in the format of pprof.

use std::collections::HashMap;

use allocanary_profile::pprof::{AddressFunction, OF_SAMPLES, PprofFile, PprofWriter};
use allocanary_trace::stacks::{CodePlace, Stacks, TraceModule};

use crate::collapsed::of_stacks;
use crate::fold::Folding;
use crate::sites::OfStack;
use allocanary_names::FrameNames;
use allocanary_names::NamedFrame;

/// The values of each sample, in this order.
pub const TYPES: [(&str, &str); 6] = [
    OF_SAMPLES[0],
    OF_SAMPLES[1],
    OF_SAMPLES[2],
    OF_SAMPLES[3],
    ("pinned_space", "bytes"),
    // Live and pinned bytes of the stack together. In jemalloc `retained` means something else: addresses without
    // memory.
    ("retained_space", "bytes"),
];

/// The source of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileSource {
    /// A trace at a moment: all of [`TYPES`].
    Trace,
    /// The samples of a running process, with this mean distance in bytes. They have allocated and live bytes only.
    Samples(u64),
}

impl ProfileSource {
    /// The types of its values, and the one that a reader shows first.
    fn types(self) -> (&'static [(&'static str, &'static str)], &'static str) {
        match self {
            ProfileSource::Trace => (&TYPES, "pinned_space"),
            ProfileSource::Samples(_) => (&OF_SAMPLES, "inuse_space"),
        }
    }

    fn comment(self) -> &'static str {
        match self {
            ProfileSource::Trace => {
                "allocanary who: alloc_ of the whole trace, inuse_, pinned_ and retained_ (both) at one moment"
            }
            ProfileSource::Samples(_) => {
                "allocanary who: estimates from samples; alloc_ since the profile began, inuse_ now"
            }
        }
    }
}

/// The profile, compressed. `program` is the path of the program. Its mapping comes first, because readers take the first one for the main
/// program. `notes` say what limits the figures, and become comments of the profile.
pub fn pprof(
    program: &str,
    stacks: &Stacks,
    of: &[OfStack],
    names: &mut FrameNames<'_>,
    folding: &Folding,
    what: ProfileSource,
    notes: &[String],
) -> std::io::Result<Vec<u8>> {
    let (types, first) = what.types();
    let mut writer = PprofWriter::new(types, first, what.comment());
    if let ProfileSource::Samples(mean) = what {
        writer.sampled(mean);
    }
    notes.iter().for_each(|note| writer.comment(note));
    let mut order: Vec<usize> = (0..stacks.modules.len()).collect();
    order.sort_by_key(|at| stacks.modules[*at].path != program);
    for at in &order {
        writer.file(&file(&stacks.modules[*at], !names.is_nameless()));
    }
    if names.is_nameless() {
        writer.comment(
            "functions have no names here: whoever reads this finds them in the program's file, by its build-id",
        );
    }
    let mut places: HashMap<CodePlace, u64> = HashMap::new();
    let (all, functions) = of_stacks(of, names, folding);
    for (one, codes) in of.iter().zip(all) {
        // A stack that could not be walked is written as one frame, so that the sums are right.
        let codes = if one.stack == 0 { vec![CodePlace::default()] } else { codes };
        let mut stack = Vec::new();
        for code in codes {
            let place = places.entry(code).or_insert_with(|| {
                let module = stacks.module_of(code);
                let file = order.iter().position(|at| Some(*at) == module).map_or(0, |place| place as u64 + 1);
                let frames = match code.pc {
                    0 => [NamedFrame { function: "(no stack)".into(), ..NamedFrame::default() }].into(),
                    _ => names.frames(code),
                };
                let named = frames.iter().map(|frame| AddressFunction {
                    function: functions.name(frame),
                    file: &frame.file,
                    line: frame.line,
                });
                writer.place(file, code.pc.saturating_sub(1), named)
            });
            stack.push(*place);
        }
        let held = one.live.1.saturating_add(one.pinned);
        let values = [one.allocated.0, one.allocated.1, one.live.0, one.live.1, one.pinned, held];
        writer.stack(stack, &values[..types.len()]);
    }
    writer.finish()
}

fn file(module: &TraceModule, is_named: bool) -> PprofFile<'_> {
    PprofFile {
        start: module.start,
        end: module.end,
        // The begin of the mapping in the addresses of the file.
        offset: module.start.wrapping_sub(module.bias),
        path: &module.path,
        build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        is_named,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use allocanary_profile::pprof::messages::PprofProfile;
    use allocanary_testing::skipped::skipped;
    use prost::Message;

    use super::*;
    use crate::invented::stacks;

    /// The profile of `/bin/none`.
    fn written(stacks: &Stacks, of: &[OfStack], notes: &[String]) -> Vec<u8> {
        let (mut names, folding) = (FrameNames::of(stacks), Folding::default());
        pprof("/bin/none", stacks, of, &mut names, &folding, ProfileSource::Trace, notes).unwrap()
    }

    /// The schema's rule for references: texts, functions, mappings and locations have numbers that exist, none twice.
    #[test]
    fn every_reference_resolves() {
        use std::collections::HashSet;
        use std::io::Read;
        let (mut stacks, ids) = stacks(&[&[0x1010, 0x1020, 0x1030], &[0x1010, 0x9030], &[0x7777]]);
        let module =
            |path: &str, start| TraceModule { start, end: start + 0x1000, path: path.into(), ..TraceModule::default() };
        stacks.modules = vec![module("/lib/none.so", 0x9000), module("/bin/none", 0x1000)];
        let mut of: Vec<OfStack> =
            ids.iter().map(|id| OfStack { stack: *id, pinned: 9, ..OfStack::default() }).collect();
        of.push(OfStack { stack: 0, allocated: (u64::MAX, u64::MAX), ..OfStack::default() });
        let notes = ["The table was full.".to_string()];
        let packed = written(&stacks, &of, &notes);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let profile = PprofProfile::decode(&bytes[..]).unwrap();
        assert_eq!(profile.string_table[0], "", "the first text is the empty one");
        assert_eq!(profile.string_table.iter().collect::<HashSet<_>>().len(), profile.string_table.len());
        let mut texts = vec![profile.default_sample_type];
        texts.extend(&profile.comment);
        texts.extend(profile.sample_type.iter().flat_map(|of| [of.kind, of.unit]));
        texts.extend(profile.mapping.iter().flat_map(|of| [of.filename, of.build_id]));
        texts.extend(profile.function.iter().flat_map(|of| [of.name, of.system_name, of.filename]));
        assert!(texts.iter().all(|at| (0..profile.string_table.len() as i64).contains(at)), "{texts:?}");
        let comments: Vec<&str> =
            profile.comment.iter().map(|at| profile.string_table[*at as usize].as_str()).collect();
        assert_eq!(comments[1..], ["The table was full."], "what limits the figures is said");
        let unique = |all: Vec<u64>| {
            let set: HashSet<u64> = all.iter().copied().collect();
            assert!(set.len() == all.len() && !set.contains(&0), "0 is none: {all:?}");
            set
        };
        let functions = unique(profile.function.iter().map(|of| of.id).collect());
        let mappings = unique(profile.mapping.iter().map(|of| of.id).collect());
        let locations = unique(profile.location.iter().map(|of| of.id).collect());
        for location in &profile.location {
            assert!(
                !location.line.is_empty() && location.line.iter().all(|line| functions.contains(&line.function_id))
            );
            let mapping = profile.mapping.iter().find(|of| of.id == location.mapping_id);
            assert!(location.mapping_id == 0 || mappings.contains(&location.mapping_id));
            assert!(mapping.is_none_or(|of| (of.memory_start..of.memory_limit).contains(&location.address)));
        }
        assert_eq!((profile.sample.len(), profile.location.len()), (4, 6));
        for sample in &profile.sample {
            assert_eq!(sample.value.len(), profile.sample_type.len());
            assert_eq!(sample.value[5], sample.value[3] + sample.value[4], "retained is live and pinned");
            assert!(sample.value.iter().all(|value| *value >= 0), "{:?}", sample.value);
            assert!(!sample.location_id.is_empty() && sample.location_id.iter().all(|id| locations.contains(id)));
        }
    }

    /// A reader names what is not said to be named.
    #[test]
    fn without_names_there_are_addresses_in_files() {
        use std::io::Read;
        let (mut stacks, ids) = stacks(&[&[0x1010, 0x1020]]);
        stacks.modules = vec![TraceModule {
            start: 0x1000,
            end: 0x2000,
            path: "/bin/none".into(),
            build_id: vec![1, 0xab],
            ..TraceModule::default()
        }];
        let of = [OfStack { stack: ids[0], live: (1, 1000), ..OfStack::default() }];
        let packed = pprof(
            "/bin/none",
            &stacks,
            &of,
            &mut FrameNames::none(&stacks),
            &Folding::default(),
            ProfileSource::Samples(512 << 10),
            &[],
        )
        .unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let profile = PprofProfile::decode(&bytes[..]).unwrap();
        assert!(profile.function.is_empty() && profile.location.iter().all(|one| one.line.is_empty()));
        // Innermost first.
        assert_eq!(profile.location.iter().map(|one| one.address).collect::<Vec<_>>(), [0x101f, 0x100f]);
        let file = &profile.mapping[0];
        assert_eq!((profile.string_table[file.build_id as usize].as_str(), file.has_functions), ("01ab", false));
        assert!(profile.comment.iter().any(|at| profile.string_table[*at as usize].contains("no names here")));
    }

    /// Google's own reader checks the format.
    #[test]
    fn gos_pprof_reads_the_figures() {
        let (mut stacks, ids) = stacks(&[&[0x1010, 0x1020], &[0x1010, 0x9030]]);
        let module =
            |path: &str, start| TraceModule { start, end: start + 0x1000, path: path.into(), ..TraceModule::default() };
        stacks.modules = vec![module("/lib/none.so", 0x9000), module("/bin/none", 0x1000)];
        let of = [
            OfStack { stack: ids[0], allocated: (3, 3000), live: (1, 1000), pinned: 5 << 20 },
            OfStack { stack: ids[1], allocated: (4, 4000), live: (2, 2000), pinned: 3 << 20 },
            OfStack { stack: 0, allocated: (1, 8), live: (1, 8), pinned: 1 << 20 },
        ];
        let bytes = written(&stacks, &of, &[]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile.pb.gz");
        std::fs::write(&file, bytes).unwrap();
        let run = |kind: &str, unit: &str| {
            let mut go = Command::new("go");
            // The folder for Go's build cache, if there is no home folder.
            go.args([
                "tool",
                "pprof",
                "-top",
                "-symbolize=none",
                &format!("-sample_index={kind}"),
                &format!("-unit={unit}"),
            ])
            .arg(&file);
            go.env("PPROF_TMPDIR", folder.path()).output()
        };
        let top = |kind: &str| run(kind, "minimum");
        let top_in_bytes = |kind: &str| run(kind, "B");
        let Ok(output) = top("pinned_space") else { return skipped("Go is not installed") };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(
            said.contains("File: none\n") && said.contains("Type: pinned_space"),
            "the program's is the first: {said}"
        );
        let line = |said: &str, name: &str| {
            let line = said.lines().find(|line| line.ends_with(name)).unwrap_or_else(|| panic!("{name}: {said}"));
            line.split_whitespace().map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(line(&said, "none+0x1020")[0], "5MB");
        assert_eq!(line(&said, "none.so+0x9030")[0], "3MB");
        assert_eq!(line(&said, "none+0x1010")[3], "8MB", "both are below it");
        assert_eq!(line(&said, "(no stack)")[0], "1MB");
        let said = String::from_utf8_lossy(&top("inuse_objects").unwrap().stdout).into_owned();
        assert_eq!(line(&said, "none.so+0x9030")[0], "2", "{said}");
        // Live and pinned: 5120 KiB and 1000 bytes, 3072 KiB and 2000, 1024 KiB and 8.
        let said = String::from_utf8_lossy(&top_in_bytes("retained_space").unwrap().stdout).into_owned();
        let held = ["none+0x1020", "none.so+0x9030", "(no stack)"].map(|name| line(&said, name)[0].clone());
        assert_eq!(held, ["5243880B", "3147728B", "1048584B"], "{said}");
    }
}
