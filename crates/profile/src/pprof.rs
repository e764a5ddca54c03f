//! A profile in the format of pprof, which `go tool pprof`, Grafana and others read. In: files, places with their names, stacks with
//! figures. Out: bytes.

pub mod messages;

use std::collections::HashMap;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use self::messages::{Location, PprofFunction, PprofLine, PprofMapping, PprofProfile, PprofSample, ValueType};

/// The values of a sample: each type has a name and a unit.
pub const OF_SAMPLES: [(&str, &str); 4] =
    [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];

/// A mapped file.
#[derive(Clone, Debug, Default)]
pub struct PprofFile<'a> {
    /// The first address of the mapping.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// The offset in the file of the first address.
    pub offset: u64,
    /// Its path.
    pub path: &'a str,
    /// Its build-id in hexadecimal digits; empty if it has none.
    pub build_id: String,
    /// Whether the writer has looked up the names of its functions. If not, a reader does it.
    pub is_named: bool,
}

/// A function at an address.
#[derive(Clone, Debug, Default)]
pub struct AddressFunction<'a> {
    /// Its name.
    pub function: &'a str,
    /// The source file; empty if it is not known.
    pub file: &'a str,
    /// The line; 0 if it is not known.
    pub line: u32,
}

/// Collects the parts of a profile.
pub struct PprofWriter {
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    out: PprofProfile,
}

impl PprofWriter {
    /// Begins a profile with values of these types. A reader shows the type `first`, unless its user chooses another one.
    pub fn new(types: &[(&str, &str)], first: &str, comment: &str) -> PprofWriter {
        let mut writer = PprofWriter { texts: HashMap::new(), functions: HashMap::new(), out: PprofProfile::default() };
        writer.text("");
        for (kind, unit) in types {
            let value = ValueType { kind: writer.text(kind), unit: writer.text(unit) };
            writer.out.sample_type.push(value);
        }
        writer.out.default_sample_type = writer.text(first);
        writer.comment(comment);
        writer
    }

    /// Adds a comment of one line.
    pub fn comment(&mut self, text: &str) {
        let text = self.text(text);
        self.out.comment.push(text);
    }

    /// Sets the mean distance of samples, in bytes, and the present time as that of the profile.
    pub fn sampled(&mut self, mean: u64) {
        self.out.period_type = Some(ValueType { kind: self.text("space"), unit: self.text("bytes") });
        self.out.period = figure(mean);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.out.time_nanos = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    }

    /// The number of a text in the profile.
    fn text(&mut self, text: &str) -> i64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.out.string_table.len() as i64;
        self.out.string_table.push(text.into());
        self.texts.insert(text.into(), number);
        number
    }

    /// Adds a file, and returns its number. Readers take the first file for the main program.
    pub fn file(&mut self, file: &PprofFile<'_>) -> u64 {
        let id = self.out.mapping.len() as u64 + 1;
        let mapping = PprofMapping {
            id,
            memory_start: file.start,
            memory_limit: file.end,
            file_offset: file.offset,
            filename: self.text(file.path),
            build_id: self.text(&file.build_id),
            has_functions: file.is_named,
            has_filenames: file.is_named,
            has_line_numbers: file.is_named,
            has_inline_frames: file.is_named,
        };
        self.out.mapping.push(mapping);
        id
    }

    /// Adds an address with its functions, inlined ones first. `file` is the number of its file, or 0. Returns the number of the place.
    pub fn place<'a>(&mut self, file: u64, address: u64, names: impl IntoIterator<Item = AddressFunction<'a>>) -> u64 {
        let id = self.out.location.len() as u64 + 1;
        let line = names.into_iter().map(|named| self.line(&named)).collect();
        self.out.location.push(Location { id, mapping_id: file, address, line });
        id
    }

    fn line(&mut self, named: &AddressFunction<'_>) -> PprofLine {
        let next = self.functions.len() as u64 + 1;
        let function_id = *self.functions.entry((named.function.into(), named.file.into())).or_insert(next);
        if function_id == next {
            let name = self.text(named.function);
            let filename = self.text(named.file);
            // The function gets no second name. If both names are the same, Go's pprof takes them for a name of C++, and leaves out the
            // text between `<` and `>`.
            self.out.function.push(PprofFunction { id: next, name, system_name: 0, filename });
        }
        PprofLine { function_id, line: i64::from(named.line) }
    }

    /// Adds a stack with a value for each type. The stack is a list of the numbers of places, innermost first.
    pub fn stack(&mut self, places: Vec<u64>, values: &[u64]) {
        let value = values.iter().map(|value| figure(*value)).collect();
        self.out.sample.push(PprofSample { location_id: places, value });
    }

    /// The profile's bytes, compressed by gzip.
    pub fn finish(self) -> std::io::Result<Vec<u8>> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&self.out.encode_to_vec())?;
        gzip.finish()
    }
}

/// Converts a number to pprof's signed type.
fn figure(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
