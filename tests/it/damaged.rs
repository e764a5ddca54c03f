//! Damaged files under every verb that reads them: a library of a process that runs, a core, a trace, readings and rows. The whole
//! command reads them, with its child, its filter and its limits. It must end in time, take little memory, and not panic. It must not open
//! the files that the damaged names lead to, and it must write only what was asked for.
//!
//! Each property draws the same values each time. `just fuzz` draws new ones.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::{core, fuzz};
use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::inotify;
use tempfile::{TempDir, tempdir};

use super::record::traces;
use super::support::{allocanary, golden_path, words};
use super::watched::{Watched, Watcher};

/// How many values of each property the gate draws: three hundred for all together.
const CASES: u32 = 75;

/// The limit of the child that reads, in KiB. The command itself takes less.
pub const MEMORY: u64 = 256 << 10;

/// Where a file is damaged: near its beginning, near its end, or anywhere.
#[derive(Clone, Copy, Debug)]
struct Place {
    region: u8,
    part: u32,
}

impl Place {
    fn in_file(self, bytes: usize) -> usize {
        let near = bytes.min(4096);
        let (from, room) = [(0, near), (bytes - near, near), (0, bytes)][usize::from(self.region)];
        from + ((u64::from(self.part) * room as u64) >> 32) as usize
    }
}

#[derive(Clone, Debug)]
enum Damage {
    /// Other bytes.
    Bytes(Place, Vec<u8>),
    /// A number at which sizes and offsets overflow, as four or as eight bytes.
    Number(Place, u64, bool),
    /// The file ends here.
    End(Place),
    /// The file is longer, by a hole.
    Hole(u64),
}

fn place() -> impl Strategy<Value = Place> {
    (0..3_u8, any::<u32>()).prop_map(|(region, part)| Place { region, part })
}

fn damage() -> impl Strategy<Value = Damage> {
    let numbers =
        prop::sample::select(vec![0, 1, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 1 << 40, i64::MAX as u64, u64::MAX]);
    prop_oneof![
        4 => (place(), vec(any::<u8>(), 1..64)).prop_map(|(at, bytes)| Damage::Bytes(at, bytes)),
        4 => (place(), numbers, any::<bool>()).prop_map(|(at, number, long)| Damage::Number(at, number, long)),
        1 => place().prop_map(Damage::End),
        1 => (1_u64 << 20..4 << 30).prop_map(Damage::Hole),
    ]
}

/// Damages a file, in place: a process that has mapped it goes on having it.
fn write_damaged(path: &Path, whole: &[u8], damages: &[Damage]) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(whole.len() as u64).unwrap();
    file.write_all_at(whole, 0).unwrap();
    for damage in damages {
        let put = |at: &Place, bytes: &[u8]| {
            let at = at.in_file(whole.len());
            file.write_all_at(&bytes[..bytes.len().min(whole.len() - at)], at as u64).unwrap();
        };
        match damage {
            Damage::Bytes(at, bytes) => put(at, bytes),
            Damage::Number(at, number, true) => put(at, &number.to_le_bytes()),
            Damage::Number(at, number, false) => put(at, &number.to_le_bytes()[..4]),
            Damage::End(at) => file.set_len(at.in_file(whole.len()) as u64).unwrap(),
            Damage::Hole(bytes) => file.set_len(whole.len() as u64 + bytes).unwrap(),
        }
    }
}

/// Files that nobody may open. The kernel reports it if one was.
struct Baits {
    events: OwnedFd,
}

impl Baits {
    fn new(paths: &[PathBuf]) -> Baits {
        let events = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        for path in paths {
            let flags = inotify::WatchFlags::OPEN | inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE;
            inotify::add_watch(&events, path, flags | inotify::WatchFlags::DELETE).unwrap();
        }
        Baits { events }
    }

    fn was_touched(&self) -> bool {
        let read = || rustix::io::read(&self.events, &mut [0; 4096]).is_ok_and(|bytes| bytes > 0);
        let mut was_touched = false;
        while read() {
            was_touched = true;
        }
        was_touched
    }
}

/// The files of a folder and of the folders in it, each with its size and the time of its last change. The output folder does not count. A
/// replay keeps what it has worked out beside its trace; that does not count either.
fn files_in(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut files = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let about = fs::symlink_metadata(&path).unwrap();
        match about.is_dir() {
            true if path.ends_with("out") => {}
            true => files.extend(files_in(&path)),
            false if path.extension().is_some_and(|ending| ending == "replay") => {}
            false => drop(files.insert(path, (about.len(), about.modified().unwrap()))),
        }
    }
    files
}

/// A folder with a library, a program that has loaded it, and what the library's names would lead to.
struct Setup {
    folder: TempDir,
    watcher: Watcher,
    library: PathBuf,
    program: PathBuf,
    baits: Baits,
}

impl Setup {
    fn new() -> Option<Setup> {
        let folder = tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("code")).unwrap();
        fs::create_dir(at("bait")).unwrap();
        let text = "#include <stdlib.h>\n#include <string.h>\nstruct one { long at; char *name; } kinds[4];\n\
            __attribute__((noinline)) void *held(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }\n";
        fs::write(at("code/library.c"), text).unwrap();
        let flags = ["-g", "-shared", "-fPIC", "-Wl,--build-id", "-gsplit-dwarf"];
        let library = compiled(&at("code/library.c"), &at("code"), &flags)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/strangers_c/damaged.c");
        let program = compiled(&source, folder.path(), &["-ldl"])?;
        let watcher = Watcher::new()?;
        // Pipes where a reader may look for debug information. `bait` and `code` have names of one length: in a trace and
        // a core, the names lead to the other folder.
        let mut places = vec![at("bait")];
        for name in ["code/library.dwp", "code/library.debug", "code/library.dwo", "bait/library"] {
            let _ = fs::remove_file(at(name));
            assert!(Command::new("mkfifo").arg(at(name)).status().unwrap().success());
            places.push(at(name));
        }
        let baits = Baits::new(&places);
        Some(Setup { library, program, baits, watcher, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A process with the library. It waits, and so the library's code does not run while its file is damaged.
    fn start(&self, preload: &str) -> (Running, u64) {
        let mut command = Command::new(&self.program);
        command.arg(&self.library).env("LD_PRELOAD", preload);
        let mut running = Running::start(&mut command);
        let local = running.counts()["local"];
        (running, local)
    }

    /// Runs the command with these words to its end, and checks what it did. Its output folder is `out`, and is emptied.
    /// Returns its exit code.
    fn check(&self, line: &str) -> i32 {
        let out = self.path("out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        let before = files_in(self.folder.path());
        // This look opened folders.
        self.baits.was_touched();
        let Watched { output, status, memory } = self.watcher.run(self.folder.path(), line);
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("it prints text")).concat();
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) <= 4, "{line}: status {status:#x}: {text}");
        assert!(!text.contains("panicked at") && !text.contains("overflowed its stack"), "{line}: {text}");
        assert!(!text.contains('\u{1b}'), "{line}: codes of a terminal: {text:?}");
        assert!(memory <= MEMORY, "{line}: {memory} KiB: {text}");
        assert!(!self.baits.was_touched(), "{line}: it opened or wrote a file that it has nothing to do with: {text}");
        assert_eq!(files_in(self.folder.path()), before, "{line}: {text}");
        libc::WEXITSTATUS(status)
    }

    /// These bytes with all names below `code` led to `bait`.
    fn led_astray(&self, bytes: &[u8]) -> Vec<u8> {
        let [from, to] = ["code/", "bait/"].map(|name| format!("{}/{name}", self.folder.path().display()).into_bytes());
        let mut bytes = bytes.to_vec();
        let places: Vec<usize> =
            bytes.windows(from.len()).enumerate().filter(|(_, one)| *one == from).map(|(at, _)| at).collect();
        assert!(!places.is_empty(), "the library's name is there");
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(&to);
        }
        bytes
    }
}

#[test]
fn a_bait_tells_that_it_was_opened() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("bait");
    fs::write(&path, "").unwrap();
    let baits = Baits::new(std::slice::from_ref(&path));
    // To look whether a file is one that may be opened is allowed.
    rustix::fs::open(&path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    assert!(!baits.was_touched());
    File::open(&path).unwrap();
    assert!(baits.was_touched());
}

/// Runs one of these lines on a file with each damage that is drawn. First each line runs on the whole file, and must succeed.
fn holds(setup: &Setup, file: &Path, whole: &[u8], cases: u32, lines: &[&str]) {
    for line in lines {
        write_damaged(file, whole, &[]);
        assert_eq!(setup.check(line), 0, "{line}");
    }
    fuzz::holds(cases, 1, (0..lines.len(), vec(damage(), 1..5)), |(line, damages)| {
        write_damaged(file, whole, &damages);
        setup.check(lines[line]);
    });
}

#[test]
fn fuzz_a_library_of_a_process() {
    let Some(setup) = Setup::new() else { return };
    let (running, _) = setup.start(env!("CARGO_BIN_EXE_preload-profile"));
    let whole = fs::read(&setup.library).unwrap();
    let pid = running.pid();
    let lines = [
        format!("heap {pid} --timeout 5s"),
        format!("heap {pid} --contents --timeout 5s"),
        format!("who {pid} --by line"),
        format!("doctor {pid}"),
        format!("give-back {pid} --dry-run"),
        format!("{pid}"),
        format!("-- {}", setup.library.display()),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    holds(&setup, &setup.library, &whole, CASES, &lines);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(!stat.contains(") Z "), "the process still runs: {stat}");
}

#[test]
fn fuzz_a_core() {
    let Some(setup) = Setup::new() else { return };
    let (running, local) = setup.start("");
    let whole = setup.led_astray(&core::of(running.pid(), "damaged", &[(running.pid(), local)], ""));
    let file = setup.path("core");
    File::create(&file).unwrap().write_all(&whole).unwrap();
    holds(&setup, &file, &whole, CASES, &["heap --core core --timeout 5s", "heap --core core --contents --timeout 5s"]);
}

#[test]
fn fuzz_a_trace() {
    let Some(setup) = Setup::new() else { return };
    let line =
        format!("record -o traces --stack-sample all -- {} {}", setup.program.display(), setup.library.display());
    let ran = allocanary(setup.folder.path(), words(&line));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let whole = setup.led_astray(&fs::read(&traces(&setup.path("traces"))[0]).unwrap());
    let file = setup.path("one.trace");
    File::create(&file).unwrap().write_all(&whole).unwrap();
    let lines = [
        "who one.trace",
        "who one.trace --by line",
        "report one.trace",
        "report one.trace --format html --output out/page.html",
        "trace check one.trace",
        "trace export one.trace --format json",
        "replay one.trace --candidates system --repeats 1 --settle 1ms --run-timeout 5s --out-dir out",
    ];
    holds(&setup, &file, &whole, CASES, &lines);
}

#[test]
fn fuzz_readings_and_rows() {
    let Some(setup) = Setup::new() else { return };
    for (name, lines) in [
        (
            "rows.jsonl",
            &["report rows.jsonl", "report rows.jsonl --output out/page.html", "compare rows.jsonl rows.jsonl"][..],
        ),
        ("heap-after.json", &["heap show heap-after.json", "heap diff heap-after.json heap-after.json"]),
        (
            "contents-after.json",
            &["heap show contents-after.json", "heap diff contents-after.json contents-after.json"],
        ),
    ] {
        let whole = fs::read(golden_path(name)).unwrap();
        let file = setup.path(name);
        fs::write(&file, &whole).unwrap();
        holds(&setup, &file, &whole, CASES / 3, lines);
    }
}
