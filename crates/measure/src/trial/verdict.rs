//! The verdict about a change. In: replicas. Out: the effect with its interval, a word, and the doubts about it.
//!
//! Replicas of a Deployment are interchangeable: their memory after the change is compared, and their memory before it shows the
//! spread. A replica of a StatefulSet has its own data, and a replica of a DaemonSet has its node's data. So for these two, each
//! replica's difference between now and before is compared.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::trial::estimate::{MemoryShare, TrialWord, effect, mean};
use crate::trial::replicas::{Replica, ReplicaMemory};
use crate::trial::target::{TrialTarget, TrialVariable};

/// The result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The word. It is `Undecided` if there is a doubt.
    pub word: TrialWord,
    /// The effect, if there is an interval.
    pub effect: Option<MemoryShare>,
    /// Differences below this share count as equal.
    #[serde(rename = "tolerance_ratio")]
    pub tolerance: f64,
    /// What was compared.
    pub compared: TrialMeasure,
    /// The geometric mean of the other replicas' resident bytes.
    #[serde(rename = "others_bytes")]
    pub others: f64,
    /// The replicas and their part in the comparison.
    pub replicas: Vec<Member>,
    /// Seconds from the change to the last reading. Only the later half is compared.
    #[serde(rename = "compared_seconds")]
    pub seconds: u64,
    /// Reasons why the word is `Undecided` although there may be an interval: a sentence each.
    pub doubts: Vec<String>,
    /// What a reader must know: a sentence each.
    pub notes: Vec<String>,
}

/// What is compared between the changed replicas and the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialMeasure {
    /// Their memory after the change.
    Levels,
    /// Their memory after the change, as a share of their memory before.
    Differences,
}

/// A replica in a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    /// Its pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Its part in the comparison.
    pub part: ReplicaRole,
    /// Seconds from its start to the last reading; `None` if no agent reported its start.
    #[serde(rename = "age_seconds")]
    pub age: Option<u64>,
    /// Seconds from its start to the last reading before the change.
    #[serde(skip)]
    pub age_before: Option<u64>,
    /// Its memory before the change.
    pub before: Option<ReplicaMemory>,
    /// Its memory after the change.
    pub after: Option<ReplicaMemory>,
    /// Its settings.
    pub settings: Vec<String>,
}

/// The part of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaRole {
    /// The variables are in force in it.
    Changed,
    /// The changed replicas are compared with it.
    Other,
    /// It runs now, but it is far older or younger than the changed replicas. Memory grows with age, so it is not compared.
    OtherAge,
    /// It runs now, but on a node of another kind, or with another image or quota.
    OtherKind,
    /// It ended before the last reading, or has too few readings.
    Short,
    /// It ran only before the change. It counts for the spread between replicas.
    Before,
}

/// Two replicas have the same age if neither is older than the other by more than this factor.
const AGES: f64 = 2.0;
/// The least number of readings of a replica that is compared.
const LEAST_READINGS: usize = 5;
/// The least number of other replicas for a word. Fewer do not show the spread.
const LEAST_OTHERS: usize = 2;
/// The processors used are alike if those of the changed replicas differ from those of the others by at most this factor.
const TRAFFIC: f64 = 1.25;
/// A replica that uses fewer processors than this is idle: it gets no traffic.
const IDLE: f64 = 0.005;

/// The shortest time with a reading each `every` that can end in a word, if the changed replica is old, and if it has just started. Only
/// readings of the second half of its life are compared.
pub fn shortest(every: Duration) -> [Duration; 2] {
    let least = LEAST_READINGS as u32 - 1;
    [every * least, every * 2 * least]
}

/// The verdict. The error says what is missing.
pub fn judge(
    replicas: Vec<Replica>,
    target: &TrialTarget,
    lines: &[TrialVariable],
    margin: f64,
) -> Result<Trial, String> {
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
    let after = (since + until.saturating_sub(since) / 2, until);
    let has_ended = |one: &Replica| one.readings.last().is_none_or(|last| last.taken + (until - after.0) / 4 < until);
    let first_change = changed().filter_map(Replica::begun).min().unwrap_or(since);
    let earlier =
        || replicas.iter().flat_map(|one| &one.readings).map(|one| one.taken).filter(|taken| *taken < first_change);
    let before = earlier().min().zip(earlier().max()).map(|(first, last)| (first + (last - first) / 2, last));
    let mut members: Vec<Member> = replicas
        .iter()
        .filter_map(|one| {
            let level = one.level(after);
            let age = (one.started > 0).then(|| until.saturating_sub(one.started) / 1000);
            let is_kind = changed().next().is_some_and(|changed| changed.is_like(one));
            let is_age = age.is_some_and(|age| is_alike(age, until.saturating_sub(since) / 1000));
            let part = match &level {
                _ if one.changed => ReplicaRole::Changed,
                Some(_) if !is_kind => ReplicaRole::OtherKind,
                Some(_) if !is_age => ReplicaRole::OtherAge,
                Some(level) if level.readings < LEAST_READINGS || has_ended(one) => ReplicaRole::Short,
                Some(_) => ReplicaRole::Other,
                None if !is_kind => return None,
                None => ReplicaRole::Before,
            };
            let (pod, node, settings) = (one.pod.clone(), one.node.clone(), one.settings.clone());
            let age_before = before.filter(|_| one.started > 0).and_then(|(_, end)| end.checked_sub(one.started));
            let before = before.and_then(|span| one.level(span)).filter(|_| is_kind);
            let age_before = age_before.map(|age| age / 1000);
            let member = Member { pod, node, part, age, age_before, before, after: level, settings };
            (member.before.is_some() || member.after.is_some()).then_some(member)
        })
        .collect();
    members.sort_by(|one, other| (one.part, &one.pod).cmp(&(other.part, &other.pod)));
    let mut doubts = Vec::new();
    let mut notes = Vec::new();
    let (compared, effect) = compare(&members, target, &mut doubts);
    let of = |part: ReplicaRole| members.iter().filter(move |one| one.part == part);
    let others: Vec<f64> = of(ReplicaRole::Other).filter_map(|one| one.after).map(|level| level.log).collect();
    settings(&replicas, target, lines, after, &mut doubts, &mut notes);
    restarts(&replicas, first_change, has_ended, &mut doubts, &mut notes);
    enough(&members, &mut doubts);
    let found = effect.map_or(TrialWord::Undecided, |effect| effect.word(margin));
    traffic(&members, found, &mut doubts, &mut notes);
    growth(&members, found, margin, &mut doubts, &mut notes);
    let word = if doubts.is_empty() { found } else { TrialWord::Undecided };
    Ok(Trial {
        word,
        effect,
        tolerance: margin,
        compared,
        others: mean(&others).map_or(0.0, f64::exp),
        replicas: members,
        seconds: until.saturating_sub(since) / 1000,
        doubts,
        notes,
    })
}

/// Whether neither age is more than [`AGES`] times the other.
fn is_alike(age: u64, other: u64) -> bool {
    age as f64 <= other as f64 * AGES && age as f64 * AGES >= other as f64
}

/// What the data of a replica are tied to: its pod's name, which a restarted pod keeps, or its node.
fn place<'a>(target: &TrialTarget, pod: &'a str, node: &'a str) -> &'a str {
    if target.kind == "daemonset" { node } else { pod }
}

/// The effect, by differences or by levels.
fn compare(members: &[Member], target: &TrialTarget, doubts: &mut Vec<String>) -> (TrialMeasure, Option<MemoryShare>) {
    let after = |part: ReplicaRole| {
        members.iter().filter(move |one| one.part == part).filter_map(|one| Some((one, one.after?.log)))
    };
    // Each start is one sample. Replicas that are compared after the change are samples already, so their readings before the change are no
    // further samples.
    let earlier = || members.iter().filter(|one| !matches!(one.part, ReplicaRole::Changed | ReplicaRole::Other));
    if target.kind != "deployment" {
        let place = |one: &Member| place(target, &one.pod, &one.node).to_string();
        let mut old: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
        for one in earlier() {
            if let (Some(level), Some(age)) = (one.before, one.age_before) {
                old.entry(place(one)).or_default().push((age, level.log));
            }
        }
        // The readings before the change are also compared at the same age.
        let age = after(ReplicaRole::Changed).find_map(|(one, _)| Some(old.get(&place(one))?.first()?.0));
        let differences = |part: ReplicaRole| -> Vec<f64> {
            let of = |(one, log): (&Member, f64)| {
                let old = old.get(&place(one))?.iter().filter(|(old, _)| age.is_some_and(|age| is_alike(*old, age)));
                Some(log - mean(&old.map(|(_, log)| *log).collect::<Vec<_>>())?)
            };
            after(part).filter_map(of).collect()
        };
        let (changed, others) = (differences(ReplicaRole::Changed), differences(ReplicaRole::Other));
        if !changed.is_empty() && others.len() >= LEAST_OTHERS {
            return (TrialMeasure::Differences, effect(&changed, &others, &[]));
        }
        doubts.push(format!(
            "Replicas of a {} differ by what they hold. Wanted readings from before the change of the changed one and of {LEAST_OTHERS} others, which \
             were about as old then and were restarted since: found {} and {}.",
            target.kind,
            changed.len(),
            others.len()
        ));
    }
    let levels = |part: ReplicaRole| -> Vec<f64> { after(part).map(|(_, log)| log).collect() };
    let before: Vec<f64> = earlier().filter_map(|one| one.before).map(|level| level.log).collect();
    (TrialMeasure::Levels, effect(&levels(ReplicaRole::Changed), &levels(ReplicaRole::Other), &[&before]))
}

/// Checks that the variables are in force in the changed replicas, and in no other.
fn settings(
    replicas: &[Replica],
    target: &TrialTarget,
    lines: &[TrialVariable],
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
            None => {
                let at = place(target, &one.pod, &one.node);
                let is_earlier = |other: &&Replica| {
                    place(target, &other.pod, &other.node) == at && !other.changed && other.started < one.started
                };
                let text = format!("Whether {} has the lines in force cannot be seen from outside", one.pod);
                match replicas.iter().filter(is_earlier).count() {
                    _ if one.workload == target.canary() => notes.push(format!("{text}.")),
                    1 => notes.push(format!("{text}: its restart counts as the change.")),
                    0 => doubts.push(format!(
                        "{text}, and no reading is from before its restart: nothing says that it was changed."
                    )),
                    many => doubts.push(format!(
                        "{text}, and it was restarted {many} times: give the readings around the change alone."
                    )),
                }
            }
        }
    }
    let too: Vec<&str> =
        others.iter().filter(|one| one.in_force(lines) == Some(true)).map(|one| one.pod.as_str()).collect();
    if !too.is_empty() {
        doubts.push(format!("The lines are in force in others, too: {}.", too.join(", ")));
    }
}

/// Checks that the changed replicas have run since the change without a restart, and which others were restarted more than once.
fn restarts(
    replicas: &[Replica],
    first_change: u64,
    has_ended: impl Fn(&Replica) -> bool,
    doubts: &mut Vec<String>,
    notes: &mut Vec<String>,
) {
    let changed: Vec<&Replica> = replicas.iter().filter(|one| one.changed).collect();
    let ended: Vec<&str> = changed.iter().filter(|one| has_ended(one)).map(|one| one.pod.as_str()).collect();
    if !ended.is_empty() {
        doubts.push(format!(
            "Changed replicas have ended or were started again: {}. See why, and give the readings since the last start alone.",
            ended.join(", ")
        ));
    }
    if changed.windows(2).any(|two| !two[0].is_like(two[1])) {
        doubts.push("The changed replicas are on unlike nodes, or have unlike images or quotas.".into());
    }
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in replicas.iter().filter(|one| !one.changed && one.started >= first_change) {
        *starts.entry(&one.pod).or_default() += 1;
    }
    let again: Vec<&str> = starts.into_iter().filter(|(_, starts)| *starts > 1).map(|(pod, _)| pod).collect();
    if !again.is_empty() {
        notes.push(format!("Others were started more than once since the change: {}.", again.join(", ")));
    }
}

/// Checks that there are enough other replicas and readings.
fn enough(members: &[Member], doubts: &mut Vec<String>) {
    let of = |part: ReplicaRole| members.iter().filter(|one| one.part == part).count();
    let others = of(ReplicaRole::Other);
    if others < LEAST_OTHERS {
        let mut text = format!(
            "Wanted at least {LEAST_OTHERS} other replicas of about the same age on nodes of the same kind, found {others}."
        );
        if of(ReplicaRole::OtherAge) > 0 {
            text.push_str(&format!(
                " {} of another age run: memory grows with age. Read on until none is more than {AGES} times as old, or begin after the next \
                 rollout.",
                of(ReplicaRole::OtherAge)
            ));
        }
        if of(ReplicaRole::OtherKind) > 0 {
            text.push_str(&format!(
                " {} run on other kinds of nodes, or with another image or quota.",
                of(ReplicaRole::OtherKind)
            ));
        }
        if of(ReplicaRole::Short) > 0 {
            text.push_str(&format!(" {} ended, or have fewer than {LEAST_READINGS} readings.", of(ReplicaRole::Short)));
        }
        doubts.push(text);
    }
    for one in members.iter().filter(|one| one.part == ReplicaRole::Changed) {
        let readings = one.after.map_or(0, |level| level.readings);
        if readings < LEAST_READINGS {
            doubts.push(format!(
                "Wanted {LEAST_READINGS} readings of {} in the later half of its time, found {readings}: read on.",
                one.pod
            ));
        }
    }
}

/// Checks that the changed replicas do as much work as the others. A setting may itself cost or save CPU time. So a difference is a doubt
/// only if it could explain the word, or hide an effect.
fn traffic(members: &[Member], word: TrialWord, doubts: &mut Vec<String>, notes: &mut Vec<String>) {
    let of = |part: ReplicaRole| -> Vec<f64> {
        members.iter().filter(|one| one.part == part).filter_map(|one| one.after?.cores).collect()
    };
    let (changed, others) = (of(ReplicaRole::Changed), of(ReplicaRole::Other));
    let (Some(own), Some(usual)) = (mean(&changed), mean(&others)) else {
        doubts.push("How much CPU time the replicas use is not known: their traffic may differ.".into());
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
        (true, TrialWord::Better) | (false, TrialWord::Worse) | (_, TrialWord::Equal) => doubts.push(format!(
            "{text} Traffic that differs may be the reason: see that services send all replicas the same, and read on."
        )),
        _ => notes.push(format!("{text} They differ: by traffic, or by what the change costs.")),
    }
}

/// Checks whether memory still grows or shrinks. If it changed by more than the margin in this time, `Equal` may not last.
fn growth(members: &[Member], word: TrialWord, margin: f64, doubts: &mut Vec<String>, notes: &mut Vec<String>) {
    let of = |part: ReplicaRole| {
        mean(
            &members
                .iter()
                .filter(|one| one.part == part)
                .filter_map(|one| Some(one.after?.growth))
                .collect::<Vec<_>>(),
        )
    };
    if let (Some(changed), Some(others)) = (of(ReplicaRole::Changed), of(ReplicaRole::Other))
        && changed.abs().max(others.abs()) > margin
    {
        let list = if word == TrialWord::Equal { doubts } else { notes };
        list.push(format!(
            "Memory still moves: in this time by {:+.0} % in the changed replica and by {:+.0} % in the others. A longer time may say \
             something else.",
            changed * 100.0,
            others * 100.0
        ));
    }
}

impl Replica {
    /// Whether it has the same image and quota as the other, on the same kind of node.
    fn is_like(&self, other: &Replica) -> bool {
        self.host == other.host && self.image == other.image && self.quota_milli == other.quota_milli
    }

    /// When it began: the reported start, or its first reading if that is earlier.
    fn begun(&self) -> Option<u64> {
        let first = self.readings.first()?.taken;
        Some(if self.started > 0 { self.started.min(first) } else { first })
    }
}

#[cfg(test)]
mod tests;
