//! What is only looked at is not started: a program whose file names a script as its loader.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;
use tempfile::{TempDir, tempdir};

use super::record::traces;
use super::support::{Ran, allocanary, words};

const SOURCE: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(void) { free(malloc(7)); puts(\"ready=1\"); fflush(stdout); getchar(); return 0; }\n";

/// A program with a loader of its own, which is a copy of this host's.
struct Victim {
    folder: TempDir,
    program: PathBuf,
    loader: PathBuf,
}

impl Victim {
    fn new() -> Option<Victim> {
        let folder = tempdir().unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut files = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let Some(theirs) = files.find(|path| path.contains("/ld-linux")) else {
            skipped("no glibc");
            return None;
        };
        let (loader, source) = (folder.path().join("ld-linux-own.so"), folder.path().join("victim.c"));
        fs::copy(theirs, &loader).unwrap();
        fs::write(&source, SOURCE).unwrap();
        let program = compiled(&source, folder.path(), &[&format!("-Wl,--dynamic-linker={}", loader.display())])?;
        Some(Victim { folder, program, loader })
    }

    fn ran(&self) -> PathBuf {
        self.folder.path().join("ran")
    }

    /// From now on the loader is a script.
    fn replace(&self) {
        fs::remove_file(&self.loader).unwrap();
        fs::write(&self.loader, format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", self.ran().display())).unwrap();
        fs::set_permissions(&self.loader, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the command, which must not run the script.
    fn told(&self, line: &str) -> Ran {
        let ran = allocanary(self.folder.path(), words(line));
        assert!(!self.ran().exists(), "{line}: {}{}", fs::read_to_string(self.ran()).unwrap(), ran.err);
        ran
    }
}

#[test]
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn a_process_to_record_does_not_choose_what_is_run() {
    let Some(victim) = Victim::new() else { return };
    let mut running = Running::start(&mut Command::new(&victim.program));
    running.counts();
    victim.replace();
    let ran = victim.told(&format!("record --attach {} --for 50ms -o traces", running.pid()));
    assert!(!ran.err.contains("cannot be recorded"), "{}", ran.err);
}

#[test]
fn a_trace_does_not_choose_what_is_run() {
    let Some(victim) = Victim::new() else { return };
    let program = victim.program.display();
    let ran = victim.told(&format!("record -o traces -- {program}"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let [trace] = &traces(&victim.folder.path().join("traces"))[..] else { panic!("one trace: {}", ran.err) };
    victim.replace();
    let ran = victim.told(&format!("who {} --under own", trace.display()));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("under system"), "{}", ran.err);
}

#[test]
fn a_program_that_is_asked_about_does_not_choose_what_is_run() {
    let Some(victim) = Victim::new() else { return };
    victim.replace();
    let ran = victim.told(&format!("-- {}", victim.program.display()));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("has glibc's malloc. Nothing was started."), "{}", ran.out);
}
