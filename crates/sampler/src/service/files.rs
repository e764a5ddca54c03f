//! The files in this program's memory. In: mappings. Out: files with code.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::build_ids;
use allocanary_profile::pprof;
use allocanary_profile::reader::Mapping;

/// The mapped code of a file.
pub(super) struct File {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
    build_id: String,
}

impl File {
    /// Whether a return address is in this code.
    pub(super) fn has(&self, pc: u64) -> bool {
        (self.start..self.end).contains(&pc.saturating_sub(1))
    }

    /// A number for this file at this address.
    pub(super) fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.start, &self.path).hash(&mut hasher);
        hasher.finish()
    }

    /// The file in the form that pprof takes.
    pub(super) fn described(&self, is_named: bool) -> pprof::PprofFile<'_> {
        let File { start, end, offset, path, build_id } = self;
        pprof::PprofFile { start: *start, end: *end, offset: *offset, path, build_id: build_id.clone(), is_named }
    }
}

/// The code of each file. That of the program comes first.
pub(super) fn of(mappings: &[Mapping]) -> Vec<File> {
    let code = mappings.iter().filter(|one| one.executable && !one.name.is_empty());
    let ids = build_ids::all();
    let file = |one: &Mapping| {
        let id = ids.iter().find(|(range, _)| range.start < one.to && one.from < range.end);
        let build_id = id.map(|(_, id)| id.clone()).unwrap_or_default();
        File { start: one.from, end: one.to, offset: one.offset, path: one.name.clone(), build_id }
    };
    let mut files: Vec<File> = code.map(file).collect();
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    files.sort_by_key(|file| program.as_os_str() != file.path.as_str());
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this test's own process.
    #[test]
    fn a_mapped_file_has_its_build_id() {
        let files = of(&allocanary_profile::reader::own_mappings().unwrap());
        let c_library = files.iter().find(|file| file.has(libc::getpid as *const () as u64 + 1)).unwrap();
        assert!(c_library.described(true).build_id.len() >= 16, "{}", c_library.path);
    }

    #[test]
    fn code_is_a_file_and_data_is_none() {
        let mapping = |from: u64, executable, path: &str| Mapping {
            from,
            to: from + 0x1000,
            offset: 0x2000,
            executable,
            name: path.into(),
            ..Mapping::default()
        };
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let program = program.to_str().unwrap();
        let files = of(&[
            mapping(0x1000, true, "/lib/one.so"),
            mapping(0x2000, false, "/lib/one.so"),
            mapping(0x3000, true, ""),
            mapping(0x4000, true, program),
        ]);
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [program, "/lib/one.so"]);
        // A return address is behind its call, which may be the file's last instruction.
        assert_eq!([0x1000, 0x1001, 0x2000, 0x2001].map(|pc| files[1].has(pc)), [false, true, true, false]);
        assert_eq!(files[1].described(true).offset, 0x2000);
    }
}
