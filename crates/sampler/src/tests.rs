use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

use allocanary_profile::reader::{Mapping, ProcessMemory, TableProfile, own_mappings, read};

/// The memory of this process. All of its data counts as present.
struct Own(File);

impl ProcessMemory for Own {
    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn mappings(&self) -> Vec<Mapping> {
        own_mappings().unwrap()
    }

    fn present(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        vec![(from, to)]
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, at).is_ok()
    }
}

fn own() -> Own {
    Own(File::open("/proc/self/mem").unwrap())
}

/// A mean distance at which every block of 1 MiB is sampled, and hardly any small one of the test itself.
pub(super) const OFTEN: u64 = 16 << 10;

#[inline(never)]
fn site(blocks: u64) -> Vec<*mut u8> {
    let block = |at: u64| std::ptr::without_provenance_mut::<u8>((0x1234_0000_0000 + at * (1 << 20)) as usize);
    let blocks: Vec<*mut u8> = (0..blocks).map(block).collect();
    blocks.iter().for_each(|block| allocated(*block, 1 << 20));
    blocks
}

fn of_this_process() -> TableProfile {
    read(&own()).expect("this process has a table")
}

/// One test: the table is one for the process.
#[test]
fn a_process_reads_its_own_table_and_a_child_begins_an_empty_one() {
    assert!(!is_on());
    assert!(read(&own()).is_err(), "no table yet");
    assert!(turn_on(OFTEN, SamplerPlace::RunningProgram) && is_on());
    assert!(of_this_process().is_late);
    let blocks = site(100);
    assert!(blocks.iter().all(|block| may_be_sampled(*block)));
    // Another call neither begins another table nor changes this one.
    let table = BEACON.table.load(Relaxed);
    assert!(turn_on(OFTEN * 2, SamplerPlace::Program) && BEACON.table.load(Relaxed) == table);
    let found = of_this_process();
    assert_eq!((found.mean, found.counts.sampled, found.samples.len()), (OFTEN, 100, 100));
    assert!(found.samples.iter().all(|sample| sample.size == 1 << 20 && sample.frame > 0), "each has a stack");
    let depth = found.stack(found.samples[0].frame).len();
    assert!(depth > 3, "{depth} frames");
    let frame = &found.frames[found.samples[0].frame as usize];
    assert!((frame.bytes - f64::from(100 << 20)).abs() < 1000.0 && (frame.blocks - 100.0).abs() < 1.0, "{frame:?}");

    // Nobody tells of a library that is closed.
    notice_closed();
    let before = of_this_process().counts.closed;
    // SAFETY: a library of the system, of which nothing is called.
    let is_closed = unsafe {
        let library = libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW);
        !library.is_null() && libc::dlclose(library) == 0
    };
    notice_closed();
    notice_closed();
    if is_closed && cfg!(target_env = "gnu") {
        assert_eq!(of_this_process().counts.closed, before + 1);
    }

    // A realloc that fails leaves the block, one that succeeds does not.
    let leaving = take(blocks[0]).expect("it was sampled");
    assert!(take(blocks[0]).is_none());
    leaving.stays();
    assert_eq!(of_this_process().samples.len(), 100);
    blocks[..60].iter().for_each(|block| freed(*block));
    freed(blocks[3]);
    assert_eq!(of_this_process().samples.len(), 40);

    // Many threads with a walker each, on stacks of their own.
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            scope.spawn(move || {
                let block = std::ptr::without_provenance_mut::<u8>((0x2234_0000_0000 + thread * 4096) as usize);
                (0..100).for_each(|_| {
                    allocated(block, 1 << 20);
                    freed(block);
                });
            });
        }
    });
    let after = of_this_process();
    assert_eq!((after.samples.len(), after.counts.sampled), (40, 1700));
    assert_eq!((after.counts.full, after.counts.no_frame), (0, 0));

    handlers_sample();
    assert_eq!(of_this_process().samples.len(), 40);

    // SAFETY: the child only samples, reads its table, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_unknown = !may_be_sampled(blocks[99]) && take(blocks[99]).is_none();
        site(3);
        let own = of_this_process();
        let is_right =
            is_unknown && own.is_forked && !own.is_late && own.samples.len() == 3 && own.pid == std::process::id();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    assert_eq!(of_this_process().samples.len(), 40);
}

/// A signal interrupts a thread that samples, at any instruction, and its handler samples as well.
fn handlers_sample() {
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: libc::c_int) {
        let at = HANDLED.fetch_add(1, Relaxed);
        let block = std::ptr::without_provenance_mut::<u8>((0x3234_0000_0000 + at * 4096) as usize);
        allocated(block, 1 << 20);
        freed(block);
    }
    let every = |micros| {
        let time = libc::timeval { tv_sec: 0, tv_usec: micros };
        // SAFETY: a timer of this process, whose handler is above.
        unsafe {
            libc::setitimer(
                libc::ITIMER_REAL,
                &libc::itimerval { it_interval: time, it_value: time },
                std::ptr::null_mut(),
            )
        };
    };
    // SAFETY: the handler allocates nothing and takes no lock.
    unsafe { libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t) };
    every(50);
    let block = std::ptr::without_provenance_mut::<u8>(0x4234_0000_0000);
    let mut rounds = 0;
    while HANDLED.load(Relaxed) < 1000 {
        allocated(block, 1 << 20);
        assert_eq!(take(block).map(Leaving::freed), Some(()), "after {rounds} rounds");
        rounds += 1;
    }
    every(0);
}

#[test]
fn a_thread_samples_by_the_bytes_that_it_allocates() {
    MEAN.store(OFTEN, Relaxed);
    let sampled = |size: u64, rounds: u64| (0..rounds).filter(|_| draw(size)).count() as f64;
    for size in [16, 1000, 16 << 10, 100 << 10] {
        let (rounds, chance) = (200_000, allocanary_profile::weight::chance(size, OFTEN));
        let count = std::thread::spawn(move || sampled(size, rounds)).join().unwrap();
        let wanted = rounds as f64 * chance;
        assert!(
            (count - wanted).abs() < 6.0 * (wanted * (1.0 - chance)).sqrt() + 1.0,
            "{size}: {count}, wanted {wanted}"
        );
    }
    assert!(left() > 0);
}
