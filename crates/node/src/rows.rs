//! The rows of the containers. In: the processes that the agent knows. Out: rows, one for each container or unit.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use allocanary_heap::counters::AllocatorCounters;
use allocanary_rows::fleet::{Bound, ContainerState, Follows};

use crate::group::Membership;
use crate::known::{ProcessRecord, UNKNOWN};
use crate::metrics::{LONGEST, plain};
use crate::names::PodNames;
use crate::stat::ProcessKey;
use crate::world::Charged;

/// A process with less anonymous memory than this many bytes does not count as unread.
const FEW: u64 = 1 << 20;
/// An allocator with less than this fraction (one in 20) of a container's anonymous bytes is not named.
const SMALL: u64 = 20;
/// The name of the group without a name.
const ROOT: &str = "(no group)";

/// The rows of all processes, one for each container or unit.
pub fn rows(
    known: &BTreeMap<ProcessKey, ProcessRecord>,
    names: &PodNames,
    groups: &BTreeMap<Membership, Charged>,
) -> Vec<ContainerState> {
    let mut by_place: BTreeMap<&Membership, Vec<&ProcessRecord>> = BTreeMap::new();
    for one in known.values() {
        by_place.entry(&one.place).or_default().push(one);
    }
    let mut rows: Vec<ContainerState> = Vec::with_capacity(by_place.len());
    let mut labels: BTreeSet<[String; 3]> = BTreeSet::new();
    for (place, all) in by_place {
        let mut row = row(place, &all, names, groups.get(place).copied().unwrap_or_default());
        // Two series must not have the same labels. A kubelet that lies, two units of one name, two long names that are cut, or a pod that
        // was replaced by one of the same name would cause that. The path makes the labels different.
        if !labels.insert(labels_of(&row)) {
            for name in names_apart(&row.container, &place.path) {
                row.container = name;
                if labels.insert(labels_of(&row)) {
                    break;
                }
            }
        }
        rows.push(row);
    }
    rows
}

/// The names of a row as the metrics show them.
fn labels_of(row: &ContainerState) -> [String; 3] {
    [&row.namespace, &row.pod, &row.container].map(|name| plain(name))
}

/// An endless list of names for a container whose name another row has: first the name with its path, then with numbers. The numbers follow
/// from the path, so that a container keeps its name at the next count.
fn names_apart(name: &str, path: &str) -> impl Iterator<Item = String> + use<> {
    let (name, path) = (name.to_string(), path.to_string());
    let with_path = Some(format!(" ({path})")).filter(|path| name.chars().count() + path.chars().count() <= LONGEST);
    let numbers = (0_u64..).map(move |try_number| {
        let mut hasher = DefaultHasher::new();
        (&path, try_number).hash(&mut hasher);
        format!(" ({:016x})", hasher.finish())
    });
    with_path.into_iter().chain(numbers).map(move |ending| {
        let room = LONGEST - ending.chars().count();
        name.chars().take(room).collect::<String>() + &ending
    })
}

fn row(place: &Membership, all: &[&ProcessRecord], names: &PodNames, charged: Charged) -> ContainerState {
    let mut row =
        ContainerState { charged: charged.anonymous, quota_milli: charged.quota_milli(), ..ContainerState::default() };
    name(&mut row, place, names);
    row.processes = all.len() as u64;
    let has_memory = |one: &&&ProcessRecord| one.status.anonymous >= FEW;
    row.unread = all.iter().filter(has_memory).filter(|one| one.heap.is_none()).count() as u64;
    row.read = read(all);
    all.iter().for_each(|one| row.parts += one.parts());
    allocators(&mut row, all);
    row.arenas = all.iter().filter_map(|one| arenas(one)).max();
    // There is a sum only if all answered. Otherwise it would go up and down with the number of answers.
    if all.iter().filter(|one| one.has_counters()).all(|one| one.counters.is_some()) {
        let sum = |of: fn(&AllocatorCounters) -> Option<u64>| {
            let all = all.iter().filter_map(|one| one.counters.as_ref()).flatten();
            all.filter_map(of).reduce(|one, more| one.saturating_add(more))
        };
        (row.mapped, row.mmapped, row.active) = (sum(|one| one.mapped), sum(|one| one.mmapped), sum(|one| one.active));
    }
    row.bounds = bounds(all);
    row.started = all.iter().map(|one| one.started).min();
    let profiles: Vec<(u32, bool)> =
        all.iter().filter_map(|one| Some((one.pid, one.identity.as_ref()?.profile?))).collect();
    row.profiled = profiles.iter().filter(|(_, has_one)| *has_one).map(|(pid, _)| *pid).collect();
    row.profile = (!profiles.is_empty()).then_some(!row.profiled.is_empty());
    row.pid = all.iter().max_by_key(|one| one.status.resident).map(|one| one.pid);
    row.cpu = all.iter().map(|one| one.cpu).reduce(u64::saturating_add);
    row
}

/// The time of the oldest reading. Only processes with at least a twentieth of the anonymous memory count. `None` if one of these was never
/// read.
fn read(all: &[&ProcessRecord]) -> Option<u64> {
    let whole = all.iter().fold(0_u64, |sum, one| sum.saturating_add(one.status.anonymous));
    let counts = |one: &&&ProcessRecord| one.status.anonymous.saturating_mul(SMALL) >= whole.max(1);
    let times: Option<Vec<u64>> =
        all.iter().filter(counts).map(|one| one.heap.as_ref().map(|(read, _)| *read)).collect();
    times?.into_iter().min()
}

/// Arenas in use, as the allocator counts them. Without its count, those that a walk has found.
fn arenas(one: &ProcessRecord) -> Option<u64> {
    let own = one.allocator();
    let counted = one.counters.iter().flatten();
    let counted = counted.filter(|counters| (own == "jemalloc") == counters.active.is_some());
    let walked = one.heap.as_ref().and_then(|(_, heap)| heap.arenas);
    counted.map(|counters| counters.arenas).max().or(walked).filter(|count| *count > 0)
}

/// Fills in the names of a container or unit.
fn name(row: &mut ContainerState, place: &Membership, names: &PodNames) {
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

/// Fills in the allocators of the processes, and the version and settings of the process with the most memory.
fn allocators(row: &mut ContainerState, all: &[&ProcessRecord]) {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for one in all {
        let sum = bytes.entry(one.allocator()).or_default();
        *sum = sum.saturating_add(one.status.anonymous);
    }
    let whole = bytes.values().fold(0_u64, |sum, own| sum.saturating_add(*own));
    let named: Vec<&str> =
        bytes.iter().filter(|(_, own)| own.saturating_mul(SMALL) >= whole.max(1)).map(|(name, _)| *name).collect();
    // A process that was not read yet does not add `unknown` to the allocators that are known.
    let known: Vec<&str> = named.iter().copied().filter(|name| *name != UNKNOWN).collect();
    let named = if known.is_empty() { named } else { known };
    row.allocator = if named.is_empty() { UNKNOWN.into() } else { named.join("+") };
    let first = all.iter().filter(|one| one.identity.is_some()).max_by_key(|one| one.status.anonymous);
    if let Some(identity) = first.and_then(|one| one.identity.as_ref()) {
        (row.version, row.settings) = (identity.version.clone(), identity.settings.clone());
    }
    let follows = all.iter().filter_map(|one| one.identity.as_ref()).map(|identity| identity.follows);
    // One process that follows the host decides, so that it is visible.
    row.follows = follows.min().unwrap_or(Follows::Unknown);
}

/// The bounds of each remedy, summed over the processes. Those with the most bytes come first.
fn bounds(all: &[&ProcessRecord]) -> Vec<Bound> {
    let mut sums: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    let own: Vec<Bound> = all.iter().flat_map(|one| one.bounds()).collect();
    for bound in &own {
        let sum = sums.entry(&bound.remedy).or_insert((0, true));
        *sum = (sum.0.saturating_add(bound.bytes), sum.1 && bound.exact);
    }
    let mut bounds: Vec<Bound> =
        sums.into_iter().map(|(remedy, (bytes, exact))| Bound { remedy: remedy.into(), bytes, exact }).collect();
    bounds.sort_by_key(|bound| std::cmp::Reverse(bound.bytes));
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::{HeapState, ProcessIdentity};
    use crate::stat::MemoryStatus;
    use allocanary_rows::fleet::{Part, Parts};

    fn known(allocator: &str, anonymous: u64, live: u64) -> ProcessRecord {
        let mut parts = Parts::default();
        parts.add(Part::Live, live);
        parts.add(Part::Files, 50);
        let identity = ProcessIdentity { allocator: allocator.into(), ..ProcessIdentity::default() };
        ProcessRecord {
            status: MemoryStatus { resident: anonymous + 50, anonymous, swapped: 0 },
            identity: Some(identity),
            heap: Some((7, HeapState { parts, ..HeapState::default() })),
            ..ProcessRecord::default()
        }
    }

    #[test]
    fn no_two_rows_have_the_same_labels() {
        let uid = "0123456789abcdef0123456789abcdef";
        let ids = ["ab".repeat(32), "cd".repeat(32)];
        let container = |id: &String| format!(r#"{{"name":"web","containerID":"containerd://{id}"}}"#);
        let names = format!(
            r#"{{"items":[{{"metadata":{{"name":"web-1","namespace":"shop","uid":"{uid}"}},
            "status":{{"containerStatuses":[{}]}}}}]}}"#,
            ids.iter().map(container).collect::<Vec<_>>().join(",")
        );
        let names = PodNames::parse(names.as_bytes()).unwrap();
        let own = ids.iter().flat_map(|id| {
            ["", "/init", "/system.slice/x.service"].map(|below| format!("/kubepods/pod{uid}/{id}{below}"))
        });
        let units = ["/", "/a/user@0.service/dbus.service", "/a/user@1.service/dbus.service", "/x/y", "/z/y"];
        let paths: Vec<String> = own.chain(units.map(String::from)).collect();
        let place = |path: &String| Membership::parse(&format!("0::{path}\n"));
        let all: BTreeMap<ProcessKey, ProcessRecord> = paths
            .iter()
            .zip(1..)
            .map(|(path, pid)| {
                (
                    ProcessKey { pid, start: 1, program: (0, 0) },
                    ProcessRecord { place: place(path), ..known("glibc", 1 << 20, 0) },
                )
            })
            .collect();
        let rows = rows(&all, &names, &BTreeMap::new());
        let labels: BTreeSet<_> = rows.iter().map(labels_of).collect();
        assert_eq!((rows.len(), labels.len()), (7, 7), "{labels:?}");
        assert_eq!(rows.iter().map(|row| row.processes).sum::<u64>(), paths.len() as u64);
    }

    #[test]
    fn no_two_rows_have_the_same_labels_where_names_are_cut_or_made_harmless() {
        let long = "x".repeat(240);
        let paths = [
            format!("/a/{long}1.service"),
            format!("/a/{long}2.service"),
            format!("/{long}/{long}2.service"),
            // As if it had the name that one of two would get.
            "/a/w.service".into(),
            "/b/w.service".into(),
            "/c/w.service (/b/w.service)".into(),
            "/c/\u{1}.service".into(),
            "/c/\u{2}.service".into(),
        ];
        let record = |path: &String, name: &str| {
            let place = Membership { group: name.into(), path: path.clone(), ..Membership::default() };
            ProcessRecord { place, ..known("glibc", 1 << 20, 0) }
        };
        let all = |paths: &[String]| -> BTreeMap<ProcessKey, ProcessRecord> {
            let one = |(path, pid): (&String, u32)| {
                let name = path.rsplit_once("/c/").map_or_else(|| path.rsplit('/').next().unwrap(), |(_, name)| name);
                (ProcessKey { pid, start: 1, program: (0, 0) }, record(path, name))
            };
            paths.iter().zip(1..).map(one).collect()
        };
        let shown = |paths: &[String]| -> BTreeSet<String> {
            let report = allocanary_rows::fleet::NodeReport {
                rows: rows(&all(paths), &PodNames::default(), &BTreeMap::new()),
                ..Default::default()
            };
            let page = crate::metrics::page(report.into()).unwrap();
            let unknown = |line: &&str| line.starts_with("allocanary_resident_bytes{") && line.contains("\"unknown\"");
            page.lines().filter(unknown).map(|line| line.rsplit_once(' ').unwrap().0.to_string()).collect()
        };
        assert_eq!(shown(&paths).len(), paths.len(), "{:#?}", shown(&paths));
        assert!(shown(&paths[..3]).is_subset(&shown(&paths)), "a name does not change with who else is there");
    }

    fn one(all: Vec<ProcessRecord>) -> ContainerState {
        let keys = (1..).map(|pid| ProcessKey { pid, start: 1, program: (0, 0) });
        let known: BTreeMap<ProcessKey, ProcessRecord> = keys.zip(all).collect();
        let mut rows = rows(&known, &PodNames::default(), &BTreeMap::new());
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }

    #[test]
    fn the_parts_add_up_to_what_is_resident_also_after_a_change() {
        let row = one(vec![known("glibc", 100 << 20, 80 << 20), known("glibc", 10 << 20, 20 << 20)]);
        assert_eq!(row.resident(), (110 << 20) + 100);
        assert_eq!(row.parts.of(Part::Unknown), 20 << 20, "it has grown since it was read");
        let fresh = ProcessRecord { heap: None, ..known("glibc", 5 << 20, 0) };
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
        let unread = || ProcessRecord { identity: None, heap: None, ..known("", 10 << 20, 0) };
        assert_eq!(one(vec![unread()]).allocator, "unknown");
        assert_eq!(one(vec![unread(), known("glibc", 10 << 20, 0)]).allocator, "glibc", "the label does not change");
    }

    #[test]
    fn the_age_is_that_of_the_processes_that_matter() {
        let at = |time, mib: u64| {
            let one = known("glibc", mib << 20, 0);
            ProcessRecord { heap: one.heap.map(|(_, heap)| (time, heap)), ..one }
        };
        let unread = |mib: u64| ProcessRecord { heap: None, ..known("glibc", mib << 20, 0) };
        assert_eq!(one(vec![at(50, 100), at(70, 100)]).read, Some(50));
        let small = one(vec![at(50, 100), at(2, 1), unread(2)]);
        assert_eq!((small.read, small.unread), (Some(50), 1), "a shell that has just started changes nothing");
        assert_eq!(one(vec![at(50, 100), unread(90)]).read, None);
    }

    #[test]
    fn counters_are_told_if_all_that_have_some_answer() {
        use allocanary_heap::counters::{AllocatorCounters, CounterPlace};
        let text = r#"{"glibc":{"main":1,"bins":96,"mapped":null}}"#;
        let place: CounterPlace = serde_json::from_str(text).unwrap();
        let with = |mapped: Option<u64>| {
            let mut one = known("glibc", 1 << 20, 0);
            one.identity.as_mut().unwrap().places = vec![place.clone()];
            one.counters = mapped.map(|bytes| {
                vec![AllocatorCounters { arenas: 1, mapped: Some(bytes), ..AllocatorCounters::default() }]
            });
            one
        };
        assert_eq!(one(vec![with(Some(5)), with(Some(7)), known("go", 1 << 20, 0)]).mapped, Some(12));
        assert_eq!(one(vec![with(Some(5)), with(None)]).mapped, None, "half of it is not the sum");
        let none = ProcessRecord { counters: Some(vec![AllocatorCounters::default()]), ..known("go", 1 << 20, 0) };
        assert_eq!(one(vec![none]).arenas, None, "an allocator without arenas has no count of them");
    }

    #[test]
    fn a_remedy_gives_no_more_than_is_there_now() {
        let mut shrunk = known("glibc", 100 << 20, 60 << 20);
        let heap = &mut shrunk.heap.as_mut().unwrap().1;
        heap.parts.add(Part::FreePages, 40 << 20);
        let bound = |remedy: &str, mib: u64| Bound { remedy: remedy.into(), bytes: mib << 20, exact: true };
        heap.bounds = vec![bound("give-back", 40), bound("arena_max", 90)];
        let given = |one_now: &ProcessRecord| {
            one(vec![one_now.clone()]).bounds.iter().map(|one| one.bytes >> 20).collect::<Vec<_>>()
        };
        assert_eq!(given(&shrunk), [90, 40]);
        shrunk.status = MemoryStatus { resident: (70 << 20) + 50, anonymous: 70 << 20, swapped: 0 };
        assert_eq!(given(&shrunk), [70, 10], "it has given 30 MiB back since it was read");
    }

    #[test]
    fn the_bounds_of_processes_add_up() {
        let with = |bounds: &[(&str, u64, bool)]| {
            let mut one = known("glibc", 1 << 20, 0);
            let bound = |(remedy, bytes, exact): &(&str, u64, bool)| Bound {
                remedy: (*remedy).into(),
                bytes: *bytes,
                exact: *exact,
            };
            let heap = &mut one.heap.as_mut().unwrap().1;
            heap.parts.add(Part::FreePages, 100);
            heap.bounds = bounds.iter().map(bound).collect();
            one
        };
        let row = one(vec![
            with(&[("give-back", 10, true), ("arena_max", 50, false)]),
            with(&[("give-back", 20, true), ("idle", 5, false)]),
            ProcessRecord { heap: None, ..known("glibc", 1 << 20, 0) },
        ]);
        let told: Vec<_> = row.bounds.iter().map(|one| (one.remedy.as_str(), one.bytes, one.exact)).collect();
        assert_eq!(told, [("arena_max", 50, false), ("give-back", 30, true), ("idle", 5, false)]);
    }

    #[test]
    fn a_container_has_its_name_where_the_kubelet_tells_it_and_its_number_where_not() {
        let (uid, id) = ("0123456789abcdef0123456789abcdef", "ab".repeat(32));
        let text = format!(
            r#"{{"items":[{{"metadata":{{"name":"web-1","namespace":"shop","uid":"{uid}"}},
            "status":{{"containerStatuses":[{{"name":"web","image":"i:1","containerID":"containerd://{id}"}}]}}}}]}}"#
        );
        let names = PodNames::parse(text.as_bytes()).unwrap();
        let place = Membership { pod: Some(uid.into()), container: Some(id), ..Membership::default() };
        let named = |names: &PodNames, place: &Membership| {
            let row = row(place, &[], names, Charged::default());
            (row.namespace, row.pod, row.container, row.image)
        };
        let told = |all: [&str; 4]| all.map(String::from).into();
        assert_eq!(named(&names, &place), told(["shop", "web-1", "web", "i:1"]));
        assert_eq!(named(&PodNames::default(), &place), told(["", uid, "abababababab", ""]));
        let pause = Membership { container: Some("cd".repeat(32)), ..place };
        assert_eq!(named(&names, &pause), told(["shop", "web-1", "cdcdcdcdcdcd", ""]));
        let unit = Membership { group: "nginx.service".into(), path: "/nginx.service".into(), ..Membership::default() };
        assert_eq!(named(&names, &unit), told(["", "", "nginx.service", ""]));
        assert_eq!(named(&names, &Membership::default()), told(["", "", ROOT, ""]));
    }
}
