//! Counts the bytes of each mapping, from the states of its pages. If exact shares are requested, they come from the text of
//! `/proc/PID/smaps`. The counts are in the order of the addresses.

use crate::{PageState, PageStates};
use allocanary_sys::proc::maps::MapsEntry;
use allocanary_sys::proc::smaps::{self, MappingBytes};
use allocanary_text::parts::in_proportion;
use allocanary_walkers::Mapping;

/// The counts of one mapping, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingCount {
    /// The mapping.
    pub mapping: Mapping,
    /// Bytes that are resident.
    pub resident: u64,
    /// The part of `resident` that is in huge pages.
    pub huge: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// The process's share of the resident bytes: a page that N processes have counts as one Nth for each. `None` if it was not read.
    pub share: Option<u64>,
    /// Bytes that were given back lazily, and are resident until the kernel needs them. `None` if they were not read.
    pub lazy: Option<u64>,
}

/// Counts the pages of mappings.
pub fn counted(mappings: &[Mapping], pages: &PageStates) -> Vec<MappingCount> {
    let count = |mapping: &Mapping| {
        let mut counted = MappingCount { mapping: mapping.clone(), ..MappingCount::default() };
        for run in pages.within(mapping.from, mapping.to) {
            let bytes = run.to - run.from;
            match run.state {
                PageState::Swapped => counted.swapped += bytes,
                state if state.is_resident() => counted.resident += bytes,
                _ => {}
            }
            counted.huge += if run.state == PageState::Huge { bytes } else { 0 };
        }
        counted
    };
    mappings.iter().map(count).collect()
}

/// Adds the shares and the lazily freed bytes of `exact`, in proportion to the resident bytes. The kernel counted `exact` at another
/// moment, and its mappings may differ.
pub(crate) fn add_shares(counted: &mut [MappingCount], exact: &[MappingCount]) {
    for one in counted {
        let Mapping { from, to, .. } = one.mapping;
        let first = exact.partition_point(|exact| exact.mapping.to <= from);
        let same = exact[first..].iter().take_while(|exact| exact.mapping.from < to);
        let sum = |of: fn(&MappingCount) -> u64| same.clone().map(of).sum::<u64>();
        let resident = sum(|exact| exact.resident).max(1);
        let of_it = |bytes: u64| Some(in_proportion(bytes, one.resident, resident).min(one.resident));
        (one.share, one.lazy) =
            (of_it(sum(|exact| exact.share.unwrap_or(0))), of_it(sum(|exact| exact.lazy.unwrap_or(0))));
    }
}

/// The counts in a text of smaps.
pub fn parse_smaps(text: impl AsRef<[u8]>) -> Vec<MappingCount> {
    let counted = |(line, counts): (MapsEntry<'_>, MappingBytes)| MappingCount {
        mapping: line.into(),
        resident: counts.resident.unwrap_or(0),
        huge: counts.huge.unwrap_or(0),
        swapped: counts.swapped.unwrap_or(0),
        share: Some(counts.share.unwrap_or(0)),
        lazy: Some(counts.lazy.unwrap_or(0)),
    };
    smaps::parse(text.as_ref()).into_iter().map(counted).collect()
}

/// The counts of a process in a test. Private writable memory has the resident pages of the test; all other readable
/// memory is resident. The share is half of each.
#[cfg(test)]
pub(crate) fn counted_of(fake: &allocanary_walkers::fake::FakeMemory) -> Vec<MappingCount> {
    let count = |mapping: &Mapping| {
        let resident = match (mapping.readable, mapping.writable && !mapping.shared) {
            (false, _) => 0,
            (true, true) => fake.pages.resident(mapping.from, mapping.to),
            (true, false) => mapping.bytes(),
        };
        let share = Some(resident / 2);
        MappingCount { resident, share, lazy: Some(0), mapping: mapping.clone(), ..MappingCount::default() }
    };
    fake.mappings.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageRun;

    #[test]
    fn each_count_belongs_to_the_mapping_above_it() {
        let text = "1000-3000 rw-p 00000000 00:00 0   [heap]\nRss:  8 kB\nPss:   4 kB\nPss_Dirty:  2 kB\nLazyFree: 4 kB\n\
                    4000-5000 r--p 00000000 08:01 7   /a\nRss: 4 kB\nAnonymous: 0 kB\nSwap: 12 kB\nVmFlags: rd mr\n";
        let all = parse_smaps(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].resident, all[0].share, all[0].lazy, all[0].swapped), (8192, Some(4096), Some(4096), 0));
        assert_eq!((all[1].mapping.name.as_str(), all[1].resident, all[1].swapped), ("/a", 4096, 12288));
        assert_eq!(parse_smaps("Rss: 4 kB\nnonsense"), []);
    }

    #[test]
    fn pages_are_counted_and_what_was_not_read_is_not_known() {
        let mut pages = PageStates::default();
        let states = [PageState::Resident, PageState::Huge, PageState::Zero, PageState::Swapped, PageState::Resident];
        for (from, state) in (0x1000..).step_by(0x1000).zip(states) {
            pages.push(PageRun { from, to: from + 0x1000, state });
        }
        let mapping = Mapping { from: 0x1000, to: 0x5000, ..Mapping::default() };
        let mut all = counted(std::slice::from_ref(&mapping), &pages);
        let wanted = MappingCount { mapping, resident: 0x2000, huge: 0x1000, swapped: 0x1000, share: None, lazy: None };
        assert_eq!(all, [wanted]);
        let exact = parse_smaps(
            "1000-2000 rw-p 0 00:00 0 \nRss: 4 kB\nPss: 4 kB\n2000-8000 rw-p 0 00:00 0 \nRss: 12 kB\nPss: 4 kB\n",
        );
        add_shares(&mut all, &exact);
        assert_eq!((all[0].share, all[0].lazy), (Some(0x1000), Some(0)), "half of what was resident is its share");
    }
}
