//! Parses `/proc/PID/smaps` and `smaps_rollup`: the kernel's counts for each mapping, and for the whole process. The parser of a line
//! allocates nothing.

use std::io::Result;

use super::lines;
use super::maps::MapsEntry;
use crate::sys::{first_number, read_whole};

/// The kernel's counts for a mapping, or for a whole process, in bytes; `None` if the text does not have the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingBytes {
    /// Resident bytes.
    pub resident: Option<u64>,
    /// The share of the resident bytes: of a page that N processes have, each has one part in N.
    pub share: Option<u64>,
    /// Resident bytes that only this process has, unchanged from the file.
    pub private_clean: Option<u64>,
    /// Resident bytes that only this process has, and that were written to.
    pub private_dirty: Option<u64>,
    /// Bytes without a file, in transparent huge pages.
    pub huge: Option<u64>,
    /// Bytes that were given back lazily (MADV_FREE): they are resident until the kernel needs them.
    pub lazy: Option<u64>,
    /// Bytes in swap.
    pub swapped: Option<u64>,
    /// Whether the kernel may give transparent huge pages to the mapping (from Linux 5.0 on).
    pub may_have_huge_pages: Option<bool>,
    /// Whether the process has advised the kernel to give them (`hg`).
    pub is_advised: bool,
    /// Whether the process has advised the kernel to give none (`nh`). From Linux 6.7 on the C library's stacks have this mark.
    pub is_refused: bool,
}

impl MappingBytes {
    /// Parses the text of `smaps_rollup`.
    pub fn parse_rollup(text: &[u8]) -> MappingBytes {
        let mut counts = MappingBytes::default();
        text.split(|byte| *byte == b'\n').for_each(|line| counts.take(line));
        counts
    }

    /// The sums over all mappings of this process. Allocates nothing.
    pub fn own() -> Result<MappingBytes> {
        MappingBytes::read("/proc/self/smaps_rollup")
    }

    /// The sums over all mappings of a process.
    pub fn of(pid: u32) -> Result<MappingBytes> {
        MappingBytes::read(&format!("/proc/{pid}/smaps_rollup"))
    }

    fn read(path: &str) -> Result<MappingBytes> {
        let mut counts = MappingBytes::default();
        lines::each(path, |line| counts.take(line))?;
        Ok(counts)
    }

    /// Resident bytes that only this process has.
    pub fn private(&self) -> Option<u64> {
        Some(self.private_clean?.saturating_add(self.private_dirty?))
    }

    /// Takes a line that is not the first one of a mapping.
    pub(super) fn take(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let value = &line[colon + 1..];
        let bytes = || first_number(value).map(|kib| kib.saturating_mul(1024));
        match &line[..colon] {
            b"Rss" => self.resident = bytes(),
            b"Pss" => self.share = bytes(),
            b"Private_Clean" => self.private_clean = bytes(),
            b"Private_Dirty" => self.private_dirty = bytes(),
            b"AnonHugePages" => self.huge = bytes(),
            b"LazyFree" => self.lazy = bytes(),
            b"Swap" => self.swapped = bytes(),
            b"THPeligible" => self.may_have_huge_pages = first_number(value).map(|may| may != 0),
            b"VmFlags" => {
                let has = |wanted: &[u8]| value.split(u8::is_ascii_whitespace).any(|flag| flag == wanted);
                (self.is_advised, self.is_refused) = (has(b"hg"), has(b"nh"));
            }
            _ => {}
        }
    }
}

/// The text of `smaps` of a process.
pub fn read(pid: u32) -> Result<Vec<u8>> {
    read_whole(format!("/proc/{pid}/smaps"))
}

/// The mappings in a text of `smaps`. A mapping that grew while the kernel wrote the text can be there twice: the last one counts.
pub fn parse(text: &[u8]) -> Vec<(MapsEntry<'_>, MappingBytes)> {
    let mut all: Vec<(MapsEntry<'_>, MappingBytes)> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(mapping) = MapsEntry::of(line) {
            while all.pop_if(|(last, _)| mapping.from < last.to).is_some() {}
            all.push((mapping, MappingBytes::default()));
        } else if let Some((_, counts)) = all.last_mut() {
            counts.take(line);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_belongs_to_the_mapping_above_it() {
        let text = b"1000-3000 rw-p 00000000 00:00 0   [heap]\nRss:  8 kB\nPss:   4 kB\nPss_Dirty:  2 kB\nPrivate_Clean: 1 kB\n\
            Private_Dirty: 2 kB\nLazyFree: 4 kB\nAnonHugePages: 6 kB\nTHPeligible:    1\nVmFlags: rd wr hg\n\
            4000-5000 r--p 00000000 08:01 7   /a\nRss: 4 kB\nAnonymous: 0 kB\nSwap: 12 kB\nSwapPss: 1 kB\nVmFlags: rd nh\n";
        let all = parse(text);
        let kib = |kib: u64| Some(kib << 10);
        let heap = MappingBytes {
            resident: kib(8),
            share: kib(4),
            private_clean: kib(1),
            private_dirty: kib(2),
            lazy: kib(4),
            huge: kib(6),
            may_have_huge_pages: Some(true),
            is_advised: true,
            ..MappingBytes::default()
        };
        let file = MappingBytes { resident: kib(4), swapped: kib(12), is_refused: true, ..MappingBytes::default() };
        assert_eq!(all.iter().map(|(_, counts)| *counts).collect::<Vec<_>>(), [heap, file]);
        assert_eq!((all[0].0.name, all[1].0.file()), (&b"[heap]"[..], Some(&b"/a"[..])));
        assert_eq!(all[0].1.private(), kib(3));
        assert!(parse(b"Rss: 4 kB\nnonsense").is_empty());
    }

    #[test]
    fn a_mapping_that_is_told_twice_because_it_grew_counts_once() {
        let text = b"1000-3000 rw-p 0 00:0 0 [heap]\nRss: 8 kB\n1000-4000 rw-p 0 00:0 0 [heap]\nRss: 12 kB\n";
        assert_eq!(parse(text).iter().map(|(_, counts)| counts.resident).collect::<Vec<_>>(), [Some(12288)]);
    }

    #[test]
    fn a_rollup_has_the_counts_of_all() {
        let text = b"55d0c1000000-7ffc00021000 ---p 00000000 00:00 0    [rollup]\nRss:  884 kB\nPss:  385 kB\nPrivate_Clean: 0 kB\n";
        let counts = MappingBytes::parse_rollup(text);
        assert_eq!((counts.resident, counts.share, counts.private_clean), (Some(884 << 10), Some(385 << 10), Some(0)));
        assert_eq!((counts.private(), counts.swapped), (None, None));
        let (own, of) = (MappingBytes::own().unwrap(), MappingBytes::of(std::process::id()).unwrap());
        assert!(own.resident > Some(0) && of.share > Some(0) && own.private() > Some(0), "{own:?} {of:?}");
        assert!(MappingBytes::of(u32::MAX).is_err());
    }

    #[test]
    fn fuzz_no_text_makes_it_panic() {
        let text = "([0-9a-f]{1,4}-[0-9a-f]{1,4} rw-p 0 0:0 0 .{0,9}\n|(Rss|Swap|VmFlags|THPeligible):[0-9 nhgkB]{0,30}\n|.{0,20}\n){0,9}";
        allocanary_testing::fuzz::holds(256, 3, text, |text: String| {
            let all = parse(text.as_bytes());
            assert!(all.windows(2).all(|pair| pair[0].0.to <= pair[1].0.from));
        });
    }
}
