//! Copies ranges of a process's memory, and says which ranges were copied.
//!
//! It reads `/proc/PID/mem`, whose descriptor the command has opened. `process_vm_readv` would check rights at each call, and after an
//! `execve` it would read the new program. One call reads ranges that are near each other, and the bytes between them. It reads no page
//! without a range: that could make a new page in the process.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut};

use rustix::io::{Errno, preadv};

use crate::PAGE;

/// The most parts of one call: the kernel's `UIO_MAXIOV`.
const MOST: usize = 1024;
/// The most bytes between ranges that one call reads.
const BETWEEN: usize = 64 << 10;

/// The process has ended, or runs another program: nothing can be read.
#[derive(Debug)]
pub(crate) struct Ended;

/// A range of addresses, and where its bytes go.
#[derive(Debug)]
pub(crate) struct Range<'a> {
    /// Its first address.
    pub at: u64,
    /// A buffer with the length of the range.
    pub into: &'a mut [u8],
}

/// Copies each range. Returns for each whether all of it was copied.
pub(crate) fn copy(memory: &File, ranges: &mut [Range]) -> Result<Vec<bool>, Ended> {
    let mut copied = vec![false; ranges.len()];
    let mut unused = vec![0; if ranges.len() > 1 { BETWEEN } else { 0 }];
    let mut next = 0;
    while next < ranges.len() {
        let end = next + near(&ranges[next..]);
        // The kernel stops at the first range that it cannot read.
        let count = call(memory, &mut ranges[next..end], &mut unused)?;
        copied[next..next + count].fill(true);
        next = end.min(next + count + 1);
    }
    Ok(copied)
}

/// How many ranges, from the first one on, one call can read.
fn near(ranges: &[Range]) -> usize {
    let mut between = 0;
    let mut follows = |pair: &[Range]| {
        let end = pair[0].at.saturating_add(pair[0].into.len() as u64);
        let Some(gap) = pair[1].at.checked_sub(end) else { return false };
        between += gap as usize;
        pair[1].at / PAGE <= end.saturating_sub(1) / PAGE + 1 && between <= BETWEEN
    };
    1 + ranges.windows(2).take(MOST / 2 - 1).take_while(|pair| follows(pair)).count()
}

/// One call for ranges that are near each other. Returns how many were copied, from the first one on.
fn call(memory: &File, ranges: &mut [Range], mut unused: &mut [u8]) -> Result<usize, Ended> {
    let Some(first) = ranges.first().map(|range| range.at) else { return Ok(0) };
    let ends: Vec<u64> = ranges.iter().map(|range| range.at.saturating_add(range.into.len() as u64)).collect();
    let mut parts = Vec::with_capacity(ranges.len() * 2);
    let mut at = first;
    for range in ranges.iter_mut() {
        let (gap, rest) = unused.split_at_mut((range.at - at) as usize);
        if !gap.is_empty() {
            parts.push(IoSliceMut::new(gap));
        }
        unused = rest;
        at = range.at + range.into.len() as u64;
        parts.push(IoSliceMut::new(range.into));
    }
    let wanted = at - first;
    let mut read = 0;
    let mut parts = &mut parts[..];
    while read < wanted {
        match preadv(memory, parts, first + read) {
            Ok(0) => return Err(Ended),
            Ok(count) => {
                IoSliceMut::advance_slices(&mut parts, count);
                read += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) if std::io::Error::from(error).kind() == ErrorKind::PermissionDenied => return Err(Ended),
            // The kernel could not read the next page.
            Err(_) => break,
        }
    }
    Ok(ends.iter().take_while(|end| **end <= first + read).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> File {
        File::open("/proc/self/mem").unwrap()
    }

    #[test]
    fn what_has_gone_does_not_keep_the_others_from_being_copied() {
        let there: Vec<u8> = (0..100).collect();
        let mut into = vec![[0; 10]; 3000];
        // Every seventh one is nowhere.
        let place =
            |index: usize| if index.is_multiple_of(7) { 4096 } else { there.as_ptr() as u64 + index as u64 % 90 };
        let mut ranges: Vec<Range> =
            into.iter_mut().enumerate().map(|(index, into)| Range { at: place(index), into }).collect();
        let copied = copy(&own(), &mut ranges).unwrap();
        for (index, (bytes, copied)) in into.iter().zip(copied).enumerate() {
            assert_eq!(copied, !index.is_multiple_of(7), "{index}");
            assert!(!copied || bytes[..] == there[index % 90..][..10], "{index}");
        }
    }

    #[test]
    fn ranges_on_neighbouring_pages_are_one_call_and_no_other_page_is_read() {
        let mut bytes = [[0; 8]; 5];
        let at = [PAGE, PAGE + 8, PAGE + 500, 2 * PAGE + 100, 4 * PAGE];
        let ranges: Vec<Range> = bytes.iter_mut().zip(at).map(|(into, at)| Range { at, into }).collect();
        assert_eq!((near(&ranges), near(&ranges[4..])), (4, 1));
        let mut bytes = [[0; 8]; 2];
        let back: Vec<Range> = bytes.iter_mut().zip([PAGE + 8, PAGE]).map(|(into, at)| Range { at, into }).collect();
        assert_eq!(near(&back), 1);
    }

    #[test]
    fn bytes_between_ranges_go_nowhere() {
        let there: Vec<u8> = (0..=255).collect();
        let mut into = [[0; 3]; 40];
        let mut ranges: Vec<Range> = into
            .iter_mut()
            .enumerate()
            .map(|(at, into)| Range { at: there.as_ptr() as u64 + 6 * at as u64, into })
            .collect();
        assert!(copy(&own(), &mut ranges).unwrap().into_iter().all(|copied| copied));
        assert!(into.iter().enumerate().all(|(at, bytes)| bytes[..] == there[6 * at..][..3]));
    }
}
