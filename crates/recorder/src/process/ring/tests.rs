//! Tests which chunks a window keeps. Simulated threads take chunks and finish them; a tick is a chunk.

use std::collections::BTreeSet;
use std::ptr::null_mut;

use super::*;
use allocanary_trace::format::CHUNK_HEADER;

/// A window (the last seconds of a trace) whose file is zeroed memory.
pub(crate) struct Ring {
    pub(crate) process: Box<Process>,
    pub(crate) file: *mut u8,
    limit: usize,
}

impl Ring {
    /// A file of at most `limit` bytes. Chunks are used again after `window` ticks.
    pub(crate) fn new(limit: usize, window: u64) -> Ring {
        let file = allocanary_sys::sys::map_zeroed(limit).unwrap().as_ptr();
        // SAFETY: zeros are a valid state.
        let process: Box<Process> = unsafe { Box::new(std::mem::zeroed()) };
        process.base.store(file, SeqCst);
        process.limit.store(limit as u64, SeqCst);
        process.window.store(window * SAMPLE_NS, SeqCst);
        process.sample_ticks.store(1, SeqCst);
        assert!(process.queue.map((limit / RING) as u64));
        process.long(at::USED).store(HEADER as u64, SeqCst);
        Ring { process, file, limit }
    }

    /// The number of chunks that a reader uses: those that have events after everything that was lost.
    fn kept(&self) -> usize {
        let horizon = self.process.long(at::HORIZON).load(SeqCst);
        let places = (HEADER..self.used()).step_by(RING);
        let closed = |offset: usize| self.process.long(offset + CLOSED).load(SeqCst);
        places.filter(|place| closed(*place) == 0 || closed(*place) > horizon).count()
    }

    pub(crate) fn used(&self) -> usize {
        self.process.long(at::USED).load(SeqCst) as usize
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.file.cast(), self.limit) };
    }
}

/// Lets `threads` threads take `steps` chunks in all. Thread `n` has the speed `speed(n)`. Calls `check` after each
/// step.
fn play(ring: &Ring, threads: usize, steps: u64, speed: fn(usize) -> u64, mut check: impl FnMut(u64)) {
    let mut held = vec![null_mut::<u8>(); threads];
    let whole: u64 = (0..threads).map(speed).sum();
    let mut random = 1_u64;
    for now in 1..=steps {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut ticket = (random >> 33) % whole;
        let thread = (0..threads).position(|thread| match ticket.checked_sub(speed(thread)) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        });
        let held = &mut held[thread.unwrap()];
        if !held.is_null() {
            ring.process.close_chunk(*held, now);
        }
        *held = ring.process.ring_chunk(now).expect("more chunks than threads").1;
        check(now);
    }
}

const ALIKE: fn(usize) -> u64 = |_| 1;
const SOME_SLOW: fn(usize) -> u64 = |thread| if thread.is_multiple_of(4) { 1 } else { 40 };

#[test]
fn at_the_largest_size_the_whole_file_is_kept() {
    // 255 chunks are 8 MiB, 4095 are 128 MiB. Some share a factor with any step through the file.
    for (chunks, threads) in
        [(1, 1), (3, 1), (9, 1), (9, 4), (31, 1), (31, 16), (255, 1), (255, 64), (256, 16), (4095, 16)]
    {
        for (speeds, speed) in [("alike", ALIKE), ("some slow", SOME_SLOW)] {
            let ring = Ring::new(HEADER + chunks * RING, 1 << 40);
            let mut least = chunks;
            play(&ring, threads, 3 * chunks as u64, speed, |now| {
                if now > chunks as u64 {
                    least = least.min(ring.kept());
                }
            });
            assert!(least * 100 >= chunks * 95, "{threads} threads, {speeds}: {least} of {chunks} chunks are kept");
        }
    }
}

#[test]
fn a_file_is_as_long_as_its_window() {
    for (window, threads) in [(10, 1), (100, 1), (100, 16), (300, 64)] {
        for (speeds, speed) in [("alike", ALIKE), ("some slow", SOME_SLOW)] {
            let ring = Ring::new(HEADER + 1000 * RING, window);
            play(&ring, threads, 10 * window, speed, |now| {
                // All chunks that were closed in the window are kept.
                let horizon = ring.process.long(at::HORIZON).load(SeqCst);
                assert!(now < window || horizon <= now - window, "{window}: {horizon} at {now}");
            });
            let (made, wanted) = ((ring.used() - HEADER) / RING, window as usize + threads);
            assert!(made <= wanted + 1, "{window}, {threads} threads, {speeds}: {made} chunks for {wanted}");
        }
    }
}

#[test]
fn a_chunk_may_come_later_where_all_are_in_use() {
    let ring = Ring::new(HEADER + 2 * RING, 1 << 40);
    let first = ring.process.ring_chunk(1).unwrap();
    let second = ring.process.ring_chunk(2).unwrap();
    assert!(ring.process.ring_chunk(3).is_none());
    ring.process.close_chunk(second.1, 4);
    assert_eq!(ring.process.ring_chunk(5).map(|chunk| chunk.0), Some(second.0));
    ring.process.close_chunk(first.1, 6);
    assert_eq!(ring.process.ring_chunk(7).map(|chunk| chunk.0), Some(first.0));
    assert!(ring.process.ring_chunk(8).is_none() && !ring.process.is_stopped());
}

/// Threads take and give back whole places and rests as fast as they can. No two ever have the same chunk.
#[test]
fn no_two_threads_have_one_chunk() {
    let ring = Ring::new(HEADER + 12 * RING, 1 << 40);
    let process = &ring.process;
    let taken: usize = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (mut taken, mut rests) = (0, 0);
            for step in 1..=20_000 {
                let rest = if step % 3 == 0 { process.ring_rest() } else { None };
                rests += usize::from(rest.is_some());
                // There may be no place while a thread is giving one back. There are more places than threads.
                let whole = || loop {
                    match process.ring_chunk(step) {
                        Some(chunk) => break chunk,
                        None => std::thread::yield_now(),
                    }
                };
                let (offset, start, length) = rest.unwrap_or_else(whole);
                let place = offset as usize + CHUNK_HEADER;
                assert_eq!(process.long(place).swap(thread, SeqCst), 0, "the chunk is empty");
                std::thread::yield_now();
                assert_eq!(process.long(place).load(SeqCst), thread, "and this thread's alone");
                match step % 2 {
                    0 => process.close_chunk(start, step),
                    _ => process.end_chunk(start, 128, length, step),
                }
                taken += 1;
            }
            assert!(rests > 0, "no rest was taken");
            taken
        };
        let threads: Vec<_> = (1..=8).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 160_000);
    // All chunks of the file can still be taken: none is lost.
    let rest: BTreeSet<u64> = std::iter::from_fn(|| process.ring_chunk(1 << 30)).map(|chunk| chunk.0).collect();
    assert_eq!(rest.len(), 12, "{rest:?}");
}

/// The nodes that a window's events name must stay in the file until its end.
#[test]
fn a_place_of_tables_is_never_used_again() {
    // 9 places, of which tables may have 4.
    let ring = Ring::new(HEADER + 9 * RING, 1);
    let mut tables = Vec::new();
    play(&ring, 3, 1000, ALIKE, |now| {
        if now % 50 == 0
            && let Some((offset, start)) = ring.process.table_place(now)
        {
            // SAFETY: the place belongs to this thread alone; the test checks this.
            unsafe { start.write_bytes(tables.len() as u8 + 1, RING) };
            tables.push(offset as usize);
        }
    });
    assert_eq!(tables.len(), 4, "the share of the tables");
    assert!(ring.process.table_place(1001).is_none() && !ring.process.is_stopped());
    for (at, offset) in tables.iter().enumerate() {
        // SAFETY: the file is mapped, and no thread writes any more.
        let place = unsafe { std::slice::from_raw_parts(ring.file.add(*offset), RING) };
        assert!(place.iter().all(|byte| *byte == at as u8 + 1), "the place at {offset} was written by others");
    }
    // A place that was not needed is used like any other.
    ring.process.give_back(ring.process.base().map_addr(|base| base + tables[0]), 1002);
    let again: Vec<u64> = std::iter::from_fn(|| ring.process.ring_chunk(2000)).map(|chunk| chunk.0).collect();
    assert!(again.contains(&(tables[0] as u64)), "{again:?}");
    assert!(tables[1..].iter().all(|table| !again.contains(&(*table as u64))), "{again:?}");
}

#[test]
fn tables_have_no_place_where_all_are_being_written() {
    let ring = Ring::new(HEADER + 4 * RING, 1 << 40);
    let chunks: Vec<_> = (1..=4).filter_map(|now| ring.process.ring_chunk(now)).collect();
    assert_eq!(chunks.len(), 4);
    assert!(ring.process.table_place(5).is_none());
    // Now there is a place: the attempt that failed did not count as one.
    ring.process.close_chunk(chunks[2].1, 6);
    assert_eq!(ring.process.table_place(7).map(|place| place.0), Some(chunks[2].0));
    ring.process.close_chunk(chunks[0].1, 8);
    assert_eq!(ring.process.table_place(9).map(|place| place.0), Some(chunks[0].0));
    ring.process.close_chunk(chunks[1].1, 10);
    assert!(ring.process.table_place(11).is_none(), "half of the places");
}
