use super::*;
use crate::builder::TraceBuilder;

/// What the header of a trace without events says if these bytes are changed.
fn refused(at: usize, byte: u8) -> String {
    let mut bytes = TraceBuilder::new(512).finish();
    assert!(TraceHeader::read(&bytes).is_ok());
    bytes[at] = byte;
    TraceHeader::read(&bytes).err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn another_file_and_another_version_are_refused() {
    assert!(refused(0, b'B').contains("(it begins with ALCTRACE), found another file"));
    let of_version = refused(at::VERSION, 2);
    assert!(
        of_version.contains("wanted a trace of version 1") && of_version.contains("found version 2"),
        "{of_version}"
    );
    let of_parts = refused(at::PARTS, 8);
    assert!(of_parts.contains("found version 1 with the bits 0x8: read it with"), "{of_parts}");
    assert_eq!(refused(at::PARTS, STACKS as u8), "");
}

/// To record again helps only where stacks were not asked for.
#[test]
fn a_trace_says_why_it_has_no_stacks() {
    let why = |asked: u32, has: bool| {
        let mut bytes = if has { TraceBuilder::with_stacks(512, 1).finish() } else { TraceBuilder::new(512).finish() };
        bytes[at::STACKS..at::STACKS + 4].copy_from_slice(&asked.to_le_bytes());
        TraceHeader::read(&bytes).unwrap().without_stacks()
    };
    assert_eq!(why(1, true), None);
    assert!(why(0, false).unwrap().ends_with("record again with --stack-sample all"));
    assert!(why(1, false).unwrap().contains("glibc 2.35"));
}

#[test]
fn each_part_is_a_bit_of_its_own() {
    let read = |has_window: bool, has_stacks: bool| {
        let built = match (has_window, has_stacks) {
            (false, false) => TraceBuilder::new(512),
            (true, false) => TraceBuilder::windowed(512, 100, 0),
            (false, true) => TraceBuilder::with_stacks(512, 3),
            (true, true) => TraceBuilder::windowed_with_stacks(512, 100, 0, 3),
        };
        let header = TraceHeader::read(&built.finish()).unwrap();
        (header.window > 0, header.stacks > 0, header.is_packed)
    };
    for (has_window, has_stacks) in [(false, false), (true, false), (false, true), (true, true)] {
        assert_eq!(read(has_window, has_stacks), (has_window, has_stacks, false));
    }
}
