//! What the kernel counts for each mapping. In: the text of `/proc/PID/smaps`. Out: bytes for each mapping, in the order of the
//! addresses.

use crate::mapping::{Mapping, parse_line};

/// The kernel's counts of one mapping, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The mapping.
    pub mapping: Mapping,
    /// Resident.
    pub resident: u64,
    /// Its share: a page that several processes have counts as one part of it for each.
    pub share: u64,
    /// Resident without a file behind it.
    pub anonymous: u64,
    /// Given back lazily, and resident until the kernel needs it.
    pub lazy: u64,
    /// In swap.
    pub swapped: u64,
}

/// The counts in a text. Lines of other keys are left out.
pub fn parse_smaps(text: &str) -> Vec<Counted> {
    let mut all: Vec<Counted> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = parse_line(line) {
            all.push(Counted { mapping, ..Counted::default() });
            continue;
        }
        let (Some(now), Some((key, value))) = (all.last_mut(), line.split_once(':')) else { continue };
        let sum = match key {
            "Rss" => &mut now.resident,
            "Pss" => &mut now.share,
            "Anonymous" => &mut now.anonymous,
            "LazyFree" => &mut now.lazy,
            "Swap" => &mut now.swapped,
            _ => continue,
        };
        let kib = value.trim().trim_end_matches("kB").trim_end().parse::<u64>().unwrap_or_default();
        *sum = kib.saturating_mul(1024);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_belongs_to_the_mapping_above_it() {
        let text = "1000-3000 rw-p 00000000 00:00 0   [heap]\nRss:  8 kB\nPss:   4 kB\nPss_Dirty:  2 kB\nLazyFree: 4 kB\n\
                    4000-5000 r--p 00000000 08:01 7   /a\nRss: 4 kB\nAnonymous: 0 kB\nSwap: 12 kB\nVmFlags: rd mr\n";
        let all = parse_smaps(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].resident, all[0].share, all[0].lazy, all[0].swapped), (8192, 4096, 4096, 0));
        assert_eq!((all[1].mapping.name.as_str(), all[1].resident, all[1].swapped), ("/a", 4096, 12288));
        assert_eq!(parse_smaps("Rss: 4 kB\nnonsense"), []);
    }
}
