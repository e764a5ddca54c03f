//! The first version of the format stays readable for ever: `golden/v1.trace` is never renewed. It was written by
//! [`Sample`], and today's writer still writes it byte for byte.

use std::path::Path;

use allocanary_trace::coder::{Event, How};
use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;
use allocanary_trace::sample::Sample;

/// Every kind of event, on three threads, in chunks of 512 bytes.
fn script() -> Vec<u8> {
    let mut sample = Sample::new(512);
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.trace");
    assert!(!path.exists(), "{} is never renewed", path.display());
    std::fs::write(path, script()).unwrap();
}
