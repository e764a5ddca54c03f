//! The processes that the agent knows, and what it knows of each. In: what is counted, and what was seen. Out: rows, a container each.

use std::collections::BTreeMap;
use std::time::Duration;

use allocanary_fleet::{Bound, Follows, Part, Parts, Row};
use allocanary_heap::counters::Counters;

use crate::group::Place;
use crate::look::{Heap, Identity};
use crate::names::Names;
use crate::schedule::Waiting;
use crate::stat::{Key, Status};
use crate::world::Charged;

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What is resident.
    pub status: Status,
    /// Where it belongs.
    pub place: Place,
    /// Its groups, as the kernel lists them.
    pub listed: String,
    /// Its number.
    pub pid: u32,
    /// When it was started, in milliseconds since 1970.
    pub started: u64,
    /// CPU time of it and of its children that have ended, in milliseconds.
    pub cpu: u64,
    /// Whether its memory may not be read.
    pub is_denied: bool,
    /// Its allocators, once they were looked for.
    pub identity: Option<Identity>,
    /// What its allocators count.
    pub counters: Vec<Counters>,
    /// Its heap and when it was read, in milliseconds since 1970.
    pub heap: Option<(u64, Heap)>,
    /// When it was last tried, since the agent's start.
    pub tried: Option<Duration>,
    /// How often that has failed in a row.
    pub failures: u32,
}

/// Of less anonymous memory it is not said that it was not read.
const FEW: u64 = 1 << 20;
/// An allocator with less than one in this many of a container's anonymous bytes is not named.
const SMALL: u64 = 20;
/// The name of the group that has no name.
const ROOT: &str = "(no group)";
/// The remedies of a container that are told.
const BOUNDS: usize = 2;

impl Known {
    /// Its resident bytes now, by part: of its last reading, or what the kernel counts.
    pub fn parts(&self) -> Parts {
        let parts = match &self.heap {
            Some((_, heap)) => heap.parts,
            None => {
                let mut parts = Parts::default();
                parts.add(Part::Unknown, self.status.anonymous);
                parts.add(Part::Files, self.status.resident - self.status.anonymous);
                parts
            }
        };
        parts.at(self.status.resident)
    }

    /// How much its reading is needed.
    pub fn waiting(&self, now: Duration) -> Waiting {
        let read = self.heap.as_ref().map_or(0, |(_, heap)| heap.parts.sum());
        Waiting {
            anonymous: if self.is_denied { 0 } else { self.status.anonymous },
            age: self.tried.map(|tried| now.saturating_sub(tried)),
            failures: self.failures,
            changed: self.heap.as_ref().map_or(0, |_| read.abs_diff(self.status.resident)),
        }
    }

    fn allocator(&self) -> &str {
        self.identity.as_ref().map_or("unknown", |identity| identity.allocator.as_str())
    }
}

/// The rows of all processes. `groups` is asked once for each container.
pub fn rows(known: &BTreeMap<Key, Known>, names: &Names, groups: &BTreeMap<Place, Charged>) -> Vec<Row> {
    let mut by_place: BTreeMap<&Place, Vec<&Known>> = BTreeMap::new();
    for one in known.values() {
        by_place.entry(&one.place).or_default().push(one);
    }
    by_place
        .into_iter()
        .map(|(place, all)| row(place, &all, names, groups.get(place).copied().unwrap_or_default()))
        .collect()
}

fn row(place: &Place, all: &[&Known], names: &Names, charged: Charged) -> Row {
    let mut row = Row { charged: charged.anonymous, quota_milli: charged.quota_milli, ..Row::default() };
    name(&mut row, place, names);
    row.processes = all.len() as u64;
    let has_memory = |one: &&&Known| one.status.anonymous >= FEW;
    row.unread = all.iter().filter(has_memory).filter(|one| one.heap.is_none()).count() as u64;
    let read = all.iter().filter_map(|one| one.heap.as_ref()).map(|(read, _)| *read).min();
    row.read = read.filter(|_| row.unread == 0);
    all.iter().for_each(|one| row.parts += one.parts());
    allocators(&mut row, all);
    row.arenas = all.iter().filter_map(|one| arenas(one)).max();
    let sum = |of: fn(&Counters) -> Option<u64>| {
        { all.iter() }.flat_map(|one| &one.counters).filter_map(of).reduce(|one, more| one.saturating_add(more))
    };
    (row.system, row.mapped, row.active) = (sum(|one| one.system), sum(|one| one.mapped), sum(|one| one.active));
    row.bounds = bounds(all);
    row.started = all.iter().map(|one| one.started).min();
    row.pid = all.iter().max_by_key(|one| one.status.resident).map(|one| one.pid);
    row.cpu = all.iter().map(|one| one.cpu).reduce(u64::saturating_add);
    row
}

/// Arenas in use: as the allocator counts them, or else as they were met in a walk.
fn arenas(one: &Known) -> Option<u64> {
    let own = one.allocator();
    let counted = one.counters.iter().filter(|counters| (own == "jemalloc") == counters.active.is_some());
    let walked = one.heap.as_ref().and_then(|(_, heap)| heap.arenas);
    counted.map(|counters| counters.arenas).max().or(walked)
}

/// The names of the group.
fn name(row: &mut Row, place: &Place, names: &Names) {
    let short = |id: &str| id.chars().take(12).collect::<String>();
    row.container = match &place.container {
        Some(id) => short(id),
        None if place.group.is_empty() => ROOT.into(),
        None => place.group.clone(),
    };
    let Some(uid) = &place.pod else { return };
    row.pod = uid.clone();
    let Some(pod) = names.pod(uid) else { return };
    (row.namespace, row.pod, row.workload) = (pod.namespace.clone(), pod.name.clone(), pod.workload.clone());
    if let Some((name, image)) = place.container.as_ref().and_then(|id| pod.containers.get(id)) {
        (row.container, row.image) = (name.clone(), image.clone());
    }
}

/// The allocators of the processes, and the version and settings of the one with the most memory.
fn allocators(row: &mut Row, all: &[&Known]) {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    all.iter().for_each(|one| *bytes.entry(one.allocator()).or_default() += one.status.anonymous);
    let whole: u64 = bytes.values().sum();
    let named: Vec<&str> =
        bytes.iter().filter(|(_, own)| **own * SMALL >= whole.max(1)).map(|(name, _)| *name).collect();
    row.allocator = if named.is_empty() { "unknown".into() } else { named.join("+") };
    let first = all.iter().filter(|one| one.identity.is_some()).max_by_key(|one| one.status.anonymous);
    if let Some(identity) = first.and_then(|one| one.identity.as_ref()) {
        (row.version, row.settings) = (identity.version.clone(), identity.settings.clone());
    }
    let follows = all.iter().filter_map(|one| one.identity.as_ref()).map(|identity| identity.follows);
    // One that follows the host is to be seen among others.
    row.follows = follows.min().unwrap_or(Follows::Unknown);
}

/// The remedies with the most bytes, of all processes.
fn bounds(all: &[&Known]) -> Vec<Bound> {
    let mut sums: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for bound in all.iter().filter_map(|one| one.heap.as_ref()).flat_map(|(_, heap)| &heap.bounds) {
        let sum = sums.entry(&bound.remedy).or_insert((0, true));
        *sum = (sum.0.saturating_add(bound.bytes), sum.1 && bound.exact);
    }
    let mut bounds: Vec<Bound> =
        sums.into_iter().map(|(remedy, (bytes, exact))| Bound { remedy: remedy.into(), bytes, exact }).collect();
    bounds.sort_by_key(|bound| std::cmp::Reverse(bound.bytes));
    bounds.truncate(BOUNDS);
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(allocator: &str, anonymous: u64, live: u64) -> Known {
        let mut parts = Parts::default();
        parts.add(Part::Live, live);
        parts.add(Part::Files, 50);
        let identity = Identity { allocator: allocator.into(), ..Identity::default() };
        Known {
            status: Status { resident: anonymous + 50, anonymous, swapped: 0 },
            identity: Some(identity),
            heap: Some((7, Heap { parts, ..Heap::default() })),
            ..Known::default()
        }
    }

    fn one(all: Vec<Known>) -> Row {
        let keys = (1..).map(|pid| Key { pid, start: 1, program: (0, 0) });
        let known: BTreeMap<Key, Known> = keys.zip(all).collect();
        let mut rows = rows(&known, &Names::default(), &BTreeMap::new());
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }

    #[test]
    fn the_parts_add_up_to_what_is_resident_also_after_a_change() {
        let row = one(vec![known("glibc", 100 << 20, 80 << 20), known("glibc", 10 << 20, 20 << 20)]);
        assert_eq!(row.resident(), (110 << 20) + 100);
        assert_eq!(row.parts.of(Part::Unknown), 20 << 20, "it has grown since it was read");
        let fresh = Known { heap: None, ..known("glibc", 5 << 20, 0) };
        let row = one(vec![fresh]);
        assert_eq!((row.parts.of(Part::Unknown), row.parts.of(Part::Files)), (5 << 20, 50));
        assert_eq!((row.unread, row.read), (1, None), "what is not known has no age, and is counted");
    }

    #[test]
    fn allocators_that_matter_are_named_together() {
        let both = one(vec![known("glibc", 50 << 20, 0), known("jemalloc", 50 << 20, 0)]);
        assert_eq!(both.allocator, "glibc+jemalloc");
        let shell = one(vec![known("glibc", 1 << 20, 0), known("jemalloc", 50 << 20, 0)]);
        assert_eq!(shell.allocator, "jemalloc");
        let new = one(vec![Known { identity: None, heap: None, ..known("", 1 << 20, 0) }]);
        assert_eq!(new.allocator, "unknown");
    }

    #[test]
    fn the_bounds_of_processes_add_up_and_the_largest_are_told() {
        let with = |bounds: &[(&str, u64, bool)]| {
            let mut one = known("glibc", 1 << 20, 0);
            let bound = |(remedy, bytes, exact): &(&str, u64, bool)| Bound {
                remedy: (*remedy).into(),
                bytes: *bytes,
                exact: *exact,
            };
            one.heap.as_mut().unwrap().1.bounds = bounds.iter().map(bound).collect();
            one
        };
        let row = one(vec![
            with(&[("give-back", 10, true), ("arena_max", 50, false)]),
            with(&[("give-back", 20, true), ("idle", 5, false)]),
        ]);
        let told: Vec<_> = row.bounds.iter().map(|one| (one.remedy.as_str(), one.bytes, one.exact)).collect();
        assert_eq!(told, [("arena_max", 50, false), ("give-back", 30, true)]);
    }

    #[test]
    fn a_container_has_its_name_where_the_kubelet_tells_it_and_its_number_where_not() {
        let (uid, id) = ("0123456789abcdef0123456789abcdef", "ab".repeat(32));
        let text = format!(
            r#"{{"items":[{{"metadata":{{"name":"web-1","namespace":"shop","uid":"{uid}"}},
            "status":{{"containerStatuses":[{{"name":"web","image":"i:1","containerID":"containerd://{id}"}}]}}}}]}}"#
        );
        let names = Names::parse(text.as_bytes()).unwrap();
        let place = Place { pod: Some(uid.into()), container: Some(id), group: "x".into() };
        let named = |names: &Names, place: &Place| {
            let row = row(place, &[], names, Charged::default());
            (row.namespace, row.pod, row.container, row.image)
        };
        let told = |all: [&str; 4]| all.map(String::from).into();
        assert_eq!(named(&names, &place), told(["shop", "web-1", "web", "i:1"]));
        assert_eq!(named(&Names::default(), &place), told(["", uid, "abababababab", ""]));
        let pause = Place { container: Some("cd".repeat(32)), ..place };
        assert_eq!(named(&names, &pause), told(["shop", "web-1", "cdcdcdcdcdcd", ""]));
        let unit = Place { group: "nginx.service".into(), ..Place::default() };
        assert_eq!(named(&names, &unit), told(["", "", "nginx.service", ""]));
        assert_eq!(named(&names, &Place::default()), told(["", "", ROOT, ""]));
    }
}
