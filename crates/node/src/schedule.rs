//! Decides what the agent does next. In: a clock, what the agent has spent, and which processes wait. Out: a step. Nothing here reads a
//! clock.
//!
//! The agent may use a share of one core. It may save CPU time for later, up to ten minutes' worth. If it has spent too much, it earns that
//! back before it reads the next heap. Counting all processes always happens, and is paid from the same budget. Counts that cost more than
//! half of the share are further apart, so that heaps are read too.

use std::time::Duration;

/// The CPU time that may be spent.
#[derive(Clone, Copy, Debug)]
pub struct CpuBudget {
    /// The share of a core: 0.01.
    share: f64,
    /// The time of the last look, since the start.
    at: Duration,
    /// The CPU time that was spent until then.
    spent: Duration,
    /// Seconds of CPU time that may be spent. A negative number is a debt.
    saved: f64,
}

/// What may be spent on profiles before anything was earned, in seconds of the share. A person waits for the first profile.
const LOAN: f64 = 120.0;
/// The most that a budget saves, in seconds of its share.
const MOST: f64 = 600.0;
/// The shortest wait. It earns more than it costs to look again: an agent that looked as soon as it had earned what a reading costs, would
/// have spent a part of it by looking, and would wait again, for ever.
const SHORTEST: Duration = Duration::from_secs(1);
/// Counts are at most so many times further apart than was asked for.
const MOST_APART: u32 = 5;

impl CpuBudget {
    /// An empty budget. `share` is the share of a core that it earns.
    pub fn new(share: f64) -> CpuBudget {
        CpuBudget { share, at: Duration::ZERO, spent: Duration::ZERO, saved: 0.0 }
    }

    /// A budget that starts with `LOAN`.
    pub fn with_loan(share: f64) -> CpuBudget {
        CpuBudget { saved: share * LOAN, ..CpuBudget::new(share) }
    }

    /// Earns for the time since the last look, and pays for the CPU time spent in it. `at` and `spent` both count from the start. A clock
    /// or counter that goes back earns and costs nothing.
    pub fn look(&mut self, at: Duration, spent: Duration) {
        let earned = at.saturating_sub(self.at).as_secs_f64() * self.share;
        let cost = spent.saturating_sub(self.spent).as_secs_f64();
        self.saved = (self.saved + earned - cost).min(self.share * MOST);
        self.at = self.at.max(at);
        self.spent = self.spent.max(spent);
    }

    /// How long it takes until so much may be spent, with what a count that is due after `until_due` will cost left over. `None` if that is
    /// not before the count: what is earned from some moment on is the count's.
    fn wait_beside(&self, cost: Duration, count: Duration, until_due: Duration) -> Option<Duration> {
        let wait = self.wait(cost);
        let left = until_due.checked_sub(wait)?;
        let unearned = count.saturating_sub(left.mul_f64(self.share));
        let may_spend_both = || self.wait(cost + unearned).is_zero();
        (unearned.is_zero() || wait.is_zero() && may_spend_both()).then_some(wait)
    }

    /// The time from one count to the next, which cost `count`: `every`, or longer if counts would cost more than half of the share.
    pub fn pause(&self, every: Duration, count: Duration) -> Duration {
        let half = Duration::try_from_secs_f64(count.as_secs_f64() / (self.share / 2.0)).unwrap_or(Duration::MAX);
        half.clamp(every, every.saturating_mul(MOST_APART))
    }

    /// How long it takes until so much may be spent; zero if it may be spent now. More than the purse ever has waits for a full purse, and is
    /// earned back afterwards.
    pub fn wait(&self, cost: Duration) -> Duration {
        let missing = cost.as_secs_f64().min(self.share * MOST) - self.saved;
        match missing {
            missing if missing < 0.0 => Duration::ZERO,
            // The budget is full.
            _ if self.saved > 0.0 && self.saved >= self.share * MOST => Duration::ZERO,
            _ if self.share <= 0.0 => Duration::MAX,
            missing => Duration::try_from_secs_f64(missing / self.share).unwrap_or(Duration::MAX).max(SHORTEST),
        }
    }
}

/// A process whose heap could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCandidate {
    /// Its anonymous bytes.
    pub anonymous: u64,
    /// How long ago its heap was last tried; `None` if never.
    pub age: Option<Duration>,
    /// How many readings in a row have failed.
    pub failures: u32,
    /// How many resident bytes came or went since its last reading. Nothing is known of them.
    pub changed: u64,
}

/// A heap is not read again within this time.
const PAUSE: Duration = Duration::from_secs(300);
/// A process with fewer anonymous bytes is not worth a walk: it may have just started.
const FEW: u64 = 256 << 10;

impl ReadCandidate {
    /// How much it needs a reading, as a number to compare: bytes for a new process, bytes times seconds for one that was tried before.
    /// `None` if it needs none now.
    fn need(&self) -> Option<f64> {
        if self.anonymous < FEW {
            return None;
        }
        let pause = PAUSE * 2_u32.pow(self.failures.min(8));
        match self.age {
            None => Some(self.anonymous as f64),
            Some(age) if age < pause => None,
            Some(age) => Some((self.anonymous as f64 + 4.0 * self.changed as f64) * age.as_secs_f64()),
        }
    }
}

/// The position of the process that needs a reading most. `None` if no process waits.
///
/// New processes and those that were tried before take turns. On a node whose processes come and go, neither kind makes the other wait for
/// ever.
pub fn next(all: impl Iterator<Item = ReadCandidate>, new_first: bool) -> Option<usize> {
    let mut new: Option<(usize, f64)> = None;
    let mut old: Option<(usize, f64)> = None;
    for (at, one) in all.enumerate() {
        let Some(need) = one.need() else { continue };
        let best = if one.age.is_none() { &mut new } else { &mut old };
        if best.is_none_or(|(_, most)| need > most) {
            *best = Some((at, need));
        }
    }
    let best = if new_first { new.or(old) } else { old.or(new) };
    best.map(|(at, _)| at)
}

/// What the agent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStep {
    /// Count all processes.
    Count,
    /// Read the process at this position of the list.
    Read(usize),
    /// Wait for so long.
    Wait(Duration),
}

/// The next step. Counting comes first when it is due, and a reading leaves what the next count will cost (`count`): counts cannot wait until
/// they are earned. `waiting` says whose reading is needed most and what it will cost; it is asked only if
/// something may be spent. A wait ends when something can be done, because each step costs CPU time as well.
pub fn step(
    budget: &CpuBudget,
    now: Duration,
    due: Duration,
    count: Duration,
    waiting: impl FnOnce() -> Option<(usize, Duration)>,
) -> AgentStep {
    if now >= due {
        return AgentStep::Count;
    }
    let until_due = due - now;
    match budget.wait(Duration::ZERO) {
        Duration::ZERO => match waiting() {
            None => AgentStep::Wait(until_due),
            Some((at, cost)) => match budget.wait_beside(cost, count, until_due) {
                Some(Duration::ZERO) => AgentStep::Read(at),
                wait => AgentStep::Wait(wait.unwrap_or(until_due)),
            },
        },
        wait => AgentStep::Wait(wait.min(until_due)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waiting(anonymous: u64, age: Option<u64>) -> ReadCandidate {
        ReadCandidate { anonymous, age: age.map(Duration::from_secs), failures: 0, changed: 0 }
    }

    #[test]
    fn the_purse_earns_its_share_and_a_debt_is_worked_off() {
        let mut budget = CpuBudget::with_loan(0.01);
        assert_eq!(budget.wait(Duration::ZERO), Duration::ZERO, "the loan");
        budget.look(SECOND, Duration::from_millis(2_200));
        // 1.2 s of loan and 0.01 earned against 2.2 s: a debt of 0.99 s takes 99 s.
        let wait = budget.wait(Duration::ZERO);
        assert!((wait.as_secs_f64() - 99.0).abs() < 1e-6, "{wait:?}");
        budget.look(SECOND * 101, Duration::from_millis(2_200));
        assert_eq!(budget.wait(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn nothing_is_spent_before_it_was_earned_and_what_is_dear_waits_for_no_more_than_a_full_purse() {
        let mut budget = CpuBudget::new(0.01);
        assert!(budget.wait(Duration::ZERO) > Duration::ZERO);
        budget.look(SECOND * 10, Duration::ZERO);
        assert_eq!(budget.wait(SECOND / 20), Duration::ZERO, "a tenth of a second was earned");
        assert!((budget.wait(SECOND).as_secs_f64() - 90.0).abs() < 1e-6, "{:?}", budget.wait(SECOND));
        budget.look(SECOND * 1_000, Duration::ZERO);
        assert_eq!(budget.wait(SECOND * 100), Duration::ZERO, "it saves no more than six seconds");
    }

    #[test]
    fn it_saves_for_ten_minutes_and_no_longer() {
        let mut budget = CpuBudget::new(0.01);
        budget.look(SECOND * 1_000_000, Duration::ZERO);
        budget.look(SECOND * 1_000_000, SECOND * 6);
        assert!(budget.wait(Duration::ZERO) > Duration::ZERO, "ten minutes earn six seconds");
    }

    #[test]
    fn clocks_that_go_back_earn_and_cost_nothing() {
        let mut budget = CpuBudget::new(0.01);
        budget.look(SECOND * 100, SECOND * 5);
        let wait = budget.wait(Duration::ZERO);
        budget.look(SECOND * 50, SECOND * 3);
        assert_eq!(budget.wait(Duration::ZERO), wait);
        budget.look(SECOND * 100, SECOND * 5);
        assert_eq!(budget.wait(Duration::ZERO), wait);
        let mut idle = CpuBudget::new(0.0);
        idle.look(SECOND, SECOND);
        assert_eq!(idle.wait(Duration::ZERO), Duration::MAX);
    }

    /// An hour of a node, simulated: each walk costs CPU time by the size of the heap.
    #[test]
    fn over_an_hour_it_stays_within_its_share_and_reads_the_large_ones_more_often() {
        let sizes: Vec<u64> = (0..200).map(|at| (1 + at % 20) << 24).collect();
        let (mut read, mut last) = (vec![0_u32; sizes.len()], vec![None; sizes.len()]);
        let mut new_first = true;
        let mut budget = CpuBudget::new(0.01);
        let (mut now, mut spent, mut due) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        while now < SECOND * 3600 {
            budget.look(now, spent);
            let list = || {
                let waiting = |(size, last): (&u64, &Option<Duration>)| ReadCandidate {
                    anonymous: *size,
                    age: last.map(|last| now - last),
                    failures: 0,
                    changed: 0,
                };
                let at = next(sizes.iter().zip(&last).map(waiting), new_first)?;
                Some((at, Duration::from_nanos(sizes[at] / 4)))
            };
            // A count of a thousand processes.
            let count = Duration::from_millis(150);
            let cost = match step(&budget, now, due, count, list) {
                AgentStep::Count => {
                    due = now + SECOND * 60;
                    count
                }
                AgentStep::Read(at) => {
                    new_first = read[at] > 0;
                    (read[at], last[at]) = (read[at] + 1, Some(now));
                    Duration::from_nanos(sizes[at] / 4)
                }
                AgentStep::Wait(wait) => {
                    now += wait.max(Duration::from_millis(1));
                    Duration::ZERO
                }
            };
            (now, spent) = (now + cost, spent + cost);
            let most = now.max(SECOND * 60).mul_f64(0.0101);
            assert!(spent <= most, "{spent:?} of {now:?}: also in the first minutes");
        }
        let share = spent.as_secs_f64() / now.as_secs_f64();
        assert!(share < 0.0105, "{share}");
        assert!(read.iter().all(|count| *count >= 1), "nobody is left out");
        assert!(read[19] > read[0], "{} and {}", read[19], read[0]);
    }

    /// Ten minutes of a node whose counts cost `count`, and each step 0.3 ms: how many steps and readings there were, and the share.
    fn ten_minutes(count: Duration) -> (u32, u32, f64) {
        let step_cost = Duration::from_micros(300);
        let mut budget = CpuBudget::new(0.01);
        let (mut now, mut spent, mut due) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let (mut steps, mut read) = (0, 0);
        while now < SECOND * 600 {
            budget.look(now, spent);
            steps += 1;
            let cost = match step(&budget, now, due, count, || Some((0, Duration::from_millis(2)))) {
                AgentStep::Count => {
                    due = now + budget.pause(SECOND * 60, count);
                    count
                }
                AgentStep::Read(_) => {
                    read += 1;
                    Duration::from_millis(2)
                }
                AgentStep::Wait(wait) => {
                    now += wait.max(Duration::from_millis(1));
                    Duration::ZERO
                }
            };
            (now, spent) = (now + cost, spent + cost + step_cost);
        }
        (steps, read, spent.as_secs_f64() / now.as_secs_f64())
    }

    #[test]
    fn looking_whether_something_may_be_spent_does_not_spend_it() {
        for count in [10, 150, 300, 590, 600, 610, 1_200] {
            let (steps, read, share) = ten_minutes(Duration::from_millis(count));
            assert!(read > 500, "counts of {count} ms: {read} heaps read");
            // A reading has at most a step, and a wait that ends because the budget was spent, of its own.
            assert!(steps < 3 * read + 100, "counts of {count} ms: {steps} steps for {read} readings");
            assert!(share < 0.0105, "counts of {count} ms: {share}");
        }
    }

    #[test]
    fn counts_that_cost_more_than_half_of_the_share_are_further_apart() {
        let budget = CpuBudget::new(0.01);
        let pause = |count| budget.pause(SECOND * 60, Duration::from_millis(count)).as_secs_f64();
        assert_eq!((pause(0), pause(300), pause(600), pause(60_000)), (60.0, 60.0, 120.0, 300.0));
        assert_eq!(CpuBudget::new(0.0).pause(SECOND * 60, SECOND), SECOND * 300, "no share");
    }

    #[test]
    fn the_one_that_is_needed_most_comes_and_who_was_just_read_does_not() {
        let next = |all: &[ReadCandidate]| next(all.iter().copied(), true);
        assert_eq!(next(&[waiting(1 << 30, Some(600)), waiting(1 << 26, None)]), Some(1), "the turn of new ones");
        assert_eq!(next(&[waiting(1 << 24, None), waiting(1 << 26, None)]), Some(1));
        assert_eq!(next(&[waiting(1 << 30, Some(299)), waiting(1 << 24, Some(301))]), Some(1));
        assert_eq!(next(&[waiting(1 << 30, Some(10)), waiting(1000, None)]), None);
        let failed = ReadCandidate { failures: 3, ..waiting(1 << 30, Some(2_000)) };
        assert_eq!(next(&[failed]), None, "after three failures it pauses for 40 minutes");
        let changed = ReadCandidate { changed: 1 << 30, ..waiting(1 << 20, Some(301)) };
        assert_eq!(next(&[waiting(1 << 30, Some(301)), changed]), Some(1));
    }

    #[test]
    fn neither_those_that_come_and_go_nor_the_old_ones_keep_the_others_waiting() {
        // Ten old ones; with each reading a new one comes that is larger than all of them.
        let (mut last, mut new_first, mut old) = ([Some(0_u64); 10], true, [0; 10]);
        for now in (600..4_200).step_by(10) {
            let mut all: Vec<ReadCandidate> =
                last.iter().map(|last| waiting(1 << 24, last.map(|last| now - last))).collect();
            all.push(waiting(1 << 33, None));
            let at = next(all.into_iter(), new_first).unwrap();
            new_first = at < 10;
            if at < 10 {
                (last[at], old[at]) = (Some(now), old[at] + 1);
            }
        }
        assert!(old.iter().all(|count| *count >= 8), "{old:?}");
        // And a small new one among old ones that are much larger.
        let large = [waiting(1 << 40, Some(3_600)), waiting(1 << 20, None)];
        assert_eq!((next(large.into_iter(), false), next(large.into_iter(), true)), (Some(0), Some(1)));
    }

    #[test]
    fn counting_is_due_whatever_was_spent() {
        let mut budget = CpuBudget::new(0.01);
        budget.look(Duration::ZERO, SECOND * 100);
        assert_eq!(step(&budget, SECOND * 60, SECOND * 60, SECOND, || panic!("nobody is asked")), AgentStep::Count);
        assert_eq!(
            step(&budget, SECOND * 50, SECOND * 60, SECOND, || panic!("nobody is asked")),
            AgentStep::Wait(SECOND * 10)
        );
        let saved = CpuBudget::with_loan(0.01);
        assert_eq!(step(&saved, SECOND, SECOND * 60, SECOND / 10, || Some((3, SECOND))), AgentStep::Read(3));
        assert_eq!(step(&saved, SECOND, SECOND * 60, SECOND / 10, || None), AgentStep::Wait(SECOND * 59));
        let dear = Some((3, Duration::from_millis(1_300)));
        assert!(
            matches!(step(&saved, SECOND, SECOND * 60, SECOND / 10, || dear), AgentStep::Wait(wait) if wait < SECOND * 11)
        );
    }
}
