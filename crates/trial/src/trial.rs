//! The verdict about a change. In: replicas. Out: the effect with its interval, a word, and what speaks against it.
//!
//! Replicas of a Deployment are drawn from one lot: what each has now is compared, and what they had before shows how far apart they are.
//! A replica of a StatefulSet has data of its own, and one of a DaemonSet has its node's: of these the differences between now and before
//! are compared.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::estimate::{Effect, Word, effect, mean};
use crate::replicas::{Level, Replica};
use crate::target::{Target, Variable};

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The word, after all doubts.
    pub word: Word,
    /// The effect, if there is an interval.
    pub effect: Option<Effect>,
    /// The share that makes no difference.
    pub margin: f64,
    /// What was compared.
    pub compared: Compared,
    /// The geometric mean of the other replicas' resident bytes.
    pub others: f64,
    /// The replicas and their part in it.
    pub replicas: Vec<Member>,
    /// Seconds from the change to the last reading. The later half counts.
    pub seconds: u64,
    /// Why there is no word although there may be an interval: a sentence each.
    pub doubts: Vec<String>,
    /// What a reader must know: a sentence each.
    pub notes: Vec<String>,
}

/// What is compared between changed and other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    /// What they have after the change.
    Levels,
    /// What they have after the change as a share of what they had before.
    Differences,
}

/// A replica in a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    /// Its pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Its part.
    pub part: Part,
    /// Seconds from its start to the last reading; `None` if no agent told its start.
    pub age: Option<u64>,
    /// What it had before the change.
    pub before: Option<Level>,
    /// What it has after it.
    pub after: Option<Level>,
    /// Its settings.
    pub settings: Vec<String>,
}

/// The part of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// It has the lines.
    Changed,
    /// The changed ones are compared with it.
    Other,
    /// It runs now, and is far older or younger than the changed ones: memory grows with age.
    OtherAge,
    /// It runs now, on a node of another kind.
    OtherNode,
    /// It ran before the change, and shows how far apart replicas are.
    Before,
}

/// Others are of the same age if none is this many times as old as the other.
const AGES: f64 = 2.0;
/// Fewer readings of the changed replica say nothing.
const LEAST_READINGS: usize = 5;
/// Fewer others show no spread that is worth a word.
const LEAST_OTHERS: usize = 2;
/// Processors used are the same within this factor of what the others use.
const TRAFFIC: f64 = 1.25;
/// So few processors are none: nobody asks it for anything.
const IDLE: f64 = 0.005;

/// The verdict. The error says what is missing.
pub fn judge(replicas: Vec<Replica>, target: &Target, lines: &[Variable], margin: f64) -> Result<Trial, String> {
    let changed = || replicas.iter().filter(|one| one.changed);
    let ends = |one: &Replica| Some((one.begun()?, one.readings.last()?.taken));
    let (Some(since), Some(until)) = (
        changed().filter_map(ends).map(|(begun, _)| begun).max(),
        changed().filter_map(ends).map(|(_, end)| end).max(),
    ) else {
        return Err(format!(
            "no replica of {} has the lines in force: wanted --changed POD, or a canary as the steps make it",
            target.workload()
        ));
    };
    let host = changed().next().map(|one| one.host.clone()).unwrap_or_default();
    let after = (since + until.saturating_sub(since) / 2, until);
    let first_change = changed().filter_map(Replica::begun).min().unwrap_or(since);
    let earlier =
        || replicas.iter().flat_map(|one| &one.readings).map(|one| one.taken).filter(|taken| *taken < first_change);
    let before = earlier().min().zip(earlier().max()).map(|(first, last)| (first + (last - first) / 2, last));
    let mut members: Vec<Member> = replicas
        .iter()
        .filter_map(|one| {
            let level = one.level(after);
            let age = (one.started > 0).then(|| until.saturating_sub(one.started) / 1000);
            let of_changed = (until.saturating_sub(since) / 1000) as f64;
            let is_alike = |age: u64| (age as f64) <= of_changed * AGES && age as f64 * AGES >= of_changed;
            let is_host = one.host == host;
            let part = match level {
                _ if one.changed => Part::Changed,
                Some(_) if !is_host => Part::OtherNode,
                Some(_) if age.is_some_and(is_alike) => Part::Other,
                Some(_) => Part::OtherAge,
                None if !is_host => return None,
                None => Part::Before,
            };
            let (pod, node, settings) = (one.pod.clone(), one.node.clone(), one.settings.clone());
            let before = before.and_then(|span| one.level(span)).filter(|_| is_host);
            let member = Member { pod, node, part, age, before, after: level, settings };
            (member.before.is_some() || member.after.is_some()).then_some(member)
        })
        .collect();
    members.sort_by(|one, other| (one.part, &one.pod).cmp(&(other.part, &other.pod)));
    let mut doubts = Vec::new();
    let mut notes = Vec::new();
    let (compared, effect) = compare(&members, target, &mut notes);
    let of = |part: Part| members.iter().filter(move |one| one.part == part);
    let others: Vec<f64> = of(Part::Other).filter_map(|one| one.after).map(|level| level.log).collect();
    settings(&replicas, lines, after, &mut doubts, &mut notes);
    enough(&members, &mut doubts);
    let found = effect.map_or(Word::Undecided, |effect| effect.word(margin));
    traffic(&members, found, &mut doubts, &mut notes);
    growth(&members, margin, &mut notes);
    let word = if doubts.is_empty() { found } else { Word::Undecided };
    Ok(Trial {
        word,
        effect,
        margin,
        compared,
        others: mean(&others).map_or(0.0, f64::exp),
        replicas: members,
        seconds: until.saturating_sub(since) / 1000,
        doubts,
        notes,
    })
}

/// The effect, by levels or by differences.
fn compare(members: &[Member], target: &Target, notes: &mut Vec<String>) -> (Compared, Option<Effect>) {
    let after =
        |part: Part| members.iter().filter(move |one| one.part == part).filter_map(|one| Some((one, one.after?.log)));
    if target.kind != "deployment" {
        let place = |one: &Member| if target.kind == "statefulset" { one.pod.clone() } else { one.node.clone() };
        let mut earlier: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for one in members {
            if let Some(level) = one.before {
                earlier.entry(place(one)).or_default().push(level.log);
            }
        }
        let differences = |part: Part| -> Vec<f64> {
            after(part).filter_map(|(one, log)| Some(log - mean(earlier.get(&place(one))?)?)).collect()
        };
        let (changed, others) = (differences(Part::Changed), differences(Part::Other));
        if !changed.is_empty() && others.len() >= LEAST_OTHERS {
            return (Compared::Differences, effect(&changed, &others, &[]));
        }
        notes.push(format!(
            "Replicas of a {} differ by what they hold. Readings from before the change would take that out; there are too few.",
            target.kind
        ));
    }
    let levels = |part: Part| -> Vec<f64> { after(part).map(|(_, log)| log).collect() };
    let before: Vec<f64> = members.iter().filter_map(|one| one.before).map(|level| level.log).collect();
    (Compared::Levels, effect(&levels(Part::Changed), &levels(Part::Other), &[&before]))
}

/// Whether the lines are in force where they should be, and nowhere else.
fn settings(
    replicas: &[Replica],
    lines: &[Variable],
    span: (u64, u64),
    doubts: &mut Vec<String>,
    notes: &mut Vec<String>,
) {
    let now = |one: &&Replica| one.level(span).is_some();
    let (changed, others): (Vec<&Replica>, Vec<&Replica>) = replicas.iter().filter(now).partition(|one| one.changed);
    for one in &changed {
        match one.in_force(lines) {
            Some(true) => {}
            Some(false) => doubts.push(format!(
                "{} does not have the lines in force. In force: {}.",
                one.pod,
                if one.settings.is_empty() { "nothing".into() } else { one.settings.join(" ") }
            )),
            None => notes.push(format!("Whether {} has the lines in force cannot be seen from outside.", one.pod)),
        }
    }
    let too: Vec<&str> =
        others.iter().filter(|one| one.in_force(lines) == Some(true)).map(|one| one.pod.as_str()).collect();
    if !too.is_empty() {
        doubts.push(format!("The lines are in force in others, too: {}.", too.join(", ")));
    }
}

/// Whether there are enough others and readings.
fn enough(members: &[Member], doubts: &mut Vec<String>) {
    let of = |part: Part| members.iter().filter(|one| one.part == part).count();
    let others = of(Part::Other);
    if others < LEAST_OTHERS {
        let mut text = format!(
            "Wanted at least {LEAST_OTHERS} other replicas of about the same age on nodes of the same kind, found {others}."
        );
        if of(Part::OtherAge) > 0 {
            text.push_str(&format!(
                " {} of another age run: memory grows with age. Restart some (kubectl delete pod), and read on until they are at most \
                 {AGES} times as old.",
                of(Part::OtherAge)
            ));
        }
        if of(Part::OtherNode) > 0 {
            text.push_str(&format!(" {} run on other kinds of nodes.", of(Part::OtherNode)));
        }
        doubts.push(text);
    }
    for one in members.iter().filter(|one| one.part == Part::Changed) {
        let readings = one.after.map_or(0, |level| level.readings);
        if readings < LEAST_READINGS {
            doubts.push(format!(
                "Wanted {LEAST_READINGS} readings of {} in the later half of its time, found {readings}: read on.",
                one.pod
            ));
        }
    }
}

/// Whether the changed ones do as much as the others. A setting may itself cost or save CPU time: only what could explain the word, or
/// hide a difference, is a doubt.
fn traffic(members: &[Member], word: Word, doubts: &mut Vec<String>, notes: &mut Vec<String>) {
    let of = |part: Part| -> Vec<f64> {
        members.iter().filter(|one| one.part == part).filter_map(|one| one.after?.cores).collect()
    };
    let (changed, others) = (of(Part::Changed), of(Part::Other));
    let (Some(own), Some(usual)) = (mean(&changed), mean(&others)) else {
        notes.push("How much CPU time the replicas use is not known: their traffic may differ.".into());
        return;
    };
    let least = others.iter().copied().fold(f64::INFINITY, f64::min) / TRAFFIC;
    let most = others.iter().copied().fold(0.0, f64::max) * TRAFFIC;
    let text = format!(
        "The changed replica used {own:.3} processors, the others {usual:.3} ({:.3} to {:.3}).",
        least * TRAFFIC,
        most / TRAFFIC
    );
    if (own.max(usual) < IDLE) || (own >= least && own <= most) {
        notes.push(format!("{text} That is alike."));
        return;
    }
    match (own < least, word) {
        (true, Word::Better) | (false, Word::Worse) | (_, Word::Equal) => doubts.push(format!(
            "{text} Traffic that differs may be the reason: see that services send all replicas the same, and read on."
        )),
        _ => notes.push(format!("{text} They differ: by traffic, or by what the change costs.")),
    }
}

/// Whether memory still moves.
fn growth(members: &[Member], margin: f64, notes: &mut Vec<String>) {
    let of = |part: Part| {
        mean(
            &members
                .iter()
                .filter(|one| one.part == part)
                .filter_map(|one| Some(one.after?.growth))
                .collect::<Vec<_>>(),
        )
    };
    if let (Some(changed), Some(others)) = (of(Part::Changed), of(Part::Other))
        && changed.abs().max(others.abs()) > margin
    {
        notes.push(format!(
            "Memory still moves: in this time by {:+.0} % in the changed replica and by {:+.0} % in the others. A longer time may say \
             something else.",
            changed * 100.0,
            others * 100.0
        ));
    }
}

impl Replica {
    /// When it began: its start, or its first reading.
    fn begun(&self) -> Option<u64> {
        let first = self.readings.first()?.taken;
        Some(if self.started > 0 { self.started.min(first) } else { first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::Reading;
    use allocanary_fleet::Host;

    const MINUTE: u64 = 60_000;
    const CHANGE: u64 = 1_000 * MINUTE;

    /// A replica that has so many MiB in each of the minutes, and uses so many processors.
    fn replica(
        pod: &str,
        started: u64,
        minutes: std::ops::Range<u64>,
        mib: f64,
        cores: f64,
        settings: &[&str],
    ) -> Replica {
        let reading = |minute: u64| Reading {
            taken: minute * MINUTE,
            // A little noise.
            resident: (mib * (1.0 + (minute * 7 % 5) as f64 / 1e4) * f64::from(1 << 20)) as u64,
            cpu: Some(((minute * MINUTE) as f64 * cores) as u64),
        };
        Replica {
            pod: pod.into(),
            node: format!("node-of-{pod}"),
            workload: "deployment/web".into(),
            host: Host::default(),
            started,
            settings: settings.iter().map(|one| (*one).to_string()).collect(),
            changed: settings.contains(&"X=1"),
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
            replica("f", CHANGE, 1001..1060, after, cores, &["X=1"]),
        ]
    }

    fn told(replicas: Vec<Replica>, target: &str) -> Trial {
        judge(replicas, &Target::parse(target).unwrap(), &Variable::parse_all("X=1").unwrap(), 0.05).unwrap()
    }

    #[test]
    fn what_is_less_is_better_and_what_is_the_same_is_equal() {
        let better = told(usual(60.0, 0.5), "deploy/web");
        assert_eq!((better.word, better.compared), (Word::Better, Compared::Levels), "{better:?}");
        let effect = better.effect.unwrap();
        assert!(
            (effect.ratio - 0.5956).abs() < 0.001 && effect.freedom == 3 && effect.low < 0.5956 && effect.high < 0.65
        );
        assert_eq!(told(usual(100.7, 0.5), "deploy/web").word, Word::Equal);
        assert_eq!(told(usual(150.0, 0.5), "deploy/web").word, Word::Worse);
        assert_eq!(told(usual(96.0, 0.5), "deploy/web").word, Word::Undecided);
    }

    #[test]
    fn traffic_that_could_be_the_reason_takes_the_word() {
        let less = told(usual(60.0, 0.2), "deploy/web");
        assert_eq!(less.word, Word::Undecided);
        assert!(less.doubts[0].contains("used 0.200 processors, the others 0.500"), "{less:?}");
        assert!(less.effect.is_some(), "the interval is told");
        let price = told(usual(60.0, 0.9), "deploy/web");
        assert_eq!(price.word, Word::Better, "less memory with more work is no chance");
        assert!(price.notes.iter().any(|note| note.contains("They differ")), "{price:?}");
        assert_eq!(told(usual(100.0, 0.9), "deploy/web").word, Word::Undecided, "more work may hide a saving");
    }

    #[test]
    fn others_of_another_age_or_kind_of_node_are_not_compared() {
        let mut replicas = usual(60.0, 0.5);
        replicas[3].started = 1;
        let old = told(replicas, "deploy/web");
        assert_eq!(old.word, Word::Undecided);
        assert!(old.doubts[0].contains("found 1. 1 of another age run"), "{old:?}");
        let mut replicas = usual(60.0, 0.5);
        replicas[4].host.cores = 64;
        let unlike = told(replicas, "deploy/web");
        assert!(unlike.doubts[0].contains("found 1. 1 run on other kinds of nodes"), "{unlike:?}");
    }

    #[test]
    fn lines_that_are_not_in_force_are_no_trial() {
        let mut replicas = usual(60.0, 0.5);
        replicas[5].settings = vec!["X=2".into()];
        let not = told(replicas, "deploy/web");
        assert!(
            not.word == Word::Undecided && not.doubts[0].contains("f does not have the lines in force. In force: X=2."),
            "{not:?}"
        );
        let mut replicas = usual(60.0, 0.5);
        replicas[3].settings = vec!["X=1".into()];
        assert!(told(replicas, "deploy/web").doubts[0].contains("in others, too: d"));
        let mut replicas = usual(60.0, 0.5);
        replicas[5].settings = vec!["unknown".into()];
        let unknown = told(replicas, "deploy/web");
        assert!(unknown.word == Word::Better && unknown.notes[0].contains("cannot be seen"), "{unknown:?}");
        let mut none = usual(60.0, 0.5);
        none.pop();
        let lines = Variable::parse_all("X=1").unwrap();
        assert!(
            judge(none, &Target::parse("deploy/web").unwrap(), &lines, 0.05).unwrap_err().contains("--changed POD")
        );
    }

    #[test]
    fn few_readings_say_nothing() {
        let mut replicas = usual(60.0, 0.5);
        replicas[5].readings.truncate(6);
        assert!(told(replicas, "deploy/web").doubts.iter().any(|one| one.contains("readings of f")));
    }

    #[test]
    fn of_replicas_with_data_of_their_own_the_differences_are_compared() {
        let pair = |pod: &str, before: f64, after: f64, settings: &[&str]| {
            [replica(pod, 1, 900..1000, before, 0.5, &[]), replica(pod, CHANGE, 1001..1060, after, 0.5, settings)]
        };
        let replicas: Vec<Replica> =
            [pair("db-0", 400.0, 402.0, &[]), pair("db-1", 100.0, 101.0, &[]), pair("db-2", 200.0, 100.0, &["X=1"])]
                .concat();
        let found = told(replicas, "sts/db");
        assert_eq!((found.compared, found.word), (Compared::Differences, Word::Better), "{found:?}");
        assert!((found.effect.unwrap().ratio - 0.4963).abs() < 0.001);
        // Without readings before it, the unlike others make it undecided.
        let after: Vec<Replica> =
            [pair("db-0", 400.0, 402.0, &[]), pair("db-1", 100.0, 101.0, &[]), pair("db-2", 200.0, 100.0, &["X=1"])]
                .map(|[_, after]| after)
                .to_vec();
        let found = told(after, "sts/db");
        assert_eq!((found.compared, found.word), (Compared::Levels, Word::Undecided));
        assert!(found.notes[0].contains("differ by what they hold"), "{found:?}");
    }
}
