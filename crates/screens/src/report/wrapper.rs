//! The lines that limit a program's huge pages (`process_thp`) in production. No variable does this, so a wrapper starts the program. In:
//! a candidate. Out: the words before the program, for each place.
//!
//! The wrapper is perl, which Debian's base system contains. It makes the system call and then becomes the program.

use allocanary_rows::{PROCESS_THP, Spec};
use allocanary_sys::sys::HugePages;
use allocanary_text::paste::quoted;

/// How a program with limited huge pages is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// The script that perl runs.
    script: String,
    /// The value of systemd's own directive.
    directive: &'static str,
}

impl Wrapper {
    /// The wrapper that a candidate needs.
    pub fn of(candidate: &Spec) -> Option<Wrapper> {
        let limit = HugePages::named(candidate.settings.get(PROCESS_THP)?)?;
        let directive = match limit {
            HugePages::Advised => "madvise",
            HugePages::Never => "disable",
        };
        let call = limit.system_call().map(|number| number.to_string()).join(", ");
        Some(Wrapper { script: format!("syscall({call}) == 0 or die; exec @ARGV or die"), directive })
    }

    /// The words of a shell before the program.
    pub fn shell(&self) -> String {
        format!("perl -e {}", quoted(&self.script))
    }

    /// The program and its arguments as a list in JSON, for a Dockerfile and for Kubernetes.
    fn list(&self, program: &str) -> String {
        format!("[\"perl\", \"-e\", \"{}\", \"{program}\"]", self.script)
    }

    /// The line of a Dockerfile.
    pub fn dockerfile(&self, program: &str) -> String {
        format!("ENTRYPOINT {}", self.list(program))
    }

    /// The line of a Kubernetes container.
    pub fn kubernetes(&self, program: &str) -> String {
        format!("command: {}", self.list(program))
    }

    /// The line of a unit of systemd of any version.
    pub fn systemd(&self, program: &str) -> String {
        format!("ExecStart=/usr/bin/perl -e '{}' {program}", self.script)
    }

    /// The line for systemd 260 and newer, which needs no wrapper.
    pub fn directive(&self) -> String {
        format!("MemoryTHP={}", self.directive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn wrapper(candidate: &str) -> Option<Wrapper> {
        Wrapper::of(&Spec::parse(candidate).unwrap())
    }

    #[test]
    fn each_place_has_a_line_and_nothing_that_it_would_replace() {
        let never = wrapper("own:process_thp=never").unwrap();
        let lines = [never.dockerfile("APP"), never.kubernetes("APP"), never.systemd("APP")];
        assert!(lines.iter().all(|line| line.contains("41, 1, 0, 0, 0) == 0 or die; exec @ARGV or die")), "{lines:?}");
        // systemd would replace `$name` and `%x`.
        assert!(!lines[2].contains(['$', '%']), "{}", lines[2]);
        assert_eq!(never.directive(), "MemoryTHP=disable");
        let advised = wrapper("system:arena_max=1,process_thp=advised").unwrap();
        assert!(advised.shell().contains("41, 1, 2, 0, 0)") && advised.directive() == "MemoryTHP=madvise");
        assert_eq!(wrapper("jemalloc:thp=never"), None, "this is jemalloc's own");
    }

    #[test]
    fn the_shells_words_limit_what_they_start() {
        let status = |words: &str| {
            let line = format!("{words} cat /proc/self/status");
            let ran = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            allocanary_sys::proc::ProcStatus::parse(&ran.stdout).may_have_huge_pages
        };
        let before = status("");
        let limited = status(&wrapper("own:process_thp=never").unwrap().shell());
        assert_eq!(limited, before.map(|_| false), "perl is needed, which Debian's base system has");
    }
}
