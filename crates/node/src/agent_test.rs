//! The agent, with a clock, processes and readings of a test.

use allocanary_rows::fleet::{ContainerState, Part};

use super::*;
use crate::fake::{DENIED, FakeProcess, FakeWorld, MIB, Reads, STUCK, process, seen};
use crate::look::ProcessIdentity;

const SECOND: Duration = Duration::from_secs(1);

fn agent(world: &FakeWorld) -> Agent<FakeWorld> {
    Agent::new(world.clone(), "n1".into(), Machine::default(), SECOND * 60, 0.01)
}

/// An agent that has counted these once.
fn counted(all: Vec<FakeProcess>) -> (FakeWorld, Agent<FakeWorld>) {
    let world = FakeWorld::of(all);
    let mut agent = agent(&world);
    count(&mut agent, Duration::ZERO);
    (world, agent)
}

fn count(agent: &mut Agent<FakeWorld>, now: Duration) {
    agent.count(now, &mut Reads::default());
}

fn report(agent: &Agent<FakeWorld>) -> NodeReport {
    agent.report(Duration::ZERO, &Costs::default(), MIB)
}

/// The only row.
fn row(agent: &Agent<FakeWorld>) -> ContainerState {
    let mut rows = report(agent).rows;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn next(agent: &mut Agent<FakeWorld>, now: Duration) -> Option<usize> {
    match agent.step(now, Duration::ZERO) {
        AgentStep::Read(at) => Some(at),
        AgentStep::Wait(_) => None,
        AgentStep::Count => panic!("a count is due"),
    }
}

/// Reads whoever waits most, and returns its number.
fn read(agent: &mut Agent<FakeWorld>, now: Duration, answer: Result<LookReply, String>) -> Option<u32> {
    let at = next(agent, now)?;
    let (key, wanted) = agent.wanted(at)?;
    agent.saw(key, now, answer);
    Some(wanted.pid)
}

#[test]
fn profiles_have_a_purse_of_their_own() {
    let (_, mut agent) = counted(vec![process(5, 100, 40)]);
    let owes = |agent: &mut Agent<FakeWorld>, spent: f64| agent.owes(Duration::ZERO, Duration::from_secs_f64(spent));
    // Half of a share of 0.01, with a loan of two minutes.
    assert_eq!(owes(&mut agent, 0.5), None);
    let wait = owes(&mut agent, 1.1).expect("half a second is owed");
    assert!((wait.as_secs_f64() - 100.0).abs() < 1.0, "{wait:?}");
    assert!(matches!(agent.step(SECOND, Duration::ZERO), AgentStep::Read(_)), "heaps are read all the same");
    assert_eq!(agent.owes(SECOND * 101, Duration::from_secs_f64(1.1)), None, "it was earned back");
}

#[test]
fn a_number_that_another_process_has_since_is_not_the_same() {
    let (world, agent) = counted(vec![process(5, 100, 40)]);
    assert!(agent.is_same(5) && !agent.is_same(6));
    *world.all() = vec![process(5, 101, 40)];
    assert!(!agent.is_same(5));
}

#[test]
fn a_container_says_whether_a_process_of_it_has_a_profile() {
    let (_, mut agent) = counted(vec![process(5, 100, 40), process(6, 101, 60)]);
    assert_eq!((row(&agent).profile, row(&agent).profiled), (None, vec![]), "nobody has looked");
    let with = |profile| {
        let one = seen(MIB);
        Ok(LookReply { identity: ProcessIdentity { profile, ..one.identity }, ..one })
    };
    // Nothing is spent before it was earned.
    assert_eq!(read(&mut agent, Duration::ZERO, with(Some(false))), None);
    read(&mut agent, SECOND, with(Some(false)));
    assert_eq!(row(&agent).profile, Some(false));
    let pid = read(&mut agent, SECOND, with(Some(true))).unwrap();
    assert_eq!((row(&agent).profile, row(&agent).profiled), (Some(true), vec![pid]));
}

#[test]
fn a_node_is_counted_and_read_and_its_rows_add_up() {
    let world = FakeWorld::of(vec![process(5, 100, 40), process(6, 101, 60)]);
    let mut agent = agent(&world);
    assert_eq!(agent.step(Duration::ZERO, Duration::ZERO), AgentStep::Count);
    count(&mut agent, Duration::ZERO);
    let before = row(&agent);
    assert_eq!((before.processes, before.unread, before.resident(), before.read), (2, 2, 102 * MIB, None));
    assert_eq!(agent.step(SECOND, Duration::ZERO), AgentStep::Read(1), "the larger one");
    assert_eq!(read(&mut agent, SECOND, Ok(seen(50 * MIB))), Some(6));
    assert_eq!(read(&mut agent, SECOND, Ok(seen(41 * MIB))), Some(5));
    assert_eq!(read(&mut agent, SECOND, Ok(seen(41 * MIB))), None, "both were just read");
    let row = row(&agent);
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
    let own = report(&agent).own;
    assert_eq!((own.walks, own.resident, own.nameless), (2, MIB, 1));
}

#[test]
fn what_has_grown_between_the_count_and_the_reading_is_known() {
    let (world, mut agent) = counted(vec![process(5, 100, 40)]);
    world.all()[0].3 = 90;
    read(&mut agent, SECOND, Ok(seen(91 * MIB)));
    assert_eq!((row(&agent).parts.of(Part::Live), row(&agent).resident()), (91 * MIB, 91 * MIB));
}

#[test]
fn a_number_that_is_used_again_and_a_new_program_are_other_processes() {
    let (world, mut agent) = counted(vec![process(5, 100, 40)]);
    read(&mut agent, SECOND, Ok(seen(40 * MIB)));
    world.all()[0].1 = 200;
    count(&mut agent, SECOND * 60);
    assert_eq!((row(&agent).unread, row(&agent).allocator.as_str()), (1, "unknown"));
    count(&mut agent, SECOND * 120);
    read(&mut agent, SECOND * 121, Ok(seen(40 * MIB)));
    assert_eq!(row(&agent).unread, 0);
    world.all()[0].2 = 8;
    count(&mut agent, SECOND * 180);
    assert_eq!(row(&agent).unread, 1, "it has started another program");
}

#[test]
fn what_was_read_of_a_process_that_has_ended_is_not_taken_for_its_follower() {
    let (world, mut agent) = counted(vec![process(5, 100, 40)]);
    let (key, _) = agent.wanted(0).unwrap();
    world.all()[0].1 = 200;
    agent.saw(key, SECOND, Ok(seen(40 * MIB)));
    assert_eq!(row(&agent).unread, 1);
    world.all().clear();
    count(&mut agent, SECOND * 60);
    assert_eq!(report(&agent).rows.len(), 0);
    agent.saw(key, SECOND * 61, Ok(seen(40 * MIB)));
}

#[test]
fn what_ends_at_once_is_not_read_and_who_was_there_before_the_agent_is() {
    let (world, mut agent) = counted(vec![process(5, 100, 40)]);
    assert!(next(&mut agent, SECOND).is_some());
    read(&mut agent, SECOND, Ok(seen(40 * MIB)));
    world.all().push(process(6, 200, 90));
    count(&mut agent, SECOND * 60);
    assert_eq!(next(&mut agent, SECOND * 61), None);
    count(&mut agent, SECOND * 120);
    assert_eq!(read(&mut agent, SECOND * 121, Ok(seen(40 * MIB))), Some(6), "a second count has seen it");
}

#[test]
fn a_problem_is_told_once_for_all_processes_until_it_is_over() {
    let (world, mut agent) = counted(vec![process(5, 100, 40), process(6, 100, 40), process(7, 100, 30)]);
    for pid in [5, 6] {
        let failed = Err(format!("process {pid}: reading it took more than 10 s"));
        assert_eq!(read(&mut agent, SECOND, failed), Some(pid));
    }
    assert_eq!(report(&agent).problems, ["web: reading it took more than 10 s (2 processes)"]);
    assert_eq!(report(&agent).own.failed, 2);
    assert_eq!(read(&mut agent, SECOND, Ok(seen(31 * MIB))), Some(7));
    let later = SECOND * 1_000;
    count(&mut agent, later);
    assert_eq!(read(&mut agent, later, Ok(seen(MIB))), Some(5));
    assert_eq!(report(&agent).problems, ["web: reading it took more than 10 s"]);
    world.all().retain(|one| one.0 != 6);
    count(&mut agent, later * 2);
    assert!(report(&agent).problems.is_empty(), "it has ended");
}

#[test]
fn who_may_not_be_read_is_counted_and_told_and_never_tried() {
    let (_, mut agent) = counted(vec![process(DENIED, 100, 40)]);
    assert_eq!(next(&mut agent, SECOND), None);
    let report = report(&agent);
    assert_eq!((report.own.denied, report.rows[0].parts.of(Part::Unknown)), (1, 40 * MIB));
    let told =
        format!("processes that may not be read: 1 ({DENIED} web). Wanted: CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
    assert!(report.problems[0].starts_with(&told), "{:?}", report.problems);
}

#[test]
fn processes_that_the_kernel_hides_are_told_although_they_are_not_counted() {
    let mut world = FakeWorld::of(vec![process(5, 100, 40)]);
    world.hides_by = Some("hidepid=2".into());
    let mut agent = agent(&world);
    count(&mut agent, Duration::ZERO);
    let report = report(&agent);
    assert_eq!(report.own.hides_by.as_deref(), Some("hidepid=2"));
    assert!(report.problems[0].contains("how many there are is not known: /proc is mounted with hidepid=2"));
}

#[test]
fn one_that_keeps_the_child_waiting_is_found_and_not_asked_again_and_the_others_are_told() {
    let (_, mut agent) = counted((60..70).map(|pid| process(pid, 100, 40)).collect());
    while read(&mut agent, SECOND, Ok(seen(40 * MIB))).is_some() {}
    let mut reads = Reads::default();
    agent.count(SECOND * 60, &mut reads);
    assert_eq!(reads.asked.first(), Some(&10), "all at once");
    assert!(reads.asked.len() <= 9, "then halves: {:?}", reads.asked);
    assert_eq!(row(&agent).mapped, None, "the sum is not known without it");
    assert!(report(&agent).problems[0].contains("counters did not come"));
    let counters = agent.known.iter().filter(|(key, one)| key.pid != STUCK && one.counters.is_some());
    assert_eq!(counters.count(), 9);
    let mut reads = Reads::default();
    agent.count(SECOND * 120, &mut reads);
    assert_eq!(reads.asked, [9]);
}

#[test]
fn ten_thousand_processes_of_which_half_end_are_rows_that_add_up() {
    let (world, mut agent) = counted((1..10_001).map(|pid| process(pid + 100, pid.into(), 2)).collect());
    world.all().retain(|one| one.0 % 2 == 0);
    // One that ends between the list and its files is left out.
    count(&mut agent, SECOND * 60);
    assert_eq!((row(&agent).processes, row(&agent).resident()), (5_000, 5_000 * 3 * MIB));
}

#[test]
fn pods_and_containers_without_a_name_are_known() {
    let uid = "0123456789abcdef".repeat(2);
    let id = "ab".repeat(32);
    let (_, mut agent) = counted(vec![process(5, 100, 40)]);
    assert_eq!(agent.nameless(), BTreeSet::from([uid.clone()]));
    let pods = |id: &str| {
        let text = format!(
            r#"{{"items":[{{"metadata":{{"name":"web-1","namespace":"shop","uid":"{uid}"}},
            "status":{{"containerStatuses":[{{"name":"web","containerID":"containerd://{id}"}}]}}}}]}}"#
        );
        PodNames::parse(text.as_bytes()).unwrap()
    };
    agent.named(pods("another"));
    assert_eq!(agent.nameless(), BTreeSet::from([id.clone()]), "the container was restarted");
    agent.named(pods(&id));
    assert!(agent.nameless().is_empty());
}
