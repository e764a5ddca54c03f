use std::path::PathBuf;

use allocanary_kernel::rng::Rng;

use super::*;
use crate::builder::TraceBuilder;
use crate::coder::{Event, How};
use crate::info::info;
use crate::reader::{Item, Trace};
use crate::stacks::{Resident, Stacks};

/// The golden file of a version, of a process that has ended.
fn golden(version: u32) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}.trace"));
    let mut bytes = fs::read(path).unwrap();
    bytes[at::PID..at::PID + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes
}

/// The whole content of a trace.
fn all(path: &Path) -> (Vec<Vec<Item>>, Stacks, Vec<Resident>, u64, Option<String>) {
    let trace = Trace::open(path).unwrap();
    let threads: Vec<u32> = trace.threads().map(|(thread, _)| thread).collect();
    let items = threads.into_iter().map(|thread| trace.stream(thread).collect()).collect();
    let damage = trace.damage().map(String::from);
    (items, trace.stacks().unwrap(), trace.residents().unwrap(), trace.table_bytes(), damage)
}

#[test]
fn a_packed_trace_of_each_version_has_the_same_events_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    for version in 1..=4 {
        let path = folder.path().join(format!("v{version}.trace"));
        fs::write(&path, golden(version)).unwrap();
        let (before, events) = (all(&path), info(&Trace::open(&path).unwrap()).unwrap().merged);
        let length = fs::metadata(&path).unwrap().len();
        let packed = pack(&path).unwrap().unwrap();
        assert_eq!((packed, packed < length), (fs::metadata(&path).unwrap().len(), true), "version {version}");
        assert_eq!(all(&path), before, "version {version}");
        let trace = Trace::open(&path).unwrap();
        assert_eq!(info(&trace).unwrap().merged, events);
        assert_eq!((trace.header.version, trace.packed_bytes), (version, Some(packed)));
        assert_eq!(pack(&path).unwrap(), None, "it is packed already");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left there");
}

#[test]
fn what_runs_and_what_is_cut_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let whole = golden(1);
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
    for version in 1..=4 {
        fs::write(&path, golden(version)).unwrap();
        pack(&path).unwrap().unwrap();
        let sound = fs::read(&path).unwrap();
        let (mut rng, mut damaged) = (Rng::new(u64::from(version)), 0);
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
        assert!(damaged > 100, "version {version}: {damaged}");
    }
}

#[test]
fn a_file_that_was_made_to_fill_the_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    // A megabyte of zeros for each of 2,000 threads.
    let mut bytes = golden(1)[..HEADER].to_vec();
    bytes[at::VERSION] = (1 + PACKED) as u8;
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
        sample.event(0, tick, Event::New { how: How::Malloc, address, size: 8 * (1 + rng.below(60) as u64) });
    }
    let mut bytes = sample.finish();
    bytes[at::PID..at::PID + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let before = all(&path);
    let packed = pack(&path).unwrap();
    assert!(packed.is_none_or(|packed| packed < bytes.len() as u64));
    assert_eq!(all(&path), before);
}

/// These files stay readable for ever. With UPDATE_GOLDEN=1 one that is missing is written; none is renewed.
#[test]
fn golden_packed_traces_have_what_those_of_the_version_before_have() {
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("a.trace");
    for version in 1..=4 {
        fs::write(&before, golden(version)).unwrap();
        let wanted = all(&before);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{}.trace", version + PACKED));
        if std::env::var_os("UPDATE_GOLDEN").is_some() && !path.exists() {
            pack(&before).unwrap().unwrap();
            fs::copy(&before, &path).unwrap();
        }
        assert_eq!(all(&path), wanted, "version {}", version + PACKED);
    }
}
