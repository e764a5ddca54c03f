//! A trace with all parts that the format has: every kind of event, a window, stacks, packed. A test that fails here says
//! that the format has changed: then its version is another one. `UPDATE_GOLDEN=1` writes the file again.

#![cfg(feature = "packed")]
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;

use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{AllocFunction, Event};
use allocanary_trace::format::at;
use allocanary_trace::info::info;
use allocanary_trace::merge::{At, Sink, merge};
use allocanary_trace::pack::pack;
use allocanary_trace::reader::{Item, Trace};
use allocanary_trace::stacks::{Resident, StackId, StackNode, Stacks, TraceModule};

/// A window of 5000 ticks at the end of 17,000, with stacks of every second allocation, on three threads. The tables are
/// between the chunks of events.
fn sample() -> Vec<u8> {
    let mut sample = TraceBuilder::windowed_with_stacks(1024, 5000, 6000, 2);
    let new = |how, address, size| Event::New { how, address, size };
    for at in 0..400_u64 {
        let ticks = 1000 + at * 40;
        let address = |at: u64| 0x7000_0000 + at % 150 * 640;
        if at == 120 {
            sample.tables(&tables());
        }
        sample.stacked(
            0,
            ticks,
            new(AllocFunction::Malloc, address(at), 8 + at % 3 * 296),
            [1, 3, 4, 4, 2][at as usize % 5],
        );
        if at >= 100 {
            sample.event(1, ticks + 20, Event::Free { address: address(at - 100) });
        }
        if at % 4 == 0 {
            sample.event(0, ticks + 25, Event::Free { address: address(at) });
            sample.stacked(0, ticks + 25, new(AllocFunction::Malloc, address(at), 16), 3);
        }
    }
    for (at, how) in [AllocFunction::Malloc, AllocFunction::Calloc, AllocFunction::Aligned(12)].into_iter().enumerate()
    {
        sample.stacked(1, 17_000, new(how, 0x8000_0000 + at as u64 * 8192, 5000), 2);
    }
    sample.event(1, 17_010, Event::Resize { address: 0x8000_0000 });
    sample.stacked(1, 17_020, new(AllocFunction::Resized, 0x9000_0000, 70_000), 4);
    sample.event(2, 17_030, Event::Resize { address: 0x9000_0000 });
    sample.event(2, 17_040, Event::ResizeFailed);
    sample.event(2, 17_050, Event::Resize { address: 0x8000_2000 });
    sample.event(2, 17_060, Event::ResizeFreed);
    sample.event(1, 17_070, Event::Resident(1234));
    sample.event(2, 17_080, Event::Mark(0));
    sample.event(2, 17_090, Event::End);
    sample.resident(&resident());
    let mut bytes = sample.finish();
    // Only the trace of a process that has ended is packed.
    bytes[at::PID..at::PID + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes
}

fn tables() -> Stacks {
    let nodes = [(0, 0, 0), (0, 0x5500_0000_1000, 1), (1, 0x7F00_0000_2000, 2), (1, 0x7F00_0000_3000, 2)];
    let nodes = nodes.into_iter().chain([(3, 0x5500_0000_1000, 0)]);
    let nodes = nodes.map(|(parent, pc, module)| StackNode { parent, pc, module }).collect();
    let module = |start: u64, path: &str, build_id: &[u8]| {
        let (path, build_id) = (path.into(), build_id.to_vec());
        TraceModule { start, end: start + 0x10_000, bias: start, path, build_id }
    };
    let modules =
        vec![module(0x5500_0000_0000, "/usr/bin/sample", b""), module(0x7F00_0000_0000, "/lib/a.so", &[7; 20])];
    Stacks { nodes, modules }
}

fn resident() -> Resident {
    Resident { mark: 3, ranges: vec![0x1000..0x3000, 0x8000..0x9000] }
}

/// Live bytes of each stack.
#[derive(Default)]
struct Live(BTreeMap<StackId, u64>, StackId);

impl Sink for Live {
    type Block = (StackId, u64);

    fn stack(&mut self, stack: StackId) {
        self.1 = stack;
    }

    fn allocated(&mut self, _: At, _: AllocFunction, size: u64) -> (StackId, u64) {
        *self.0.entry(self.1).or_default() += size;
        (self.1, size)
    }

    fn freed(&mut self, _: At, (stack, size): (StackId, u64)) {
        *self.0.entry(stack).or_default() -= size;
    }

    fn resized(&mut self, at: At, block: (StackId, u64), size: u64) -> (StackId, u64) {
        self.freed(at, block);
        self.allocated(at, AllocFunction::Resized, size)
    }
}

fn events(trace: &Trace) -> Vec<Vec<Item>> {
    trace.threads().map(|(thread, _)| trace.stream(thread).collect()).collect()
}

#[test]
fn the_format_has_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("sample.trace");
    std::fs::write(&fresh, sample()).unwrap();
    let golden = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let (path, unpacked) = (golden("sample.trace"), golden("unpacked.trace"));
    let built = events(&Trace::open(&fresh).unwrap());
    if std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::copy(&fresh, &unpacked).unwrap();
        pack(&fresh).unwrap().unwrap();
        std::fs::copy(&fresh, &path).unwrap();
    }
    assert!(std::fs::read(unpacked).unwrap() == sample(), "the writer's bytes have changed");
    let trace = Trace::open(&path).unwrap();
    assert_eq!((trace.header.stacks, trace.has_window(), trace.header.is_packed), (2, true, true));
    assert_eq!((events(&trace), trace.damage()), (built, None));
    assert_eq!((trace.stacks().unwrap(), trace.residents().unwrap()), (tables(), vec![resident()]));

    let info = info(&trace).unwrap();
    assert_eq!((info.merged.strays, info.merged.lost_frees, info.merged.damage.len()), (0, 0, 0));
    assert_eq!((info.allocations, info.callocs, info.aligned, info.frees, info.resizes), (155, 1, 1, 53, 1));
    assert_eq!(
        (info.threads.len(), info.most_resident, info.merged.before, info.merged.alive),
        (3, 1234 << 10, 101, 102)
    );
    let mut live = Live::default();
    merge(&trace, &mut live).unwrap();
    // Of the last 100 blocks 25 have 16 bytes and 75 have 8, 304 or 600, and two have 75,000: 98,200 bytes. Their
    // addresses determine which of them have a stack.
    assert_eq!(live.0.into_iter().collect::<Vec<_>>(), [(0, 87_344), (1, 2440), (2, 2424), (3, 2344), (4, 3648)]);
}
