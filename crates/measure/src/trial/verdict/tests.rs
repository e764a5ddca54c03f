use super::*;
use crate::trial::replicas::ReplicaSample;
use allocanary_rows::fleet::Machine;

const MINUTE: u64 = 60_000;
const CHANGE: u64 = 1_000 * MINUTE;

/// A replica that has `mib` MiB in each of the minutes, and uses `cores` processors.
fn replica(pod: &str, started: u64, minutes: std::ops::Range<u64>, mib: f64, cores: f64, settings: &[&str]) -> Replica {
    let reading = |minute: u64| ReplicaSample {
        taken: minute * MINUTE,
        // A little noise.
        resident: (mib * (1.0 + (minute * 7 % 5) as f64 / 1e4) * f64::from(1 << 20)) as u64,
        cpu: Some(((minute * MINUTE) as f64 * cores) as u64),
    };
    Replica {
        pod: pod.into(),
        node: format!("node-of-{pod}"),
        workload: "deployment/web".into(),
        host: Machine::default(),
        image: "web:1".into(),
        quota_milli: None,
        started,
        settings: settings.iter().map(|one| (*one).to_string()).collect(),
        changed: settings.contains(&"MALLOC_X=1"),
        readings: minutes.map(reading).collect(),
    }
}

/// Three before, two others after.
fn usual(after: f64, cores: f64) -> Vec<Replica> {
    let old = |pod: &str, mib: f64| replica(pod, 1, 900..1000, mib, 0.5, &[]);
    let new = |pod: &str, mib: f64| replica(pod, CHANGE, 1001..1060, mib, 0.5, &[]);
    vec![
        old("a", 100.0),
        old("b", 101.0),
        old("c", 99.0),
        new("d", 100.0),
        new("e", 101.5),
        replica("f", CHANGE, 1001..1060, after, cores, &["MALLOC_X=1"]),
    ]
}

fn told(replicas: Vec<Replica>, target: &str) -> Trial {
    judge(replicas, &TrialTarget::parse(target).unwrap(), &TrialVariable::parse_all("MALLOC_X=1").unwrap(), 0.05)
        .unwrap()
}

#[test]
fn what_is_less_is_better_and_what_is_the_same_is_equal() {
    let better = told(usual(60.0, 0.5), "deploy/web");
    assert_eq!((better.word, better.compared), (TrialWord::Better, TrialMeasure::Levels), "{better:?}");
    let effect = better.effect.unwrap();
    assert!((effect.ratio - 0.5956).abs() < 0.001 && effect.freedom == 3 && effect.low < 0.5956 && effect.high < 0.65);
    assert_eq!(told(usual(100.7, 0.5), "deploy/web").word, TrialWord::Equal);
    assert_eq!(told(usual(150.0, 0.5), "deploy/web").word, TrialWord::Worse);
    assert_eq!(told(usual(96.0, 0.5), "deploy/web").word, TrialWord::Undecided);
}

#[test]
fn traffic_that_could_be_the_reason_takes_the_word() {
    let less = told(usual(60.0, 0.2), "deploy/web");
    assert_eq!(less.word, TrialWord::Undecided);
    assert!(less.doubts[0].contains("used 0.200 processors, the others 0.500"), "{less:?}");
    assert!(less.effect.is_some(), "the interval is told");
    let cost = told(usual(60.0, 0.9), "deploy/web");
    assert_eq!(cost.word, TrialWord::Better, "less memory with more work is no chance");
    assert!(cost.notes.iter().any(|note| note.contains("They differ")), "{cost:?}");
    assert_eq!(told(usual(100.0, 0.9), "deploy/web").word, TrialWord::Undecided, "more work may hide a saving");
}

#[test]
fn others_of_another_age_or_kind_of_node_are_not_compared() {
    let mut replicas = usual(60.0, 0.5);
    replicas[3].started = 1;
    let old = told(replicas, "deploy/web");
    assert_eq!(old.word, TrialWord::Undecided);
    assert!(old.doubts[0].contains("found 1. 1 of another age run"), "{old:?}");
    let mut replicas = usual(60.0, 0.5);
    replicas[4].host.cores = 64;
    let unlike = told(replicas, "deploy/web");
    assert!(unlike.doubts[0].contains("found 1. 1 run on other kinds of nodes"), "{unlike:?}");
    let alter: [fn(&mut Replica); 2] = [|one| one.image = "web:2".into(), |one| one.quota_milli = Some(500)];
    for alter in alter {
        let mut replicas = usual(60.0, 0.5);
        alter(&mut replicas[4]);
        // This replica does not count before the change either.
        alter(&mut replicas[0]);
        let unlike = told(replicas, "deploy/web");
        assert!(unlike.doubts[0].contains("another image or quota"), "{unlike:?}");
        assert_eq!(unlike.effect.unwrap().freedom, 1, "{unlike:?}");
    }
}

#[test]
fn lines_that_are_not_in_force_are_no_trial() {
    let mut replicas = usual(60.0, 0.5);
    replicas[5].settings = vec!["MALLOC_X=2".into()];
    let not = told(replicas, "deploy/web");
    assert!(
        not.word == TrialWord::Undecided
            && not.doubts[0].contains("f does not have the lines in force. In force: MALLOC_X=2."),
        "{not:?}"
    );
    let mut replicas = usual(60.0, 0.5);
    replicas[3].settings = vec!["MALLOC_X=1".into()];
    assert!(told(replicas, "deploy/web").doubts[0].contains("in others, too: d"));
    let mut replicas = usual(60.0, 0.5);
    replicas[5].settings = vec!["unknown".into()];
    let doubted = told(replicas.clone(), "deploy/web");
    assert!(doubted.doubts[0].contains("nothing says that it was changed"), "{doubted:?}");
    replicas[5].workload = "deployment/web-allocanary".into();
    let unknown = told(replicas, "deploy/web");
    assert!(unknown.word == TrialWord::Better && unknown.notes[0].contains("cannot be seen"), "{unknown:?}");
    let mut none = usual(60.0, 0.5);
    none.pop();
    let lines = TrialVariable::parse_all("MALLOC_X=1").unwrap();
    assert!(
        judge(none, &TrialTarget::parse("deploy/web").unwrap(), &lines, 0.05).unwrap_err().contains("--changed POD")
    );
}

#[test]
fn the_shortest_times_have_just_enough_readings() {
    // Read from this minute after the start of the replicas, in each minute of the time.
    let read_for = |from: u64, time: Duration| {
        let minutes = from..from + 1 + time.as_secs() / 60;
        let mut replicas = usual(60.0, 0.5);
        replicas[3..]
            .iter_mut()
            .for_each(|one| one.readings.retain(|reading| minutes.contains(&(reading.taken / MINUTE - 1000))));
        told(replicas, "deploy/web").word
    };
    let minute = Duration::from_millis(MINUTE);
    let [old, new] = shortest(minute);
    assert_eq!((read_for(40, old), read_for(40, old - minute)), (TrialWord::Better, TrialWord::Undecided));
    // Their first minute is not read, so one reading less is enough.
    assert_eq!((read_for(1, new - minute), read_for(1, new - minute * 2)), (TrialWord::Better, TrialWord::Undecided));
}

#[test]
fn few_readings_say_nothing() {
    let mut replicas = usual(60.0, 0.5);
    replicas[5].readings.truncate(6);
    assert!(told(replicas, "deploy/web").doubts.iter().any(|one| one.contains("readings of f")));
}

#[test]
fn of_replicas_with_data_of_their_own_the_differences_are_compared() {
    let pair = |pod: &str, start: u64, before: f64, after: f64, settings: &[&str]| {
        [replica(pod, start, 900..1000, before, 0.5, &[]), replica(pod, CHANGE, 1001..1060, after, 0.5, settings)]
    };
    let set = |start: u64| -> Vec<Replica> {
        let others = [pair("db-0", start, 400.0, 402.0, &[]), pair("db-1", start, 100.0, 101.0, &[])];
        [others.concat(), pair("db-2", start, 200.0, 100.0, &["MALLOC_X=1"]).to_vec()].concat()
    };
    let found = told(set(1), "sts/db");
    assert_eq!((found.compared, found.word), (TrialMeasure::Differences, TrialWord::Better), "{found:?}");
    assert!((found.effect.unwrap().ratio - 0.4963).abs() < 0.001);
    // Without readings from before the change, the verdict is undecided.
    let after: Vec<Replica> = set(1).into_iter().filter(|one| one.started == CHANGE).collect();
    let found = told(after, "sts/db");
    assert_eq!((found.compared, found.word), (TrialMeasure::Levels, TrialWord::Undecided));
    assert!(found.doubts[0].contains("differ by what they hold"), "{found:?}");
    // A replica of another age before the change, and one that was not restarted, are not compared.
    let mut replicas = set(1);
    replicas[2].started = 890 * MINUTE;
    let found = told(replicas, "sts/db");
    assert!(found.word == TrialWord::Undecided && found.doubts[0].contains("found 1 and 1"), "{found:?}");
}

#[test]
fn a_start_counts_once() {
    let mut replicas = usual(60.0, 0.5);
    // This replica has run since before the change, and is nearly as old as the changed one.
    replicas[3] = replica("d", 960 * MINUTE, 990..1060, 100.0, 0.5, &[]);
    let found = told(replicas, "deploy/web");
    assert_eq!((found.word, found.effect.unwrap().freedom), (TrialWord::Better, 3), "{found:?}");
}

#[test]
fn a_changed_one_that_was_started_again_is_a_doubt_and_others_that_ended_do_not_count() {
    let mut replicas = usual(60.0, 0.5);
    replicas.push(replica("f", 980 * MINUTE, 981..999, 60.0, 0.5, &["MALLOC_X=1"]));
    let again = told(replicas, "deploy/web");
    assert!(again.doubts.iter().any(|one| one.contains("started again: f.")), "{again:?}");
    let mut replicas = usual(60.0, 0.5);
    replicas[4].readings.truncate(45);
    let ended = told(replicas, "deploy/web");
    assert!(ended.doubts[0].contains("found 1. 1 ended"), "{ended:?}");
    let mut replicas = usual(60.0, 0.5);
    replicas.push(replica("d", CHANGE + MINUTE, 1010..1011, 60.0, 0.5, &[]));
    assert!(told(replicas, "deploy/web").notes.iter().any(|one| one.contains("more than once since the change: d")));
}

#[test]
fn what_may_hide_a_difference_is_not_equal() {
    let mut replicas = usual(100.7, 0.5);
    replicas[5].readings.iter_mut().for_each(|one| one.cpu = None);
    let unknown = told(replicas, "deploy/web");
    assert!(unknown.word == TrialWord::Undecided && unknown.doubts[0].contains("CPU time"), "{unknown:?}");
    let mut replicas = usual(100.7, 0.5);
    if let Some(last) = replicas[5].readings.last_mut() {
        last.resident = last.resident * 11 / 10;
    }
    let moves = told(replicas, "deploy/web");
    assert!(moves.word == TrialWord::Undecided && moves.doubts[0].contains("still moves"), "{moves:?}");
}
