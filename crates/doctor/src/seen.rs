//! Other facts about a running process that affect the advice, from its files, its threads and its environment. A fact is unknown if
//! nothing shows it.

use std::collections::{BTreeMap, BTreeSet};

use super::signs::ProgramFile;

/// Facts about a process. The default is for an unknown program that is started from here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTraits {
    /// Number of threads.
    pub threads: Option<u64>,
    /// Number of jemalloc's background threads among them.
    pub background_threads: u64,
    /// Whether it has overwritten its initial environment.
    pub overwritten: bool,
    /// Whether it is a Rust program; `None` for a program that does not run.
    pub rust: Option<bool>,
    /// The settings that code (`install!`, or a preload) has given to the program's own allocator. The environment takes
    /// precedence.
    pub code: BTreeMap<String, String>,
    /// Whether it is a Java virtual machine, whose heap is not malloc's.
    pub jvm: bool,
    /// The release of its JDK, such as 17.0.9, if the JDK's file contains it.
    pub jdk: Option<(u32, u32, u32)>,
    /// Facts that its libraries show.
    pub libraries: Libraries,
}

/// Facts that a program's linked or mapped allocators show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// jemalloc's version.
    pub jemalloc: Option<String>,
    /// The words in mimalloc's file. The linker may store a word as the end of a longer one.
    pub mimalloc_words: Option<BTreeSet<String>>,
}

impl ProcessTraits {
    /// The facts that the files show.
    pub fn of(program: &ProgramFile, libraries: &[ProgramFile]) -> ProcessTraits {
        let parts = || std::iter::once(program).chain(libraries);
        let words = parts().map(|part| &part.marks.words).find(|words| !words.is_empty());
        ProcessTraits {
            rust: Some(program.marks.strings.contains("rust")),
            libraries: Libraries {
                jemalloc: parts().find_map(|part| part.marks.jemalloc.clone()),
                mimalloc_words: words.cloned(),
            },
            ..ProcessTraits::default()
        }
    }

    /// Whether it has only one thread, not counting the allocator's threads.
    pub fn is_single(&self) -> bool {
        self.threads.is_some_and(|threads| threads.saturating_sub(self.background_threads) <= 1)
    }
}

impl Libraries {
    /// jemalloc's version as three numbers.
    pub fn jemalloc_release(&self) -> Option<[u32; 3]> {
        let mut parts = self.jemalloc.as_deref()?.split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??, parts.next()??])
    }

    /// Whether mimalloc has an option; `None` if there is no file to search.
    pub fn has_option(&self, name: &str) -> Option<bool> {
        self.mimalloc_words.as_ref().map(|words| words.iter().any(|word| word.ends_with(name)))
    }
}

/// The release in a JDK's file `release`: `JAVA_VERSION="17.0.9"`.
pub fn jdk(text: &str) -> Option<(u32, u32, u32)> {
    let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?.trim().trim_matches('"');
    let mut parts = version.split(['.', '_', '-', '+']).map(|part| part.parse().unwrap_or(0));
    let major = parts.next().filter(|major| *major > 0)?;
    Some((major, parts.next().unwrap_or(0), parts.next().unwrap_or(0)))
}

/// Whether `/proc/<pid>/environ` is no longer the initial environment. setproctitle moves the variables elsewhere and
/// fills their place with zeros. A long title may extend into that place.
pub fn is_overwritten(environ: &[u8]) -> bool {
    let text = environ.strip_suffix(b"\0").unwrap_or(environ);
    if environ.is_empty() {
        return false;
    }
    let mut parts = text.split(|byte| *byte == 0);
    let is_variable = |part: &[u8]| part.iter().skip(1).any(|byte| *byte == b'=');
    !parts.next().is_some_and(is_variable) || parts.any(<[u8]>::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jdk_says_its_release() {
        let of =
            |version: &str| jdk(&format!("IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"{version}\"\nOS_NAME=\"Linux\"\n"));
        assert_eq!(of("17.0.13"), Some((17, 0, 13)));
        assert_eq!((of("22"), of("21.0.1+12")), (Some((22, 0, 0)), Some((21, 0, 1))));
        assert_eq!((of("x"), jdk("")), (None, None));
    }

    #[test]
    fn zeros_and_a_title_are_no_environment() {
        assert!(!is_overwritten(b"") && !is_overwritten(b"A=1\0B=\0") && !is_overwritten(b"A=1"));
        assert!(is_overwritten(&[0; 64]));
        assert!(is_overwritten(b"7.0.0.1:6379\0\0\0\0") && is_overwritten(b"6379\0PATH=/bin\0"));
    }

    #[test]
    fn background_threads_are_not_the_programs() {
        let seen =
            |threads, background_threads| ProcessTraits { threads, background_threads, ..ProcessTraits::default() };
        assert!(seen(Some(1), 0).is_single() && seen(Some(3), 2).is_single());
        assert!(!seen(Some(2), 0).is_single() && !seen(None, 0).is_single());
    }

    #[test]
    fn a_library_says_its_version_and_its_options() {
        let words = BTreeSet::from(["purge_delay".to_string(), "mi_allow_large_os_pages".into()]);
        let libraries = Libraries { jemalloc: Some("5.3.0".into()), mimalloc_words: Some(words) };
        assert_eq!(libraries.jemalloc_release(), Some([5, 3, 0]));
        assert_eq!(Libraries { jemalloc: Some("5.3".into()), ..Libraries::default() }.jemalloc_release(), None);
        let has = |name| libraries.has_option(name);
        assert_eq!(
            (has("allow_thp"), has("purge_delay"), has("large_os_pages")),
            (Some(false), Some(true), Some(true))
        );
        assert_eq!(Libraries::default().has_option("allow_thp"), None);
    }
}
