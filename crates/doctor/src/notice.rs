//! What code has set in a running process: the notices that `install!` and the preloads leave in its memory. In: its memory. Out:
//! one value for each file that left one.

use std::collections::BTreeMap;

use allocanary_allocators::notice::{MARK, MOST, parse};
use allocanary_heap::{Mapping, Memory, State};

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
    /// The part of the text that was refused, and what was wanted. No setting holds then.
    pub refused: Option<String>,
    /// Whether there were more settings than a notice holds.
    pub cut: bool,
}

impl Notice {
    /// The settings in one line: `arena_max=2,idle=100ms`.
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
                (None, Some((name, value))) => drop(notice.settings.insert(name.into(), value.into())),
                (None, None) => notice.cut = true,
            }
        }
        Some(notice)
    }
}

/// The notices in a process's memory. They lie in the writable data of programs and libraries. Only pages that are there are read.
pub fn notices(memory: &dyn Memory) -> Vec<Notice> {
    let is_data = |one: &&Mapping| one.writable && !one.shared && one.inode != 0;
    let mut found = Vec::new();
    for mapping in memory.mappings().iter().filter(is_data) {
        for run in memory.pages().within(mapping.from, mapping.to) {
            let mut bytes = vec![0; (run.to - run.from) as usize];
            if !matches!(run.state, State::Resident | State::Huge) || !memory.read(run.from, &mut bytes) {
                continue;
            }
            // A notice begins at a multiple of 16, and may go on in the next page, which is then there too.
            for at in (0..bytes.len()).step_by(MARK.len()) {
                if let Some(text) = parse(&bytes[at..bytes.len().min(at + MARK.len() + 4 + MOST)]) {
                    found.extend(Notice::of(&mapping.name, text));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::{PAGE, Pages, Run, Thread};

    /// A file's data of two pages with a notice over their border, and a page that is not there.
    struct Data(Vec<Mapping>, Pages, Vec<u8>);

    impl Data {
        fn with(text: &str) -> Data {
            let (from, to) = (0x10000, 0x10000 + 3 * PAGE);
            let mapping =
                Mapping { from, to, readable: true, writable: true, inode: 7, name: "/a".into(), ..Mapping::default() };
            let mut pages = Pages::default();
            pages.push(Run { from, to: to - PAGE, state: State::Resident });
            let mut bytes = vec![0; 2 * PAGE as usize];
            let notice = [&MARK[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
            bytes[PAGE as usize - 32..][..notice.len()].copy_from_slice(&notice);
            Data(vec![mapping], pages, bytes)
        }
    }

    impl Memory for Data {
        fn mappings(&self) -> &[Mapping] {
            &self.0
        }
        fn threads(&self) -> &[Thread] {
            &[]
        }
        fn pages(&self) -> &Pages {
            &self.1
        }
        fn read(&self, at: u64, into: &mut [u8]) -> bool {
            let from = (at - 0x10000) as usize;
            self.2.get(from..from + into.len()).map(|bytes| into.copy_from_slice(bytes)).is_some()
        }
    }

    #[test]
    fn settings_are_found_by_the_mark() {
        let found = notices(&Data::with("preload jemalloc\nnarenas=2\nidle=100ms\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].preload && found[0].allocator == "jemalloc" && found[0].file == "/a", "{found:?}");
        assert_eq!(found[0].line(), "idle=100ms,narenas=2");
    }

    #[test]
    fn what_was_refused_and_what_was_cut_are_said() {
        let refused = &notices(&Data::with("preload system\nrefused `arena`: wanted a setting\n"))[0];
        assert_eq!((refused.refused.as_deref(), refused.line()), (Some("`arena`: wanted a setting"), String::new()));
        assert!(notices(&Data::with("install system\nmore\n"))[0].cut);
        assert_eq!(notices(&Data::with("")), []);
    }
}
