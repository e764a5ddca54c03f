use allocanary_sys::rng::Rng;

use super::*;
use crate::builder::TraceBuilder;
use crate::coder::{AllocFunction, Event};
use crate::format::{STACKS, WINDOW};
use crate::info::info;
use crate::reader::{Item, Trace};

use crate::stacks::{Resident, StackNode, Stacks};

/// A trace with these parts, of a process that has ended.
fn sample(parts: u32) -> Vec<u8> {
    let mut sample = match parts {
        WINDOW => TraceBuilder::windowed(512, 8000, 4000),
        STACKS => TraceBuilder::with_stacks(512, 2),
        0 => TraceBuilder::new(512),
        _ => TraceBuilder::windowed_with_stacks(512, 8000, 4000, 2),
    };
    for at in 0..400_u64 {
        let (ticks, address) = (1000 + at * 40, 0x7000_0000 + at % 150 * 640);
        sample.stacked(
            0,
            ticks,
            Event::New { how: AllocFunction::Malloc, address, size: 600 },
            [1, 2, 2][at as usize % 3],
        );
        sample.event((at % 2) as u32, ticks + 20, Event::Free { address });
    }
    if parts & STACKS != 0 {
        let node = |parent, pc| StackNode { parent, pc, module: 0 };
        sample.tables(&Stacks { nodes: vec![node(0, 0), node(0, 0x1000), node(1, 0x2000)], modules: Vec::new() });
        sample.resident(&Resident { mark: 3, ranges: vec![0x1000..0x3000, 0x8000..0x9000] });
    }
    let mut bytes = sample.finish();
    bytes[at::PID..at::PID + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes
}

/// The parts of the traces that are packed here.
const PARTS: [u32; 4] = [0, WINDOW, STACKS, WINDOW | STACKS];

/// The whole content of a trace.
fn all(path: &Path) -> (Vec<Vec<Item>>, Stacks, Vec<Resident>, u64, Option<String>) {
    let trace = Trace::open(path).unwrap();
    let threads: Vec<u32> = trace.threads().map(|(thread, _)| thread).collect();
    let items = threads.into_iter().map(|thread| trace.stream(thread).collect()).collect();
    let damage = trace.damage().map(String::from);
    (items, trace.stacks().unwrap(), trace.residents().unwrap(), trace.table_bytes(), damage)
}

#[test]
fn a_packed_trace_has_the_same_events_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    for parts in PARTS {
        let path = folder.path().join(format!("{parts}.trace"));
        fs::write(&path, sample(parts)).unwrap();
        let (before, events) = (all(&path), info(&Trace::open(&path).unwrap()).unwrap().merged);
        let length = fs::metadata(&path).unwrap().len();
        let packed = pack(&path).unwrap().unwrap();
        assert_eq!((packed, packed < length), (fs::metadata(&path).unwrap().len(), true), "parts {parts}");
        assert_eq!(all(&path), before, "parts {parts}");
        let trace = Trace::open(&path).unwrap();
        assert_eq!(info(&trace).unwrap().merged, events);
        let has = [trace.has_window(), trace.header.stacks > 0, trace.header.is_packed];
        assert_eq!((has, trace.packed_bytes), ([parts & WINDOW != 0, parts & STACKS != 0, true], Some(packed)));
        assert_eq!(pack(&path).unwrap(), None, "it is packed already");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left there");
}

#[test]
fn what_runs_and_what_is_cut_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let whole = sample(0);
    let mut runs = whole.clone();
    runs[at::PID..at::PID + 4].copy_from_slice(&std::process::id().to_le_bytes());
    for bytes in [runs, whole[..whole.len() - 100].to_vec()] {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(pack(&path).unwrap(), None);
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn fuzz_a_damaged_packed_trace_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    for parts in PARTS {
        fs::write(&path, sample(parts)).unwrap();
        pack(&path).unwrap().unwrap();
        let sound = fs::read(&path).unwrap();
        let (mut rng, mut damaged) = (Rng::new(u64::from(parts)), 0);
        for _ in 0..500 {
            let mut bytes = sound.clone();
            for _ in 0..=rng.below(3) {
                // Half of the changes are in the header and the headers of chunks.
                let at = if rng.below(2) == 0 { rng.below(bytes.len()) } else { HEADER + rng.below(200) };
                bytes[at] = rng.below(256) as u8;
            }
            bytes.truncate(bytes.len() - rng.below(2) * rng.below(bytes.len() - HEADER));
            fs::write(&path, &bytes).unwrap();
            let Ok(trace) = Trace::open(&path) else { continue };
            let events = info(&trace);
            damaged += u32::from(trace.damage().is_some() || !events.is_ok_and(|info| info.merged.damage.is_empty()));
        }
        assert!(damaged > 100, "parts {parts}: {damaged}");
    }
}

#[test]
fn a_file_that_was_made_to_fill_the_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    // A megabyte of zeros for each of 2,000 threads.
    let mut bytes = sample(0)[..HEADER].to_vec();
    bytes[at::PARTS] = PACKED as u8;
    bytes[at::USED..at::USED + 8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let (length, mut small) = (1 << 20, Vec::new());
    let zeros = vec![0; length - CHUNK_HEADER];
    assert!(deflate(&mut Compress::new(Compression::best(), false), &zeros, &mut small).unwrap());
    for thread in 0..2000_u32 {
        let offset = HEADER as u64 + u64::from(thread) * length as u64;
        let mut front = [0; PACK_HEADER];
        front[..4].copy_from_slice(&PACK_MAGIC);
        front[4..8].copy_from_slice(&(small.len() as u32).to_le_bytes());
        front[8..16].copy_from_slice(&offset.to_le_bytes());
        Chunk { offset, length: length as u32, thread, number: 0, stamp: 0, closed: 0 }.write(&mut front[16..]);
        bytes.extend(front);
        bytes.extend(&small);
    }
    fs::write(&path, &bytes).unwrap();
    let error = Trace::open(&path).err().unwrap().to_string();
    assert!(error.contains("largest chunks of all threads, found 2097152000"), "{error}");
    // The chunk of a single thread can be read.
    bytes.truncate(HEADER + PACK_HEADER + small.len());
    fs::write(&path, &bytes).unwrap();
    assert_eq!(Trace::open(&path).unwrap().stream(0).count(), 0);
}

#[test]
fn what_does_not_deflate_is_kept_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let (mut sample, mut rng) = (TraceBuilder::new(4096), Rng::new(1));
    for tick in 0..2000 {
        let address = (rng.next() >> 20) & !7;
        sample.event(0, tick, Event::New { how: AllocFunction::Malloc, address, size: 8 * (1 + rng.below(60) as u64) });
    }
    let mut bytes = sample.finish();
    bytes[at::PID..at::PID + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let before = all(&path);
    let packed = pack(&path).unwrap();
    assert!(packed.is_none_or(|packed| packed < bytes.len() as u64));
    assert_eq!(all(&path), before);
}
