//! Programs that record themselves. Each test starts this file's program again, so that it has its own process.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use super::config::{self, Config};
use super::process::begin;
use super::{allocated, allocated_by, exiting, freed, real, resized, resizing, tls};
use allocanary_trace::coder::{AllocFunction, Event};
use allocanary_trace::format::{STAMP_TICKS, TraceEnd, at};
use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;
use allocanary_trace::record::traces;

/// Starts a process that runs the ignored test of this name and records to `folder`.
fn run(name: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    command.args(["--ignored", "--exact", &name, "--nocapture", "--test-threads", "1"]);
    command.env("ALLOCANARY_RECORD", folder).envs(variables.iter().copied()).output().unwrap()
}

/// The address of a block that does not exist.
fn block(address: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(address)
}

#[test]
#[ignore = "the program of the next test"]
fn allocates_and_forks() {
    let is_quiet = || tls::get() == super::thread::QUIET;
    // There are two cases: the parent's file cannot be opened, or the parent's can be opened and the child's cannot.
    for _ in 0..2 {
        allocated(block(0x1000), 100);
    }
    match std::env::var("LATER") {
        Err(_) => assert!(config::is_off() && is_quiet()),
        Ok(folder) => {
            assert!(!config::is_off() && !is_quiet());
            std::fs::rename(std::env::var("ALLOCANARY_RECORD").unwrap(), folder).unwrap();
            // SAFETY: the child calls only functions that are allowed after a fork.
            let child = unsafe { libc::fork() };
            if child == 0 {
                allocated(block(0x2000), 100);
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!(config::is_off() && is_quiet()))) };
            }
            let mut status = 0;
            // SAFETY: our own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0, "the child is quiet");
            assert!(!config::is_off());
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_said_once_and_ends_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let there = folder.path().join("there");
    std::fs::create_dir(&there).unwrap();
    let later = folder.path().join("later");
    let later = [("LATER", later.to_str().unwrap())];
    for (name, variables, found) in [
        (&missing, &[][..], "found: there is no such folder (errno 2)"),
        (&file, &[], "found: a part of it is no folder (errno 20)"),
        (&there, &later, "found: there is no such folder (errno 2)"),
    ] {
        let ran = run("allocates_and_forks", name, variables);
        assert!(ran.status.success(), "{ran:?}");
        let said = String::from_utf8_lossy(&ran.stderr);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("allocanary: ")).collect();
        let [line] = lines[..] else { panic!("wanted one line, found {said}") };
        assert!(line.contains(found) && line.contains(&format!("ALLOCANARY_RECORD: {}: ", name.display())), "{line}");
    }
}

/// The result of a child that was forked while the environment was read.
static FORKED: AtomicI32 = AtomicI32::new(-1);

#[test]
#[ignore = "the program of the next test"]
fn forks_while_it_reads_the_environment() {
    fn read(config: &mut Config) -> bool {
        // SAFETY: the child calls only functions that are allowed after a fork. For the child this is like a fork by
        // another thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let recorded = begin::ready().is_some();
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!recorded)) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        FORKED.store(status, SeqCst);
        config::read(config)
    }
    assert!(begin::begin(read).is_some());
    assert_eq!(FORKED.load(SeqCst), 0, "the child records");
}

#[test]
fn a_fork_while_the_environment_is_read_records_too() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run("forks_while_it_reads_the_environment", folder.path(), &[]);
    assert!(ran.status.success(), "{ran:?}");
    let found = traces(folder.path()).unwrap();
    assert_eq!(found.len(), 2, "of the program, and of its child");
    assert!(found.iter().any(|(_, child)| found.iter().any(|(_, program)| child.parent == program.pid)));
}

#[test]
#[ignore = "the program of the next test"]
fn frees_blocks_of_the_look_up() {
    // The program's libraries keep such early blocks. They may free them at any time, even when a stamp is due or a
    // chunk is full.
    assert_eq!(allocated(real::early_block(), 100), real::early_block());
    assert!(freed(real::early_block()).is_null() && tls::get::<u8>().is_null(), "no trace begins with one");
    for at in 0..5000 {
        let new = block(0x10000 + at * 64);
        assert_eq!(allocated(new, 100), new);
        assert!(freed(real::early_block()).is_null());
        if at % 3 == 0 {
            assert_eq!(freed(new), new);
        }
    }
    exiting();
}

#[test]
fn blocks_of_the_look_up_are_not_recorded_and_stop_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run("frees_blocks_of_the_look_up", folder.path(), &[]);
    assert!(ran.status.success(), "{ran:?}");
    let (path, header) = traces(folder.path()).unwrap().remove(0);
    let info = info(&Trace::open(&path).unwrap()).unwrap();
    assert_eq!((info.allocations, info.frees, header.lost, info.merged.strays), (5000, 1667, 0, 0));
}

const SHORT: usize = 2000;

#[test]
#[ignore = "the program of the next test"]
fn starts_short_threads() {
    allocated(block(0x1000), 100);
    for thread in 1..=SHORT {
        let work = move || {
            allocated(block(thread << 16), 100);
            allocated(block(thread << 16 | 0x1000), 3000);
            freed(block(thread << 16));
        };
        std::thread::spawn(work).join().unwrap();
    }
    exiting();
}

#[test]
fn short_threads_share_the_chunks_of_a_window() {
    let folder = tempfile::tempdir().unwrap();
    for (most, is_whole) in [("1073741824", true), ("135168", false)] {
        let variables = [("ALLOCANARY_RECORD_WINDOW", "60000"), ("ALLOCANARY_RECORD_MAX", most)];
        let ran = run("starts_short_threads", folder.path(), &variables);
        assert!(ran.status.success(), "{ran:?}");
        let (path, header) = traces(folder.path()).unwrap().remove(0);
        let info = info(&Trace::open(&path).unwrap()).unwrap();
        assert_eq!((info.merged.strays, info.merged.lost_frees, &info.merged.damage[..]), (0, 0, &[][..]));
        assert_eq!((header.state, header.lost, header.window), (TraceEnd::Exited, 0, 60_000_000_000));
        if !is_whole {
            // Four places: the first thread's, the newest one, and two that are full.
            assert!(info.bytes == 135_168 && info.threads.len() > 400, "{} threads", info.threads.len());
            return;
        }
        let wanted = (SHORT + 1, 2 * SHORT as u64 + 1, SHORT as u64);
        assert_eq!((info.threads.len(), info.allocations, info.frees), wanted);
        assert_eq!((info.most_threads, info.merged.before), (2, 0));
        assert!(info.bytes < 512 << 10, "{} bytes for {SHORT} threads", info.bytes);
        // Threads that ended before the window are not reported, even if their places are still in the file.
        let begins: Vec<u64> = Trace::open(&path).unwrap().threads().map(|(_, begin)| begin).collect();
        let from = begins[SHORT * 9 / 20];
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&from.to_le_bytes(), at::HORIZON as u64).unwrap();
        let within = begins.iter().filter(|begin| **begin >= from).count();
        let found = Trace::open(&path).unwrap().thread_count();
        // One more is the first thread, which lives as long as the program. The other is the thread that ended at the
        // begin of the window.
        assert_eq!(found, within + 2, "{SHORT} threads");
        std::fs::remove_file(path).unwrap();
    }
}

/// When it is called for the fourth and last time, frees the block of the value. This is after the recorder's own
/// destructor.
unsafe extern "C" fn free_at_last(value: *mut libc::c_void) {
    match value.addr() & 15 {
        3 => drop(freed(value.map_addr(|address| address & !15).cast())),
        // SAFETY: the key is there for as long as the process.
        _ => unsafe {
            libc::pthread_setspecific(LAST.load(SeqCst) as libc::pthread_key_t, value.map_addr(|address| address + 1));
        },
    }
}

static LAST: AtomicI32 = AtomicI32::new(0);

#[test]
#[ignore = "the program of the next test"]
fn frees_behind_the_last_destructor() {
    allocated(block(0x1000), 100);
    let mut key = 0;
    // SAFETY: the destructor is ours.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(free_at_last)) }, 0);
    LAST.store(key as i32, SeqCst);
    for at in 0..50 {
        let thread = std::thread::spawn(move || {
            let own = block(0x10000 + at * 0x100);
            allocated(own, 100);
            // SAFETY: as above.
            unsafe { libc::pthread_setspecific(key, own.cast()) };
        });
        thread.join().unwrap();
    }
    exiting();
}

#[test]
fn what_a_thread_frees_after_its_end_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run("frees_behind_the_last_destructor", folder.path(), &[]);
    assert!(ran.status.success(), "{ran:?}");
    let (path, header) = traces(folder.path()).unwrap().remove(0);
    let found = info(&Trace::open(&path).unwrap()).unwrap();
    let merged = &found.merged;
    assert_eq!((found.frees, merged.strays, merged.alive, header.lost), (50, 0, 1, 0), "{merged:?}");
}

/// The next program waits this long between its events. This is longer than the time after which an event needs a
/// stamp.
const WAIT: std::time::Duration = std::time::Duration::from_millis(5);

#[test]
#[ignore = "the program of the next test"]
fn waits_between_events() {
    let slow = || {
        for at in 0..4 {
            allocated(block(0x10000 + at * 0x1000), 100);
            std::thread::sleep(WAIT);
            allocated_by(AllocFunction::Calloc, block(0x20000 + at * 0x1000), 5000);
            std::thread::sleep(WAIT);
            let begun = resizing(block(0x10000 + at * 0x1000));
            resized(begun, block(0x10000 + at * 0x1000), 200);
            std::thread::sleep(WAIT);
            freed(block(0x20000 + at * 0x1000));
            std::thread::sleep(WAIT);
        }
    };
    slow();
    // The blocks of a second thread have their own stamps if their addresses are new to it.
    std::thread::spawn(slow).join().unwrap();
    exiting();
}

#[test]
fn an_event_after_a_wait_has_the_time_after_it() {
    for variables in [&[][..], &[("ALLOCANARY_RECORD_WINDOW", "60000")], &[("ALLOCANARY_RECORD_STACK_SAMPLE", "1")]] {
        let folder = tempfile::tempdir().unwrap();
        let ran = run("waits_between_events", folder.path(), variables);
        assert!(ran.status.success(), "{ran:?}");
        let (path, header) = traces(folder.path()).unwrap().remove(0);
        let trace = Trace::open(&path).unwrap();
        assert_eq!(header.stamp_ticks, STAMP_TICKS);
        let threads: Vec<u32> = trace.threads().map(|(thread, _)| thread).collect();
        assert_eq!(threads.len(), 2);
        for thread in threads {
            let is_block = |event: &Event| !matches!(event, Event::Resident(_) | Event::End);
            let items: Vec<_> = trace.stream(thread).filter(|item| is_block(&item.event)).collect();
            // A realloc begins and ends without a wait.
            let waited: Vec<_> = items
                .iter()
                .filter(|item| !matches!(item.event, Event::New { how: AllocFunction::Resized, .. }))
                .collect();
            assert_eq!(waited.len(), 16, "{items:?}");
            for pair in waited.windows(2) {
                let passed = (pair[1].low - pair[0].low) as f64 * header.tick_ns;
                assert!(passed >= WAIT.as_nanos() as f64 * 0.9, "{passed} ns between {:?}", pair);
            }
            assert!(items.iter().all(|item| item.high - item.low <= STAMP_TICKS), "{items:?}");
        }
    }
}
