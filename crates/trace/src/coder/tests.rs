//! Every event that is written is read back.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::*;
use crate::format::LONGEST_EVENT;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let address = || prop_oneof![(1_u64..2000).prop_map(|at| 0x7F00_0000_0000 + at * 16), 8_u64..1 << 47];
    let address = move || address().prop_map(|address| address & !7);
    let size = || prop_oneof![0_u64..600, 0_u64..1 << 40];
    let how = prop_oneof![
        Just(AllocFunction::Malloc),
        Just(AllocFunction::Calloc),
        Just(AllocFunction::Resized),
        (0_u8..64).prop_map(AllocFunction::Aligned)
    ];
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
                    Event::New { how: AllocFunction::Malloc, address, size } if at % 2 == 0 && is_short(size) => {
                        (writer.put_malloc_stamped(start, address, size, ticks), true)
                    }
                    Event::New { how: AllocFunction::Malloc, address, size } => {
                        (writer.put_malloc(start, address, size), false)
                    }
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
            assert_eq!(read, Some((event, stamped.then_some(ticks), length)));
        }
    });
}

/// Writes an event by the general functions, and returns the place after it. `is_multi` as of
/// [`Coder::put_near_malloc`].
unsafe fn put_general(writer: &mut Coder, start: *mut u8, event: &Event, is_multi: bool, ticks: u64) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        match *event {
            Event::New { address, size, .. } if is_multi && is_short(size) && writer.recent(address).is_none() => {
                writer.put_malloc_stamped(start, address, size, ticks)
            }
            Event::New { address, size, .. } => writer.put_malloc(start, address, size),
            Event::Free { address } => match writer.recent(address) {
                Some(entry) => writer.put_free_recent(start, entry),
                None => writer.put_free(start, address, ticks),
            },
            _ => start,
        }
    }
}

#[test]
fn fuzz_the_short_way_writes_the_same_bytes() {
    let address =
        (0_u64..4000, 0_u32..40).prop_map(|(at, shift)| (0x7F00_0000_0000 + (at << shift)) & !7 & ((1 << 47) - 1));
    let events = vec((address, 0_u64..600, any::<bool>(), any::<bool>(), 0_u32..30), 1..300);
    let short = std::cell::Cell::new(0_u64);
    allocanary_testing::fuzz::holds(256, 4, events, |events| {
        let (mut general, mut near) = (Coder::NEW, Coder::NEW);
        for (address, size, is_new, is_multi, shift) in events {
            let ticks = 1 << shift;
            let event =
                if is_new { Event::New { how: AllocFunction::Malloc, address, size } } else { Event::Free { address } };
            let (mut wanted, mut found) = ([0; LONGEST_EVENT], [0; LONGEST_EVENT]);
            let (start, ticks_now) = (found.as_mut_ptr(), || (ticks < NEAR_TICKS).then_some(ticks));
            // SAFETY: both buffers have room for the longest event.
            let (end, written) = unsafe {
                let before = near.clone();
                let end = match is_new {
                    true => near.put_near_malloc(start, address, size, || is_multi, ticks_now),
                    false => {
                        near.put_near_free(start, address).or_else(|| near.put_near_free_stamped(start, address, ticks))
                    }
                };
                if end.is_none() {
                    assert!(found == [0; LONGEST_EVENT] && near.recent == before.recent);
                    assert!(near.sizes == before.sizes && near.freed == before.freed);
                }
                short.set(short.get() + u64::from(end.is_some()));
                // As the writer does: sizes above 504 have no event with a stamp.
                let is_multi = is_multi && (1..=504).contains(&size);
                let end = end.unwrap_or_else(|| put_general(&mut near, start, &event, is_multi, ticks));
                (end.addr() - start.addr(), put_general(&mut general, wanted.as_mut_ptr(), &event, is_multi, ticks))
            };
            assert_eq!(found, wanted);
            assert_eq!(end, written.addr() - wanted.as_ptr().addr());
        }
    });
    assert!(short.get() > 1000, "{} went the short way", short.get());
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
