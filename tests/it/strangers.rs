//! Processes of strangers: what they name is not opened, what they map is parsed by a child without rights, and nothing
//! waits for a file system that does not answer.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};
use tempfile::{TempDir, tempdir};

use super::damaged::MEMORY;
use super::support::{Ran, allocanary};
use super::watched::{Watched, Watcher};

const PROFILE: &str = env!("CARGO_BIN_EXE_preload-profile");

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/strangers_c").join(name)
}

/// A library whose function of this name allocates. The functions `held` and `other` have the same code.
fn library(folder: &Path, name: &str, function: &str) -> Option<PathBuf> {
    library_with(folder, name, function, "")
}

/// The same with more code.
fn library_with(folder: &Path, name: &str, function: &str, more: &str) -> Option<PathBuf> {
    let code = folder.join(format!("{name}.c"));
    let text = format!(
        "#include <stdlib.h>\n#include <string.h>\n{more}\n\
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
    // The kernel adds this to the name of a file that is gone.
    for name in [library.display().to_string(), format!("{} (deleted)", library.display())] {
        symlink(&secret, name).unwrap();
    }
    let ran = who(folder.path(), &process);
    assert!(!ran.out.contains("\"other\""), "{ran:?}");
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        assert!(ran.out.contains("\"held\""), "root still reads the file that is mapped: {ran:?}");
    }
}

/// Makes the table of symbols of a library 1 GiB long, in a file that has few bytes on the disk.
fn make_sparse(library: &Path) {
    let bytes = fs::read(library).unwrap();
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let at = sections.iter().position(|section| section.sh_type(endian) == elf::SHT_SYMTAB).unwrap();
    let place = header.e_shoff(endian) + at as u64 * 64 + 24;
    let bytes: u64 = (1 << 30) / 24 * 24;
    let file = File::options().write(true).open(library).unwrap();
    file.write_all_at(&(1_u64 << 20).to_le_bytes(), place).unwrap();
    file.write_all_at(&bytes.to_le_bytes(), place + 8).unwrap();
    file.set_len(bytes + (2 << 20)).unwrap();
}

/// Runs the command with these words, which must take little memory.
fn in_little_memory(folder: &Path, line: &str) -> Ran {
    let watcher = Watcher::new().expect("a library was compiled before");
    let Watched { output, status, memory } = watcher.run(folder, line);
    let ran = Ran { code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)), ..output.into() };
    assert!(memory <= MEMORY, "{line}: {memory} KiB: {ran:?}");
    ran
}

#[test]
fn a_table_of_symbols_of_a_gigabyte_takes_no_memory() {
    let folder = tempdir().unwrap();
    let Some(library) = library(folder.path(), "lib", "held") else { return };
    make_sparse(&library);
    let Some(process) = start(folder.path(), &library, "", &[]) else { return };
    let ran = in_little_memory(folder.path(), &format!("give-back {} --dry-run", process.pid()));
    assert!(ran.code == Some(0) && ran.out.contains("malloc_trim"), "{ran:?}");
    if cfg!(target_arch = "x86_64") {
        let ran = in_little_memory(folder.path(), &format!("record --attach {} --for 50ms -o traces", process.pid()));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

/// One zero and copies of it, 258 bytes each, as zlib packs them: a block with the fixed codes.
fn packed_zeros(copies: u64) -> Vec<u8> {
    let mut packed = vec![0x78, 0x9c];
    let (mut held, mut count) = (0_u64, 0);
    let mut put = |bits: u64, of: u32| {
        held |= bits << count;
        count += of;
        while count >= 8 {
            packed.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    };
    put(0b011, 3);
    put(0b0000_1100, 8);
    (0..copies).for_each(|_| put(0b0_0000_1010_0011, 13));
    // The end of the block, and of its last byte.
    put(0, 7 + 7);
    let sum = ((1 + copies * 258) % 65521) << 16 | 1;
    packed.extend((sum as u32).to_be_bytes());
    packed
}

/// Puts compressed debug information into a library, which says that it has so many bytes.
fn make_bomb(library: &Path, packed: &[u8], bytes: u64) {
    let mut file = fs::read(library).unwrap();
    let header = elf::FileHeader64::<Endianness>::parse(&*file).unwrap();
    let endian = header.endian().unwrap();
    let (at, _) = header.sections(endian, &*file).unwrap().section_by_name(endian, b".debug_info").unwrap();
    let place = header.e_shoff(endian) as usize + at.0 * 64;
    let end = file.len() as u64;
    file[place + 8..place + 16].copy_from_slice(&elf::SHF_COMPRESSED.0.to_le_bytes());
    file[place + 24..place + 32].copy_from_slice(&end.to_le_bytes());
    file[place + 32..place + 40].copy_from_slice(&(24 + packed.len() as u64).to_le_bytes());
    for number in [u64::from(elf::ELFCOMPRESS_ZLIB.0), bytes, 1] {
        file.extend(number.to_le_bytes());
    }
    file.extend(packed);
    fs::write(library, file).unwrap();
}

#[test]
fn debug_information_that_inflates_takes_no_memory() {
    const COPIES: u64 = (3 << 29) / 258;
    let packed = packed_zeros(COPIES);
    for (says, wanted) in [(1 + COPIES * 258, "its debug information has a section of 1535 MiB"), (1 << 20, "")] {
        let folder = tempdir().unwrap();
        let Some(library) = library(folder.path(), "lib", "held") else { return };
        make_bomb(&library, &packed, says);
        let Some(process) = start(folder.path(), &library, PROFILE, &[]) else { return };
        let ran = in_little_memory(folder.path(), &format!("who {} --json", process.pid()));
        assert!(ran.code == Some(0) && ran.out.contains("\"held\"") && ran.out.contains(wanted), "{says}: {ran:?}");
    }
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

    /// It does not answer while the result lives.
    fn stall(&self) -> Stalled {
        let stall = self.folder.path().join("stall");
        fs::write(&stall, "").unwrap();
        Stalled(stall)
    }
}

/// What keeps the file system from answering. It goes before the processes that wait for the file system, which could not be ended.
struct Stalled(PathBuf);

impl Stalled {
    /// Whether the file system still does not answer. It answers once a process has waited for five minutes.
    fn holds(&self) -> bool {
        self.0.exists()
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn slow() -> Option<(Slow, TempDir, PathBuf)> {
    let folder = tempdir().unwrap();
    // Data that the process never touches: its pages are not read from the file.
    let library = library_with(folder.path(), "lib", "held", "char data[8 << 20] = {1};")?;
    let slow = Slow::start(&library)?;
    let place = slow.library();
    Some((slow, folder, place))
}

/// A line of what the kernel says of each thread.
fn of_threads(process: &Running, name: &str) -> Vec<String> {
    let folder = format!("/proc/{}/task", process.pid());
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).unwrap();
    let line = |text: String| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_string();
    fs::read_dir(folder).unwrap().map(|task| line(status(task.unwrap()))).collect()
}

fn is_stopped(process: &Running) -> bool {
    of_threads(process, "State:").iter().any(|state| state.contains("stop"))
}

/// Whether the thread that maps memory goes on: it sleeps after each turn.
fn maps_memory(process: &Running) -> bool {
    let sleeps = || {
        of_threads(process, "voluntary_ctxt_switches:").iter().map(|count| count.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = sleeps();
    (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        sleeps() >= before + 3
    })
}

#[test]
fn a_stopped_process_does_not_wait_for_a_file_system_that_does_not_answer() {
    let Some((slow, folder, library)) = slow() else { return };
    let Some(process) = start(folder.path(), &library, "", &[]) else { return };
    let stalled = slow.stall();
    let ran = allocanary(folder.path(), ["heap", &process.pid().to_string(), "--freeze", "--timeout", "2s"]);
    assert!(!is_stopped(&process), "{ran:?}");
    assert!(stalled.holds(), "it waited for the file system: {ran:?}");
    // Its heap is divided without the file.
    assert!(ran.code == Some(0) && ran.out.contains("live") && ran.out.contains("was stopped for"), "{ran:?}");
}

#[test]
fn no_verb_waits_for_a_file_system_that_does_not_answer() {
    let Some((slow, folder, library)) = slow() else { return };
    let Some(process) = start(folder.path(), &library, PROFILE, &[]) else { return };
    assert!(maps_memory(&process));
    let stalled = slow.stall();
    let pid = process.pid().to_string();
    for verb in [&["heap", &pid][..], &["doctor", &pid], &["who", &pid], &["give-back", &pid, "--dry-run"], &[&pid]] {
        let ran = allocanary(folder.path(), verb);
        assert!(ran.code.is_some(), "{verb:?}: {ran:?}");
        assert!(!is_stopped(&process), "{verb:?}: {ran:?}");
        assert!(maps_memory(&process), "{verb:?}: the process's own mmap waits: {ran:?}");
        assert!(stalled.holds(), "{verb:?} waited for the file system: {ran:?}");
    }
}
