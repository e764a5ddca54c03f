//! Every event that is written is read back.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::*;
use crate::format::LONGEST_EVENT;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let address = || prop_oneof![(1_u64..2000).prop_map(|at| 0x7F00_0000_0000 + at * 16), 8_u64..1 << 47];
    let address = move || address().prop_map(|address| address & !7);
    let size = || prop_oneof![0_u64..600, 0_u64..1 << 40];
    let how = prop_oneof![Just(How::Malloc), Just(How::Calloc), Just(How::Resized), (0_u8..64).prop_map(How::Aligned)];
    let event = prop_oneof![
        4 => (how, address(), size()).prop_map(|(how, address, size)| Event::New { how, address, size }),
        4 => address().prop_map(|address| Event::Free { address }),
        2 => address().prop_map(|address| Event::Resize { address }),
        1 => Just(Event::ResizeFailed),
        1 => Just(Event::ResizeFreed),
        1 => any::<u64>().prop_map(Event::Resident),
        1 => any::<u8>().prop_map(Event::Mark),
        1 => Just(Event::End),
        1 => Just(Event::Stamp),
    ];
    vec(event, 1..200)
}

/// What is read back: sizes of small blocks of malloc are rounded up to 8.
fn rounded(event: Event) -> Event {
    match event {
        Event::New { how: How::Malloc, address, size: size @ 1..=504 } => {
            Event::New { how: How::Malloc, address, size: size.next_multiple_of(8) }
        }
        other => other,
    }
}

#[test]
fn fuzz_what_is_written_is_read() {
    allocanary_testing::fuzz::holds(256, 4, events(), |events| {
        let (mut writer, mut reader) = (Coder::NEW, Coder::NEW);
        for (at, event) in events.into_iter().enumerate() {
            let mut buffer = [0; LONGEST_EVENT];
            let (start, ticks) = (buffer.as_mut_ptr(), at as u64 * 1000);
            // SAFETY: the buffer has room for the longest event.
            let (end, stamped) = unsafe {
                match event {
                    Event::New { how: How::Malloc, address, size: size @ 1..=504 } if at % 2 == 0 => {
                        (writer.put_malloc_stamped(start, address, size, ticks), true)
                    }
                    Event::New { how: How::Malloc, address, size } => (writer.put_malloc(start, address, size), false),
                    Event::New { how, address, size } => (writer.put_new(start, how, address, size), false),
                    Event::Free { address } => match writer.recent(address) {
                        Some(entry) => (writer.put_free_recent(start, entry), false),
                        None => (writer.put_free(start, address, ticks), true),
                    },
                    Event::Resize { address } => writer.put_resize(start, address, ticks),
                    Event::ResizeFailed | Event::ResizeFreed => (writer.put_other(start, event, ticks), false),
                    _ => (writer.put_other(start, event, ticks), true),
                }
            };
            let length = end.addr() - buffer.as_ptr().addr();
            let read = reader.read(&buffer[..length]).unwrap();
            assert_eq!(read, Some((rounded(event), stamped.then_some(ticks), length)));
        }
    });
}

#[test]
fn fuzz_no_bytes_make_the_reader_panic() {
    allocanary_testing::fuzz::holds(256, 4, vec(any::<u8>(), 0..400), |bytes| {
        let mut reader = Coder::NEW;
        let mut rest = &bytes[..];
        while let Ok(Some((_, _, length))) = reader.read(rest) {
            rest = &rest[length..];
        }
    });
}
