//! A node in memory: processes that come, go and change between two counts.

use std::cell::RefCell;
use std::rc::Rc;

use allocanary_fleet::{Part, Parts};
use allocanary_heap::counters::{Counters, Place as CountersAt};

use super::*;
use crate::look::{Heap, Identity};

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// A process of the test: when it started, its program, anonymous MiB, its groups.
type Process = (u32, u64, u64, u64, String);

#[derive(Clone, Default)]
struct Fake(Rc<RefCell<Vec<Process>>>);

impl World for Fake {
    fn pids(&self) -> Vec<u32> {
        self.0.borrow().iter().map(|one| one.0).collect()
    }

    fn file(&self, pid: u32, file: File) -> Option<Vec<u8>> {
        let all = self.0.borrow();
        let (_, start, program, mib, groups) = all.iter().find(|one| one.0 == pid)?;
        let text = match file {
            File::Stat => format!(
                "{pid} (web) S 1 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 1 0 {start} 1000 200 9 {program} 12 {program} 14 15"
            ),
            File::Status => format!("VmRSS:\t{} kB\nRssAnon:\t{} kB\n", (mib + 1) * 1024, mib * 1024),
            File::Groups => groups.clone(),
        };
        Some(text.into_bytes())
    }

    fn may_read(&self, pid: u32) -> bool {
        pid != 13
    }

    fn counters(&self, _: u32, _: &[CountersAt]) -> Vec<Counters> {
        vec![Counters { arenas: 8, system: Some(MIB), mapped: Some(0), ..Counters::default() }]
    }

    fn group(&self, _: &str) -> Charged {
        Charged { anonymous: Some(5 * MIB), quota_milli: Some(500) }
    }

    fn time(&self) -> u64 {
        1_000
    }

    fn booted(&self) -> u64 {
        500
    }
}

fn agent(world: &Fake) -> Agent<Fake> {
    Agent::new(world.clone(), "n1".into(), Host::default(), SECOND * 60, 0.01)
}

fn process(pid: u32, start: u64, mib: u64) -> Process {
    (pid, start, 7, mib, format!("0::/kubepods/pod{0}/{1}\n", "0123456789abcdef0123456789abcdef", "ab".repeat(32)))
}

fn seen(live: u64, spent: u64) -> Result<Seen, String> {
    let mut parts = Parts::default();
    parts.add(Part::Live, live);
    let identity = Identity { allocator: "glibc".into(), ..Identity::default() };
    let heap = Some(Heap { parts, ..Heap::default() });
    Ok(Seen { identity, heap, spent, resident: 3 * MIB, ..Seen::default() })
}

/// Reads whoever waits most, and returns its number.
fn read(agent: &mut Agent<Fake>, now: Duration, answer: Result<Seen, String>) -> Option<u32> {
    let (key, wanted) = agent.wanted(agent.next(now)?)?;
    agent.saw(key, now, SECOND, answer);
    Some(wanted.pid)
}

#[test]
fn a_node_is_counted_and_read_and_its_rows_add_up() {
    let world = Fake::default();
    *world.0.borrow_mut() = vec![process(5, 100, 40), process(6, 101, 60)];
    let mut agent = agent(&world);
    assert_eq!(agent.step(Duration::ZERO, Duration::ZERO), Step::Count);
    agent.count(Duration::ZERO);
    let before = agent.report(MIB);
    assert_eq!((before.rows.len(), before.rows[0].processes, before.rows[0].unread), (1, 2, 2));
    assert_eq!((before.rows[0].resident(), before.rows[0].read), (102 * MIB, None));
    assert_eq!(agent.step(SECOND, Duration::ZERO), Step::Read(1), "the larger one");
    assert_eq!(read(&mut agent, SECOND, seen(50 * MIB, 2_000)), Some(6));
    assert_eq!(read(&mut agent, SECOND, seen(41 * MIB, 5_000)), Some(5));
    assert_eq!(read(&mut agent, SECOND, seen(41 * MIB, 5_000)), None, "both were just read");
    let after = agent.report(MIB);
    let row = &after.rows[0];
    assert_eq!(
        (row.resident(), row.parts.of(Part::Live), row.parts.of(Part::Unknown)),
        (102 * MIB, 91 * MIB, 11 * MIB)
    );
    assert_eq!((row.read, row.unread, row.arenas, row.quota_milli), (Some(1_000), 0, Some(8), Some(500)));
    assert_eq!(
        (row.started, row.cpu, row.pid),
        (Some(500 + 100 * 10), Some(2 * 26 * 10), Some(6)),
        "of the first, of both, of the larger"
    );
    assert_eq!((after.own.walks, after.own.resident, after.own.nameless), (2, 4 * MIB, 1));
    assert_eq!(after.own.cpu_walks, 0.005, "the child tells the sum of what it has spent");
}

#[test]
fn a_number_that_is_used_again_and_a_new_program_are_other_processes() {
    let world = Fake::default();
    *world.0.borrow_mut() = vec![process(5, 100, 40)];
    let mut agent = agent(&world);
    agent.count(Duration::ZERO);
    read(&mut agent, SECOND, seen(40 * MIB, 1));
    world.0.borrow_mut()[0].1 = 200;
    agent.count(SECOND * 60);
    assert_eq!((agent.report(0).rows[0].unread, agent.report(0).rows[0].allocator.as_str()), (1, "unknown"));
    read(&mut agent, SECOND * 61, seen(40 * MIB, 2));
    assert_eq!(agent.report(0).rows[0].unread, 0);
    world.0.borrow_mut()[0].2 = 8;
    agent.count(SECOND * 120);
    assert_eq!(agent.report(0).rows[0].unread, 1, "it has started another program");
}

#[test]
fn what_was_read_of_a_process_that_has_ended_is_not_taken_for_its_follower() {
    let world = Fake::default();
    *world.0.borrow_mut() = vec![process(5, 100, 40)];
    let mut agent = agent(&world);
    agent.count(Duration::ZERO);
    let (key, _) = agent.wanted(0).unwrap();
    world.0.borrow_mut()[0].1 = 200;
    agent.saw(key, SECOND, SECOND, seen(40 * MIB, 1));
    assert_eq!(agent.report(0).rows[0].unread, 1);
    world.0.borrow_mut().clear();
    agent.count(SECOND * 60);
    assert_eq!(agent.report(0).rows.len(), 0);
    agent.saw(key, SECOND * 61, SECOND, seen(40 * MIB, 2));
}

#[test]
fn a_reading_that_fails_costs_its_time_and_is_told_once_for_all_processes() {
    let world = Fake::default();
    *world.0.borrow_mut() = vec![process(5, 100, 40), process(6, 100, 40)];
    let mut agent = agent(&world);
    agent.count(Duration::ZERO);
    for pid in [6, 5] {
        let failed = Err(format!("process {pid}: reading it took more than 10 s"));
        assert_eq!(read(&mut agent, SECOND, failed), Some(pid));
    }
    let report = agent.report(0);
    assert_eq!(report.problems, ["web: reading it took more than 10 s (2 times)"]);
    assert_eq!((report.own.failed, report.own.cpu_walks), (2, 2.0));
    assert!(matches!(agent.step(SECOND * 3, Duration::ZERO), Step::Wait(_)), "it has spent more than it had");
}

#[test]
fn who_may_not_be_read_is_counted_and_told_and_never_tried() {
    let world = Fake::default();
    *world.0.borrow_mut() = vec![process(13, 100, 40)];
    let mut agent = agent(&world);
    agent.count(Duration::ZERO);
    assert_eq!(agent.next(SECOND), None);
    let report = agent.report(0);
    assert_eq!((report.own.denied, report.rows[0].parts.of(Part::Unknown)), (1, 40 * MIB));
    assert!(report.problems[0].contains("CAP_SYS_PTRACE"));
}

#[test]
fn ten_thousand_processes_of_which_half_end_are_rows_that_add_up() {
    let world = Fake::default();
    *world.0.borrow_mut() = (1..10_001).map(|pid| process(pid + 100, pid.into(), 2)).collect();
    let mut agent = agent(&world);
    agent.count(Duration::ZERO);
    world.0.borrow_mut().retain(|one| one.0 % 2 == 0);
    // One that ends between the list and its files is left out.
    agent.count(SECOND * 60);
    let report = agent.report(0);
    assert_eq!((report.rows[0].processes, report.rows[0].resident()), (5_000, 5_000 * 3 * MIB));
}
