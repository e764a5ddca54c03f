//! Reads the settings that code has made in a running process. `install!` and the preloads leave notices of these in the process's memory.

use std::collections::BTreeMap;

use allocanary_facts::notice::{MARK, MOST, parse};
use allocanary_heap::{Mapping, Memory};

/// A notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The file in whose memory it is: the program, or a preload.
    pub file: String,
    /// Whether a preload left it; otherwise `install!`.
    pub preload: bool,
    /// The allocator: `jemalloc`.
    pub allocator: String,
    /// The settings that code gave it, by name. The environment takes precedence.
    pub settings: BTreeMap<String, String>,
    /// The part of the text that was refused, and what was expected. Then no setting is in force.
    pub refused: Option<String>,
    /// Whether some settings did not fit into the notice.
    pub cut: bool,
}

impl Notice {
    /// The settings in one line: `arena_max=2,thread_idle=100ms`.
    pub fn line(&self) -> String {
        let all = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        all.chain(self.cut.then(|| "and more".to_string())).collect::<Vec<_>>().join(",")
    }

    fn of(file: &str, text: &str) -> Option<Notice> {
        let mut lines = text.lines();
        let (by, allocator) = lines.next()?.split_once(' ')?;
        let mut notice =
            Notice { file: file.into(), preload: by == "preload", allocator: allocator.into(), ..Notice::default() };
        for line in lines {
            match (line.strip_prefix("refused "), line.split_once('=')) {
                (Some(refused), _) => notice.refused = Some(refused.into()),
                (None, Some((name, value))) => {
                    notice.settings.insert(name.into(), value.into());
                }
                (None, None) => notice.cut = true,
            }
        }
        Some(notice)
    }
}

/// The number of data bytes that are read at once. After them, as many bytes as the longest notice has are read too, because a notice may
/// begin at their end.
const PIECE: usize = 1 << 20;

/// The bytes of the longest notice.
const LONGEST: usize = MARK.len() + 4 + MOST;

/// The notices in a process's memory. They are in the writable data of programs and libraries. Only resident pages are read.
pub fn notices(memory: &dyn Memory) -> Vec<Notice> {
    let is_data = |one: &&Mapping| one.writable && !one.shared && one.inode != 0;
    let (mut found, mut bytes) = (Vec::new(), Vec::new());
    for mapping in memory.mappings().iter().filter(is_data) {
        for run in memory.pages().within(mapping.from, mapping.to).filter(|run| run.state.is_resident()) {
            for from in (run.from..run.to).step_by(PIECE) {
                let length = (run.to - from).min((PIECE + LONGEST) as u64) as usize;
                bytes.resize(length, 0);
                if !memory.read(from, &mut bytes) {
                    continue;
                }
                // A notice begins at a multiple of 16. It may continue in the next page, which is then resident too.
                for at in (0..length.min(PIECE)).step_by(MARK.len()) {
                    if let Some(text) = parse(&bytes[at..length.min(at + LONGEST)]) {
                        found.extend(Notice::of(&mapping.name, text));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::{Machine, PAGE, PageRun, PageState, PageStates, ThreadId};

    /// A file's data with a notice in them, and a page that is not resident.
    struct Data(Vec<Mapping>, PageStates, Vec<u8>);

    impl Data {
        /// Puts the notice across the boundary of two pages.
        fn with(text: &str) -> Data {
            Data::at(PAGE as usize - 32, 2 * PAGE as usize, text)
        }

        fn at(place: usize, length: usize, text: &str) -> Data {
            let (from, to) = (0x10000, 0x10000 + length as u64 + PAGE);
            let mapping =
                Mapping { from, to, readable: true, writable: true, inode: 7, name: "/a".into(), ..Mapping::default() };
            let mut pages = PageStates::default();
            pages.push(PageRun { from, to: to - PAGE, state: PageState::Resident });
            let mut bytes = vec![0; length];
            let notice = [&MARK[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
            bytes[place..][..notice.len()].copy_from_slice(&notice);
            Data(vec![mapping], pages, bytes)
        }
    }

    impl Memory for Data {
        fn machine(&self) -> Machine {
            Machine::X86_64
        }
        fn mappings(&self) -> &[Mapping] {
            &self.0
        }
        fn threads(&self) -> &[ThreadId] {
            &[]
        }
        fn pages(&self) -> &PageStates {
            &self.1
        }
        fn read(&self, at: u64, into: &mut [u8]) -> bool {
            let from = (at - 0x10000) as usize;
            self.2.get(from..from + into.len()).map(|bytes| into.copy_from_slice(bytes)).is_some()
        }
    }

    #[test]
    fn settings_are_found_by_the_mark() {
        let found = notices(&Data::with("preload jemalloc\nnarenas=2\nthread_idle=100ms\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].preload && found[0].allocator == "jemalloc" && found[0].file == "/a", "{found:?}");
        assert_eq!(found[0].line(), "narenas=2,thread_idle=100ms");
    }

    #[test]
    fn a_notice_over_the_border_of_two_pieces_is_found_once() {
        let lines = format!("install system\na={}\n", "b".repeat(MOST - 18));
        for place in [PIECE - 1024, PIECE - 1008, PIECE - 16, PIECE, 2 * PIECE - 16] {
            let found = notices(&Data::at(place, 3 * PIECE, &lines));
            assert_eq!(found.iter().map(|one| one.line().len()).collect::<Vec<_>>(), [MOST - 16], "{place}");
        }
    }

    #[test]
    fn what_was_refused_and_what_was_cut_are_said() {
        let refused = &notices(&Data::with("preload system\nrefused `arena`: wanted a setting\n"))[0];
        assert_eq!((refused.refused.as_deref(), refused.line()), (Some("`arena`: wanted a setting"), String::new()));
        assert!(notices(&Data::with("install system\nmore\n"))[0].cut);
        assert_eq!(notices(&Data::with("")), []);
    }
}
