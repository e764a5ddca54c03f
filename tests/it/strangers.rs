//! Processes of strangers: what they name is not opened, what they map is parsed by a child without rights, and nothing
//! waits for a file system that does not answer.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::support::{Ran, allocanary, command};

const PROFILE: &str = env!("CARGO_BIN_EXE_preload-profile");

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/strangers_c").join(name)
}

/// A library whose function of this name allocates. The functions `held` and `other` have the same code.
fn library(folder: &Path, name: &str, function: &str) -> Option<PathBuf> {
    let code = folder.join(format!("{name}.c"));
    let text = format!(
        "#include <stdlib.h>\n#include <string.h>\n\
         __attribute__((noinline)) void *{function}(size_t n) {{ char *p = malloc(n); memset(p, 1, n); return p; }}\n"
    );
    fs::write(&code, text).unwrap();
    compiled(&code, folder, &["-g", "-shared", "-fPIC", "-Wl,--build-id"])
}

/// A process that has loaded this library, with more arguments.
fn start(folder: &Path, library: &Path, preload: &str, more: &[&Path]) -> Option<Running> {
    let program = compiled(&source("mapper.c"), folder, &["-ldl"])?;
    let mut command = Command::new(program);
    command.arg(library).args(more).env("LD_PRELOAD", preload);
    let mut running = Running::start(&mut command);
    assert_eq!(running.counts()["ready"], 1);
    Some(running)
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn who(folder: &Path, process: &Running) -> Ran {
    let ran = allocanary(folder, ["who", &process.pid().to_string(), "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

#[test]
fn a_pipe_in_the_place_of_debug_information_is_not_waited_for() {
    let folder = tempdir().unwrap();
    let Some(library) = library(folder.path(), "lib", "held") else { return };
    fifo(&PathBuf::from(format!("{}.dwp", library.display())));
    let Some(process) = start(folder.path(), &library, PROFILE, &[]) else { return };
    let ran = who(folder.path(), &process);
    assert!(ran.out.contains("\"held\""), "{ran:?}");
}

#[test]
fn a_file_in_the_place_of_a_mapped_one_has_no_names() {
    let folder = tempdir().unwrap();
    let Some(library) = library(folder.path(), "lib", "held") else { return };
    let Some(process) = start(folder.path(), &library, PROFILE, &[]) else { return };
    let Some(secret) = self::library(folder.path(), "secret", "other") else { return };
    fs::remove_file(&library).unwrap();
    symlink(secret, &library).unwrap();
    let ran = who(folder.path(), &process);
    assert!(!ran.out.contains("\"other\""), "{ran:?}");
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        assert!(ran.out.contains("\"held\""), "root still reads the file that is mapped: {ran:?}");
    }
}

/// Makes the table of symbols of a library 3 GiB long, in a file that has few bytes on the disk.
fn make_sparse(library: &Path) {
    let bytes = fs::read(library).unwrap();
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let at = sections.iter().position(|section| section.sh_type(endian) == elf::SHT_SYMTAB).unwrap();
    let place = header.e_shoff(endian) + at as u64 * 64 + 24;
    let bytes: u64 = (3 << 30) / 24 * 24;
    let file = File::options().write(true).open(library).unwrap();
    file.write_all_at(&(1_u64 << 20).to_le_bytes(), place).unwrap();
    file.write_all_at(&bytes.to_le_bytes(), place + 8).unwrap();
    file.set_len(bytes + (2 << 20)).unwrap();
}

#[test]
fn a_table_of_symbols_of_gigabytes_takes_no_memory() {
    let folder = tempdir().unwrap();
    let Some(library) = library(folder.path(), "lib", "held") else { return };
    make_sparse(&library);
    let Some(process) = start(folder.path(), &library, "", &[]) else { return };
    let mut command = command(folder.path());
    command.args(["give-back", &process.pid().to_string(), "--dry-run"]);
    let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    // SAFETY: between fork and exec it makes one system call, with a structure of its own.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let ran = Ran::from(command.finish().unwrap());
    assert!(ran.code == Some(0) && ran.out.contains("malloc_trim"), "{ran:?}");
}

#[test]
fn a_pipe_in_the_place_of_a_runtimes_description_is_not_waited_for() {
    let folder = tempdir().unwrap();
    let Some(library) = library(folder.path(), "lib", "held") else { return };
    let home = folder.path().join("jdk");
    fs::create_dir_all(home.join("lib/server")).unwrap();
    fs::copy(&library, home.join("lib/server/libjvm.so")).unwrap();
    fifo(&home.join("release"));
    let Some(process) = start(folder.path(), &library, "", &[&home.join("lib/server/libjvm.so")]) else { return };
    let ran = allocanary(folder.path(), ["doctor", &process.pid().to_string()]);
    assert!(ran.code == Some(0) && !ran.out.contains("took more than"), "{ran:?}");
}

/// A file system that can stop answering.
struct Slow {
    server: Child,
    folder: TempDir,
}

impl Slow {
    /// Serves a copy of this library. `None`, and a line, if that is not possible here.
    fn start(library: &Path) -> Option<Slow> {
        let folder = tempdir().unwrap();
        let (place, files) = (folder.path().join("place"), folder.path().join("files"));
        fs::create_dir(&place).unwrap();
        fs::create_dir(&files).unwrap();
        fs::copy(library, files.join("lib.so")).unwrap();
        let mut command = Command::new("/usr/bin/python3");
        command.arg(source("fuse.py")).args([&place, &files, &folder.path().join("stall")]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "ready\n" {
            let _ = server.wait();
            skipped("no file system in user space: wanted root and /dev/fuse");
            return None;
        }
        Some(Slow { server, folder })
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("place/lib.so")
    }

    fn stall(&self) {
        fs::write(self.folder.path().join("stall"), "").unwrap();
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.path().join("stall"));
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn slow() -> Option<(Slow, TempDir, PathBuf)> {
    let folder = tempdir().unwrap();
    let library = library(folder.path(), "lib", "held")?;
    let slow = Slow::start(&library)?;
    let place = slow.library();
    Some((slow, folder, place))
}

fn state(process: &Running) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    status.lines().find(|line| line.starts_with("State:")).unwrap().to_string()
}

#[test]
fn a_stopped_process_does_not_wait_for_a_file_system_that_does_not_answer() {
    let Some((slow, folder, library)) = slow() else { return };
    let Some(process) = start(folder.path(), &library, "", &[]) else { return };
    slow.stall();
    let ran = allocanary(folder.path(), ["heap", &process.pid().to_string(), "--freeze", "--timeout", "2s"]);
    assert!(ran.code == Some(0), "{ran:?}");
    assert!(!state(&process).contains("stop"), "{}: {ran:?}", state(&process));
    // Its heap is divided without the file.
    assert!(ran.out.contains("live") && ran.out.contains("was stopped for"), "{ran:?}");
}

#[test]
fn no_verb_waits_for_a_file_system_that_does_not_answer() {
    let Some((slow, folder, library)) = slow() else { return };
    let Some(process) = start(folder.path(), &library, PROFILE, &[]) else { return };
    slow.stall();
    let pid = process.pid().to_string();
    for verb in [&["heap", &pid][..], &["doctor", &pid], &["who", &pid], &["give-back", &pid, "--dry-run"], &[&pid]] {
        let ran = allocanary(folder.path(), verb);
        assert!(ran.code.is_some(), "{verb:?}: {ran:?}");
        assert!(
            !state(&process).contains("stop") && !state(&process).contains("disk"),
            "{verb:?}: {}",
            state(&process)
        );
    }
}
