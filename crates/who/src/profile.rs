//! A profile in the format of pprof, which `go tool pprof`, Grafana and others read. In: stacks with their figures, names. Out: bytes.
//! The messages are those of `proto/profile.proto` of github.com/google/pprof.

use std::collections::HashMap;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use allocanary_trace::stacks::{Code, Module, Stacks};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::frame::Frame;
use crate::names::Names;
use crate::sites::OfStack;

/// The values of each sample, in this order.
pub const TYPES: [(&str, &str); 6] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("pinned_space", "bytes"),
    // Live and pinned bytes of the stack together. In jemalloc `retained` means something else: addresses without
    // memory.
    ("retained_space", "bytes"),
];

/// What a profile is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A trace at a moment: all of [`TYPES`].
    Trace,
    /// The samples of a running process, with this mean distance in bytes: what is allocated and what is alive.
    Samples(u64),
}

impl Of {
    /// How many of the types it has, and the one that a reader shows first.
    fn types(self) -> (&'static [(&'static str, &'static str)], &'static str) {
        match self {
            Of::Trace => (&TYPES, "pinned_space"),
            Of::Samples(_) => (&TYPES[..4], "inuse_space"),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The profile, compressed. `program` is the path of the program. Its mapping comes first, because readers take the first one
/// for the main program.
pub fn pprof(
    program: &str,
    stacks: &Stacks,
    of: &[OfStack],
    names: &mut Names<'_>,
    what: Of,
) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer { texts: HashMap::new(), functions: HashMap::new(), out: Profile::default() };
    writer.text("");
    let (types, first) = what.types();
    for (kind, unit) in types {
        let value = ValueType { kind: writer.text(kind), unit: writer.text(unit) };
        writer.out.sample_type.push(value);
    }
    writer.out.default_sample_type = writer.text(first);
    let comment = match what {
        Of::Trace => "allocanary who: alloc_ of the whole trace, inuse_, pinned_ and retained_ (both) at one moment",
        Of::Samples(mean) => {
            writer.out.period_type = Some(ValueType { kind: writer.text("space"), unit: writer.text("bytes") });
            writer.out.period = i64::try_from(mean).unwrap_or(i64::MAX);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            writer.out.time_nanos = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
            "allocanary who: estimates from samples; alloc_ since the profile began, inuse_ now"
        }
    };
    let comment = writer.text(comment);
    writer.out.comment.push(comment);
    let mut order: Vec<usize> = (0..stacks.modules.len()).collect();
    order.sort_by_key(|at| stacks.modules[*at].path != program);
    for at in &order {
        writer.mapping(&stacks.modules[*at]);
    }
    let mut locations: HashMap<Code, u64> = HashMap::new();
    for one in of {
        let mut location_id = Vec::new();
        // A stack that could not be walked is written as one frame, so that the sums are right.
        let codes = if one.stack == 0 { vec![Code::default()] } else { names.callers(one.stack) };
        for code in codes {
            let next = locations.len() as u64 + 1;
            let id = *locations.entry(code).or_insert(next);
            if id == next {
                let call = code.pc.saturating_sub(1);
                let module = stacks.module_of(code);
                let mapping_id = order.iter().position(|at| Some(*at) == module).map_or(0, |place| place as u64 + 1);
                let frames = match code.pc {
                    0 => [Frame { function: "(no stack)".into(), ..Frame::default() }].into(),
                    _ => names.frames(code),
                };
                let line = frames.iter().map(|frame| writer.line(frame)).collect();
                writer.out.location.push(Location { id, mapping_id, address: call, line });
            }
            location_id.push(id);
        }
        let held = one.live.1.saturating_add(one.pinned);
        let value = [one.allocated.0, one.allocated.1, one.live.0, one.live.1, one.pinned, held];
        let value = value.iter().take(types.len()).map(|figure| i64::try_from(*figure).unwrap_or(i64::MAX)).collect();
        writer.out.sample.push(Sample { location_id, value });
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&writer.out.encode_to_vec())?;
    gzip.finish()
}

struct Writer {
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    out: Profile,
}

impl Writer {
    /// The number of a text.
    fn text(&mut self, text: &str) -> i64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.out.string_table.len() as i64;
        self.out.string_table.push(text.into());
        self.texts.insert(text.into(), number);
        number
    }

    fn mapping(&mut self, module: &Module) {
        let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mapping = Mapping {
            id: self.out.mapping.len() as u64 + 1,
            memory_start: module.start,
            memory_limit: module.end,
            // The begin of the mapping in the addresses of the file.
            file_offset: module.start.wrapping_sub(module.bias),
            filename: self.text(&module.path),
            build_id: self.text(&build_id),
            // All available names have been looked up.
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        self.out.mapping.push(mapping);
    }

    fn line(&mut self, frame: &Frame) -> Line {
        let next = self.functions.len() as u64 + 1;
        let function_id = *self.functions.entry((frame.function.clone(), frame.file.clone())).or_insert(next);
        if function_id == next {
            let name = self.text(&frame.function);
            let filename = self.text(&frame.file);
            self.out.function.push(Function { id: next, name, system_name: name, filename });
        }
        Line { function_id, line: i64::from(frame.line) }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use allocanary_testing::skipped::skipped;

    use super::*;
    use crate::invented::stacks;

    /// The schema's rule for references: texts, functions, mappings and locations have numbers that exist, none twice.
    #[test]
    fn every_reference_resolves() {
        use std::collections::HashSet;
        use std::io::Read;
        let (mut stacks, ids) = stacks(&[&[0x1010, 0x1020, 0x1030], &[0x1010, 0x9030], &[0x7777]]);
        let module = |path: &str, start| Module { start, end: start + 0x1000, path: path.into(), ..Module::default() };
        stacks.modules = vec![module("/lib/none.so", 0x9000), module("/bin/none", 0x1000)];
        let mut of: Vec<OfStack> =
            ids.iter().map(|id| OfStack { stack: *id, pinned: 9, ..OfStack::default() }).collect();
        of.push(OfStack { stack: 0, allocated: (u64::MAX, u64::MAX), ..OfStack::default() });
        let packed = pprof("/bin/none", &stacks, &of, &mut Names::of(&stacks), Of::Trace).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(&bytes[..]).unwrap();
        assert_eq!(profile.string_table[0], "", "the first text is the empty one");
        assert_eq!(profile.string_table.iter().collect::<HashSet<_>>().len(), profile.string_table.len());
        let mut texts = vec![profile.default_sample_type];
        texts.extend(&profile.comment);
        texts.extend(profile.sample_type.iter().flat_map(|of| [of.kind, of.unit]));
        texts.extend(profile.mapping.iter().flat_map(|of| [of.filename, of.build_id]));
        texts.extend(profile.function.iter().flat_map(|of| [of.name, of.system_name, of.filename]));
        assert!(texts.iter().all(|at| (0..profile.string_table.len() as i64).contains(at)), "{texts:?}");
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

    /// Google's own reader checks the format.
    #[test]
    fn gos_pprof_reads_the_figures() {
        let (mut stacks, ids) = stacks(&[&[0x1010, 0x1020], &[0x1010, 0x9030]]);
        let module = |path: &str, start| Module { start, end: start + 0x1000, path: path.into(), ..Module::default() };
        stacks.modules = vec![module("/lib/none.so", 0x9000), module("/bin/none", 0x1000)];
        let of = [
            OfStack { stack: ids[0], allocated: (3, 3000), live: (1, 1000), pinned: 5 << 20 },
            OfStack { stack: ids[1], allocated: (4, 4000), live: (2, 2000), pinned: 3 << 20 },
            OfStack { stack: 0, allocated: (1, 8), live: (1, 8), pinned: 1 << 20 },
        ];
        let bytes = pprof("/bin/none", &stacks, &of, &mut Names::of(&stacks), Of::Trace).unwrap();
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
