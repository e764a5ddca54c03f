//! Every version of the format stays readable for ever: the files in `golden` are never renewed. They were written by
//! [`TraceBuilder`], and today's writer still writes them byte for byte.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;

use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{Event, How};
use allocanary_trace::info::info;
use allocanary_trace::merge::{At, Sink, merge};
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::{Module, Node, Resident, StackId, Stacks};

/// Every kind of event, on three threads, in chunks of 512 bytes.
fn script() -> Vec<u8> {
    let mut sample = TraceBuilder::new(512);
    let new = |how, address, size| Event::New { how, address, size };
    let mut ticks = 1000;
    for at in 0..200_u64 {
        ticks += 40;
        sample.event(0, ticks, new(How::Malloc, 0x7000_0000 + at * 64, 8 + at % 60 * 8));
        if at % 3 == 0 {
            sample.event(0, ticks + 5, Event::Free { address: 0x7000_0000 + at * 64 });
        } else if at % 3 == 1 {
            sample.event(1, ticks + 7, Event::Free { address: 0x7000_0000 + at * 64 });
        }
    }
    for (at, how) in [How::Malloc, How::Calloc, How::Aligned(12)].into_iter().enumerate() {
        sample.event(1, ticks + 10, new(how, 0x8000_0000 + at as u64 * 8192, 5000));
    }
    sample.event(1, ticks + 20, Event::Resize { address: 0x8000_0000 });
    sample.event(1, ticks + 30, new(How::Resized, 0x9000_0000, 70_000));
    sample.event(2, ticks + 40, Event::Resize { address: 0x9000_0000 });
    sample.event(2, ticks + 50, Event::ResizeFailed);
    sample.event(2, ticks + 60, Event::Resize { address: 0x8000_2000 });
    sample.event(2, ticks + 70, Event::ResizeFreed);
    sample.event(1, ticks + 80, Event::Resident(1234));
    sample.event(2, ticks + 90, Event::Mark(0));
    sample.event(2, ticks + 100, Event::End);
    sample.finish()
}

/// A window of 4000 ticks at the end of 16,000 ticks. The other thread frees each block 100 steps after it was made.
fn windowed(lost: u64) -> Vec<u8> {
    let mut sample = TraceBuilder::windowed(1024, 4000, lost);
    for at in 0..400_u64 {
        let ticks = 1000 + at * 40;
        let address = |at: u64| 0x7000_0000 + at % 150 * 640;
        sample.event(0, ticks, Event::New { how: How::Malloc, address: address(at), size: 600 });
        if at >= 100 {
            sample.event(1, ticks + 20, Event::Free { address: address(at - 100) });
        }
        if at % 50 == 0 {
            // This block passes from one chunk to the next in the middle of a realloc.
            sample.event(0, ticks + 25, Event::Resize { address: address(at) });
            sample.event(0, ticks + 30, Event::New { how: How::Resized, address: address(at), size: 5000 });
        }
    }
    sample.finish()
}

/// Stacks of every second allocation, on two threads; nodes, modules, and the pages that were resident when idle.
fn stacked() -> Vec<u8> {
    let mut sample = TraceBuilder::with_stacks(512, 2);
    for at in 0..120_u64 {
        let (ticks, thread) = (1000 + at * 40, (at % 2) as u32);
        let event = Event::New { how: How::Malloc, address: 0x7000_0000 + at * 4096, size: 8 + at % 3 * 400 };
        sample.stacked(thread, ticks, event, [1, 3, 4, 4, 300][at as usize % 5]);
        if at % 4 == 0 {
            sample.event(thread, ticks + 5, Event::Resize { address: 0x7000_0000 + at * 4096 });
            let event = Event::New { how: How::Resized, address: 0x8000_0000 + at * 4096, size: 70_000 };
            sample.stacked(thread, ticks + 6, event, 2);
        }
    }
    sample.tables(&tables());
    sample.resident(&resident());
    sample.finish()
}

/// A window of 4000 ticks at the end of 16,000, with stacks of every second allocation. The tables are between its chunks.
fn windowed_with_stacks() -> Vec<u8> {
    let mut sample = TraceBuilder::windowed_with_stacks(1024, 4000, 6000, 2);
    for at in 0..400_u64 {
        let ticks = 1000 + at * 40;
        let address = |at: u64| 0x7000_0000 + at % 150 * 640;
        if at == 120 {
            sample.tables(&tables());
        }
        let event = Event::New { how: How::Malloc, address: address(at), size: 600 };
        sample.stacked(0, ticks, event, [1, 3, 4, 4, 2][at as usize % 5]);
        if at >= 100 {
            sample.event(1, ticks + 20, Event::Free { address: address(at - 100) });
        }
    }
    sample.resident(&Resident { mark: 3, ..resident() });
    sample.finish()
}

fn tables() -> Stacks {
    let nodes = [(0, 0), (0, 0x5500_0000_1000), (1, 0x7F00_0000_2000), (1, 0x7F00_0000_3000), (3, 0x5500_0000_1000)];
    let nodes = nodes.into_iter().map(|(parent, pc)| Node { parent, pc, module: 0 }).collect();
    let module = |start: u64, path: &str, build_id: &[u8]| {
        let (path, build_id) = (path.into(), build_id.to_vec());
        Module { start, end: start + 0x10_000, bias: start, path, build_id }
    };
    let modules =
        vec![module(0x5500_0000_0000, "/usr/bin/sample", b""), module(0x7F00_0000_0000, "/lib/a.so", &[7; 20])];
    Stacks { nodes, modules }
}

fn resident() -> Resident {
    Resident { mark: 2, ranges: vec![0x1000..0x3000, 0x8000..0x9000] }
}

/// Live bytes of each stack.
#[derive(Default)]
struct Live(BTreeMap<StackId, u64>, StackId);

impl Sink for Live {
    type Block = (StackId, u64);

    fn stack(&mut self, stack: StackId) {
        self.1 = stack;
    }

    fn allocated(&mut self, _: At, _: How, size: u64) -> (StackId, u64) {
        *self.0.entry(self.1).or_default() += size;
        (self.1, size)
    }

    fn freed(&mut self, _: At, (stack, size): (StackId, u64)) {
        *self.0.entry(stack).or_default() -= size;
    }

    fn resized(&mut self, at: At, block: (StackId, u64), size: u64) -> (StackId, u64) {
        self.freed(at, block);
        self.allocated(at, How::Resized, size)
    }
}

#[test]
fn version_four_is_read_and_written_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v4.trace");
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == windowed_with_stacks(), "the writer has changed: that is a new version of the format");
    let trace = Trace::open(&path).unwrap();
    assert_eq!((trace.header.version, trace.header.stacks, trace.has_window()), (4, 2, true));
    let end = Resident { mark: 3, ..resident() };
    assert_eq!((trace.stacks().unwrap(), trace.residents().unwrap()), (tables(), vec![end]));
    let mut live = Live::default();
    let merged = merge(&trace, &mut live).unwrap();
    assert_eq!((merged.strays, merged.lost_frees, merged.damage.len()), (0, 0, 0));
    // 101 blocks were live at the window's begin, and the last 100 blocks are live at its end. Their addresses
    // determine which of them have a stack.
    assert_eq!((merged.before, merged.alive), (101, 100));
    assert_eq!(live.0.into_iter().collect::<Vec<_>>(), [(0, 30600), (1, 7200), (2, 6000), (3, 6600), (4, 9600)]);
}

#[test]
fn version_three_is_read_and_written_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v3.trace");
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == stacked(), "the writer has changed: that is a new version of the format");
    let trace = Trace::open(&path).unwrap();
    assert_eq!((trace.header.version, trace.header.stacks), (3, 2));
    assert_eq!((trace.stacks().unwrap(), trace.residents().unwrap()), (tables(), vec![resident()]));
    let mut live = Live::default();
    let merged = merge(&trace, &mut live).unwrap();
    assert_eq!((merged.strays, merged.lost_frees, merged.damage.len()), (0, 0, 0));
    // Live bytes at the end. 0 stands for blocks without a stack.
    let wanted = [(0, 1_069_168), (1, 5280), (2, 1_050_000), (3, 3272), (4, 6128), (300, 2872)];
    assert_eq!(live.0.into_iter().collect::<Vec<_>>(), wanted);
}

#[test]
fn version_two_is_read_and_written_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2.trace");
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == windowed(6000), "the writer has changed: that is a new version of the format");
    let info = info(&Trace::open(&path).unwrap()).unwrap();
    assert_eq!((info.merged.strays, info.merged.lost_frees, info.merged.damage.len()), (0, 0, 0));
    // 100 steps are in the window. 100 blocks were live at its begin, and 100 are live at its end.
    assert!((95..=101).contains(&info.allocations), "{}", info.allocations);
    assert!((95..=105).contains(&info.merged.before), "{}", info.merged.before);
    assert!((95..=105).contains(&info.merged.alive), "{}", info.merged.alive);
    assert!((39_000..=41_000).contains(&info.merged.nanos), "{}", info.merged.nanos);
}

/// The maximum size of the file makes this window shorter than requested.
#[test]
fn a_window_begins_where_the_last_lost_chunk_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    for (lost, nanos) in [(0, 40_000), (12_000, 40_000), (15_000, 19_800), (16_000, 9_800)] {
        std::fs::write(&path, windowed(lost)).unwrap();
        let info = info(&Trace::open(&path).unwrap()).unwrap();
        assert_eq!((info.merged.strays, info.merged.lost_frees, info.merged.damage.len()), (0, 0, 0), "{lost}");
        assert!(info.merged.nanos.abs_diff(nanos) < 1000, "{lost}: {}", info.merged.nanos);
        let steps = nanos / 400;
        assert!(info.allocations.abs_diff(steps) <= 6, "{lost}: {}", info.allocations);
        assert!(info.merged.before.abs_diff(steps.min(100)) <= 20, "{lost}: {}", info.merged.before);
    }
}

#[test]
fn version_one_is_read_and_written_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.trace");
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == script(), "the writer has changed: that is a new version of the format");
    let info = info(&Trace::open(&path).unwrap()).unwrap();
    assert_eq!((info.merged.strays, info.merged.lost_frees, info.merged.damage.len()), (0, 0, 0));
    assert_eq!((info.allocations, info.callocs, info.aligned, info.frees, info.resizes), (203, 1, 1, 135, 1));
    assert_eq!((info.crossing, info.threads.len(), info.most_resident), (68, 3, 1234 << 10));
    assert_eq!((info.merged.alive, info.end_live), (68, 90_624));
}

/// Not a test: writes the golden file of a new version.
#[test]
#[ignore = "writes the golden file of a new version"]
fn write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (name, bytes) in [
        ("v1.trace", script()),
        ("v2.trace", windowed(6000)),
        ("v3.trace", stacked()),
        ("v4.trace", windowed_with_stacks()),
    ] {
        if !folder.join(name).exists() {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
}
