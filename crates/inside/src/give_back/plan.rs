//! Computes from a reading what a process could give back: a remedy for each of its heaps, with the forecast.

use allocanary_heap::{PartsCertainty, Reading, Sort};

use crate::give_back::remedy::{self, ReleaseCall};

/// The calls for one heap, and their forecast.
#[derive(Clone, Copy, Debug)]
pub struct HeapPlan {
    /// The calls.
    pub remedy: &'static ReleaseCall,
    /// Resident bytes that it would give back; `None` if the heap could not be divided into parts.
    pub forecast: Option<u64>,
    /// Whether the forecast is only an upper bound.
    pub at_most: bool,
}

/// The heaps that have a remedy, those that would give the most first. A heap that would give nothing is left out.
pub fn plan(reading: &Reading) -> Vec<HeapPlan> {
    let mut all: Vec<HeapPlan> = Vec::new();
    for heap in &reading.heaps {
        let Some(remedy) = remedy::of(&heap.allocator) else { continue };
        let known = heap.remedies.first().filter(|_| heap.sure != PartsCertainty::NotKnown);
        let forecast = known.map(|one| one.bytes);
        if forecast != Some(0) {
            all.push(HeapPlan {
                remedy,
                forecast,
                at_most: heap.copied.is_some() || known.is_some_and(|one| one.at_most),
            });
        }
    }
    all.sort_by_key(|one| std::cmp::Reverse(one.forecast));
    all
}

/// Unknown memory smaller than this does not count as a heap.
const SMALL: u64 = 1 << 20;

/// Resident bytes that belong to no known allocator; 0 if they are fewer than 1 MiB.
pub fn not_known(reading: &Reading) -> u64 {
    let areas = reading.areas.iter().filter(|area| area.sort == Sort::Unknown).map(|area| area.resident);
    let heaps = reading
        .heaps
        .iter()
        .filter(|heap| remedy::of(&heap.allocator).is_none() && heap.sure == PartsCertainty::NotKnown);
    let heaps = heaps.map(|heap| heap.resident);
    Some(areas.chain(heaps).sum()).filter(|bytes| *bytes >= SMALL).unwrap_or(0)
}

/// Allocators whose heap is known, and that have no call which gives memory back, such as musl's.
pub fn without_call(reading: &Reading) -> Vec<String> {
    let known = reading
        .heaps
        .iter()
        .filter(|heap| heap.sure != PartsCertainty::NotKnown && remedy::of(&heap.allocator).is_none());
    known.map(|heap| heap.allocator.clone()).collect()
}

/// Plans for allocators whose heap was not found, but whose function the process has, according to `has`. Their forecast is not known. They
/// are only searched if some memory belongs to no known allocator.
pub fn by_function(reading: &Reading, has: impl Fn(&ReleaseCall) -> bool) -> Vec<HeapPlan> {
    let is_new = |remedy: &&'static ReleaseCall| reading.heaps.iter().all(|heap| heap.allocator != remedy.allocator);
    let all = remedy::all().filter(|_| not_known(reading) > 0).filter(is_new);
    all.filter(|remedy| has(remedy)).map(|remedy| HeapPlan { remedy, forecast: None, at_most: false }).collect()
}

/// The sum of the forecasts; `None` if one of them is not known.
pub fn forecast(planned: &[HeapPlan]) -> Option<u64> {
    planned.iter().map(|one| one.forecast).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(heaps: &str) -> Reading {
        let text = format!(
            r#"{{"schema":1,"taken_timestamp_seconds":0,"process":{{"pid":1,"parent":0,"name":"","executable":"","started_timestamp_seconds":0,"threads":1}},
            "resident_bytes":0,"kernel":{{"resident_bytes":0,"pss_bytes":0,"anonymous_bytes":0,"lazy_free_bytes":0,"swap_bytes":0}},"heaps":[{heaps}],"areas":[],
            "problems":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn heap(allocator: &str, sure: &str, bytes: u64) -> String {
        format!(
            r#"{{"allocator":"{allocator}","version":"","sure":"{sure}","resident_bytes":0,"pss_bytes":0,"parts_bytes":{{}},"allocated_bytes":0,"blocks":0,
            "arenas":[],"live_in_a_page":[],"checks":[],"breaks":0,"skipped_bytes":0,"swap_bytes":0,
            "remedies":[{{"name":"","reclaimable_bytes":{bytes},"bound":"exact"}}]}}"#
        )
    }

    #[test]
    fn an_allocator_without_a_call_is_named_and_its_memory_is_known() {
        let big = |sure| heap("musl's malloc", sure, 0).replace(r#""resident_bytes":0"#, r#""resident_bytes":9000000"#);
        let known = reading(&big("exact"));
        assert_eq!((without_call(&known), not_known(&known), plan(&known).len()), (vec!["musl's malloc".into()], 0, 0));
        let unknown = reading(&big("not_known"));
        assert_eq!((without_call(&unknown), not_known(&unknown)), (vec![], 9_000_000));
    }

    #[test]
    fn memory_that_is_not_known_may_be_an_allocator_s_whose_function_is_there() {
        let unknown = |bytes: u64| {
            let mut reading = reading(&heap("glibc", "exact", 0));
            let text = format!(
                r#"{{"name":"not known","sort":"unknown","resident_bytes":{bytes},"pss_bytes":0,"mappings":1,"how":"","tool":""}}"#
            );
            reading.areas.push(serde_json::from_str(&text).unwrap());
            reading
        };
        let found = |reading: &Reading| {
            let planned = by_function(reading, |remedy| remedy.allocator != "mimalloc");
            planned.iter().map(|one| (one.remedy.allocator, one.forecast)).collect::<Vec<_>>()
        };
        assert_eq!(not_known(&unknown(5 << 20)), 5 << 20);
        assert_eq!(found(&unknown(5 << 20)), [("jemalloc", None), ("tcmalloc", None)]);
        assert_eq!((not_known(&unknown(5000)), found(&unknown(5000))), (0, vec![]));
        assert_eq!(not_known(&reading(&heap("snmalloc", "exact", 7))), 0, "little");
    }

    #[test]
    fn heaps_with_a_remedy_and_something_to_give_are_asked() {
        let both = [heap("glibc", "exact", 5), heap("jemalloc", "close", 9), heap("snmalloc", "exact", 7)].join(",");
        let planned = plan(&reading(&both));
        assert_eq!(planned.iter().map(|one| one.remedy.allocator).collect::<Vec<_>>(), ["jemalloc", "glibc"]);
        assert_eq!(forecast(&planned), Some(14));
        assert!(plan(&reading(&heap("glibc", "exact", 0))).is_empty());
        assert_eq!(forecast(&plan(&reading(&heap("glibc", "not_known", 0)))), None);
        assert_eq!(forecast(&[]), Some(0));
    }
}
