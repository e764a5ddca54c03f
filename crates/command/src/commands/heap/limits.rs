//! How much memory and time a reading may take, and how exact it is. In: flags. Out: bytes, a time, a way to count shares.

use std::time::Duration;

use crate::args::HeapFlags;
use allocanary_heap::Shares;
use allocanary_heap::reader::{LEAST, MEMORY};
use allocanary_rows::error::{Error, Result};
use allocanary_text::outside::harmless;
use allocanary_text::units::{parse_bytes, parse_duration};

/// The time for a process without --timeout. A GiB takes less than a second.
const DEADLINE: Duration = Duration::from_secs(30);

/// The memory that a reading may take.
pub(super) fn memory(flags: &HeapFlags) -> Result<u64> {
    let Some(text) = &flags.reader_memory else { return Ok(MEMORY) };
    parse_bytes(text).filter(|bytes| *bytes >= LEAST).ok_or_else(|| {
        let found = harmless(text);
        Error::Input(format!("heap: --reader-memory: wanted a size of 64MiB or more, such as 1GiB; found `{found}`"))
    })
}

/// The way to find out how many processes share a page.
pub(super) fn shares(flags: &HeapFlags) -> Shares {
    match flags {
        HeapFlags { exact_shares: true, .. } => Shares::BySmaps,
        HeapFlags { tree: true, .. } => Shares::ByPages,
        _ => Shares::NotRead,
    }
}

/// The time for each process.
pub(super) fn time(flags: &HeapFlags) -> Result<Duration> {
    let Some(text) = &flags.timeout else { return Ok(DEADLINE) };
    parse_duration(text).filter(|time| *time >= Duration::from_millis(1)).ok_or_else(|| {
        Error::Input(format!("heap: --timeout: wanted a time of 1ms or more, such as 10s; found `{}`", harmless(text)))
    })
}
