//! Names the code that a runtime makes at run time, from a perf map such as Python writes to `/tmp/perf-PID.map`. Each line has an address
//! and a length, both hexadecimal, and a name.
//!
//! Lines of another form are ignored. If two ranges overlap, the later line wins, because its code was made later.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use allocanary_process::file;

use crate::frame::{NameSource, NamedFrame};

/// The longest map that is copied and read, in bytes: about 600,000 functions.
pub const LONGEST: u64 = 64 << 20;

/// The module of Python's functions, whose code is in no file.
pub const PYTHON: &str = "[python]";
/// The module of other functions with a name of a perf map.
const MADE: &str = "[jit]";

/// The path of a trace's map. It is next to the trace, so that `mv NAME.trace*` moves both.
pub fn beside(trace: &Path) -> PathBuf {
    let mut path = OsString::from(trace);
    path.push(".perfmap");
    path.into()
}

/// A map.
#[derive(Default)]
pub(crate) struct PerfMap {
    text: String,
    /// For each first address: the end of the range, and the begin and the end of the name in `text`. No two ranges overlap.
    ranges: BTreeMap<u64, (u64, u32, u32)>,
}

impl PerfMap {
    /// Reads the map of a trace. `None` if it has none.
    pub(crate) fn of(trace: &Path) -> Result<Option<PerfMap>, String> {
        let path = beside(trace);
        let failed = |error: String| format!("{}: {error}; its names are not used", path.display());
        let wanted = |found: &str| failed(format!("wanted a regular file of at most {LONGEST} bytes, found {found}"));
        let opened = match file::of_host(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(wanted("none")),
            Err(error) => return Err(failed(error.to_string())),
        };
        if opened.stamp.bytes > LONGEST {
            return Err(wanted(&format!("one of {} bytes", opened.stamp.bytes)));
        }
        let bytes = opened.head(LONGEST as usize).map_err(|error| failed(error.to_string()))?;
        Ok(Some(PerfMap::read(&bytes)))
    }

    /// Reads a text.
    pub(crate) fn read(bytes: &[u8]) -> PerfMap {
        let mut map = PerfMap { text: String::from_utf8_lossy(bytes).into_owned(), ranges: BTreeMap::new() };
        let lines = map.text.split_inclusive('\n').scan(0, |next, line| {
            let start = *next;
            *next += line.len();
            Some((start, line))
        });
        for (start, line) in lines {
            if let Some((first, behind, name)) = parts(line) {
                let from = start + (name.as_ptr().addr() - line.as_ptr().addr());
                let (Ok(from), Ok(to)) = (u32::try_from(from), u32::try_from(from + name.len())) else { break };
                put(&mut map.ranges, first, (behind, from, to));
            }
        }
        map
    }

    /// The name of an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let (_, (behind, from, to)) = self.ranges.range(..=address).next_back()?;
        (address < *behind).then(|| &self.text[*from as usize..*to as usize])
    }
}

/// The parts of a line: the first address, the end, the name.
fn parts(line: &str) -> Option<(u64, u64, &str)> {
    let (first, rest) = line.trim().split_once([' ', '\t'])?;
    let (length, name) = rest.trim_start().split_once([' ', '\t'])?;
    let first = number(first)?;
    let behind = first.checked_add(number(length)?)?;
    let name = name.trim();
    (first < behind && !name.is_empty()).then_some((first, behind, name))
}

/// A hexadecimal number. Java writes `0x` before it.
fn number(text: &str) -> Option<u64> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'))
}

/// Adds a range, which replaces the overlapped parts of others.
fn put(ranges: &mut BTreeMap<u64, (u64, u32, u32)>, first: u64, range: (u64, u32, u32)) {
    let behind = range.0;
    if let Some((_, before)) = ranges.range_mut(..first).next_back()
        && before.0 > first
    {
        let rest = *before;
        before.0 = first;
        if rest.0 > behind {
            ranges.insert(behind, rest);
        }
    }
    while let Some((start, covered)) = ranges.range(first..behind).next().map(|(start, covered)| (*start, *covered)) {
        ranges.remove(&start);
        if covered.0 > behind {
            ranges.insert(behind, covered);
        }
    }
    ranges.insert(first, range);
}

/// The frame of a name. Python writes `py::function:/path/file.py`; names of other runtimes are used as they are.
pub(crate) fn frame(name: &str) -> NamedFrame {
    let (function, file, module) = match name.strip_prefix("py::") {
        Some(name) => (name, name.split_once(':').map_or("", |(_, file)| file), PYTHON),
        None => (name, "", MADE),
    };
    NamedFrame {
        function: function.into(),
        source: NameSource::Map,
        file: file.into(),
        module: module.into(),
        ..NamedFrame::default()
    }
}

#[cfg(test)]
mod tests;
