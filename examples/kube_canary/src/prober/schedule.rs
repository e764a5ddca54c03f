//! The schedule of probes. In: the peers, the interval, a seed and the time. Out: the peers that are due.
//!
//! Nothing here reads a clock. Each pair of peer and protocol has its own place on a grid of intervals. The places follow the golden ratio,
//! which spreads any number of them evenly even if peers come and go. A seed of this process moves each probe by up to a tenth of the
//! interval before or after its place. A probe may be sent up to another tenth sooner, together with others that are due. So canaries that
//! start at the same time do not probe in step, and a regular event on the node does not always meet the same peer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use allocanary_sys::rng::Rng;

use crate::mesh::PeerId;
use crate::protocol::Protocol;

/// 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Probes that are due within the mean time of this many probes are sent together, because a wake-up costs more than a
/// send: eight peers take four wake-ups a second instead of eight.
const TOGETHER: u64 = 4;
/// A probe is early by at most the interval divided by this, or by [`GRAIN`] if that is longer. Jitter moves it by a
/// tenth of the interval anyway. With both, a probe is sent between 20 % of an interval before its place and 10 % after
/// it.
const MOST_EARLY: u64 = 10;
/// A probe is early by at least the interval divided by this. With a thousand peers, ten packets are sent at a time, which no queue drops,
/// and there are a hundred wake-ups a second.
const LEAST_EARLY: u64 = 100;
/// A timer is not exact below this, in nanoseconds. If the interval is short, half the interval is used instead:
/// otherwise a probe and the next one to the same peer would be sent together.
const GRAIN: u64 = 2_000_000;

type Due = Reverse<(u64, u32, u32, Protocol)>;

/// All peers by the time of their next probe.
#[derive(Debug)]
pub struct Schedule {
    interval: u64,
    protocols: Vec<Protocol>,
    seed: u64,
    rng: Rng,
    heap: BinaryHeap<Due>,
    /// For each slot, the generation in the heap, plus one.
    known: Vec<u64>,
}

impl Schedule {
    /// An empty schedule. `interval` is in nanoseconds.
    pub fn new(interval: u64, protocols: Vec<Protocol>, seed: u64) -> Self {
        let interval = interval.max(1);
        Schedule { interval, protocols, seed, rng: Rng::new(seed), heap: BinaryHeap::new(), known: Vec::new() }
    }

    /// Replaces the peers to probe. A known peer keeps its place.
    pub fn update(&mut self, peers: impl Iterator<Item = PeerId>, now: u64) {
        let mut wanted: Vec<u64> = Vec::with_capacity(self.known.len());
        for id in peers {
            let slot = id.slot as usize;
            if wanted.len() <= slot {
                wanted.resize(slot + 1, 0);
            }
            wanted[slot] = u64::from(id.generation) + 1;
        }
        self.heap.retain(|Reverse((_, slot, generation, _))| {
            wanted.get(*slot as usize) == Some(&(u64::from(*generation) + 1))
        });
        for (slot, generation) in wanted.iter().enumerate() {
            if *generation != 0 && self.known.get(slot) != Some(generation) {
                for at in 0..self.protocols.len() {
                    let protocol = self.protocols[at];
                    self.push(now, slot as u32, (generation - 1) as u32, protocol);
                }
            }
        }
        // A table that grew has up to twice the room that it needs.
        self.heap.shrink_to(2 * self.heap.len());
        wanted.shrink_to(2 * wanted.len());
        self.known = wanted;
    }

    /// How early a probe may be sent, together with others: the mean time of `TOGETHER` probes, given the number of probes in an
    /// interval.
    pub fn early(&self) -> u64 {
        let together = self.interval * TOGETHER / (self.heap.len() as u64).max(1);
        together.clamp(self.interval / LEAST_EARLY, self.interval / MOST_EARLY).max(GRAIN.min(self.interval / 2))
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Returns one probe that is due by `now + early`, and sets the time of the next probe to that peer. `None` if no
    /// probe is due.
    ///
    /// A probe that begins with a connection is never early. It takes several turns of this thread and of the peer's.
    /// The turns of other probes that begin together with it would count in its time: with a thousand peers, 180 us
    /// more at the median.
    ///
    /// A probe that is overdue by half an interval is left out until its next time: after a stop of this process, a
    /// thousand probes at once would make some of them get lost.
    pub fn take(&mut self, now: u64, early: u64) -> Option<(PeerId, Protocol)> {
        // A timer is not exact enough for short intervals.
        let tolerable = (self.interval / 2).max(20_000_000);
        let due = |protocol: Protocol| if protocol.connects_first() { now } else { now + early };
        while self.heap.peek().is_some_and(|Reverse((at, .., protocol))| *at <= due(*protocol)) {
            let Reverse((at, slot, generation, protocol)) = self.heap.pop()?;
            let overdue = at + tolerable < now;
            // From half an interval after this probe's place, the next place is always the next one on the grid, whatever the jitter is.
            self.push(if overdue { now } else { at + self.interval / 2 - self.jitter() }, slot, generation, protocol);
            if !overdue {
                return Some((PeerId { slot, generation }, protocol));
            }
        }
        None
    }

    fn jitter(&self) -> u64 {
        self.interval / 10
    }

    /// Adds a pair at its first time after `now`.
    fn push(&mut self, now: u64, slot: u32, generation: u32, protocol: Protocol) {
        let place = u64::from(slot) * Protocol::ALL.len() as u64 + protocol as u64;
        let share = self.seed.wrapping_add(place.wrapping_mul(GOLDEN));
        let phase = ((u128::from(share) * u128::from(self.interval)) >> 64) as u64;
        let earliest = now + self.jitter();
        let rounds = earliest.saturating_sub(phase).div_ceil(self.interval);
        let grid = phase + rounds * self.interval;
        let off = self.rng.below(2 * self.jitter() as usize + 1) as u64;
        self.heap.push(Reverse((grid + off - self.jitter().min(grid), slot, generation, protocol)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ids(slots: std::ops::Range<u32>) -> impl Iterator<Item = PeerId> {
        slots.map(|slot| PeerId { slot, generation: 0 })
    }

    /// Runs the schedule like a prober that sends all probes that are due within `early`, and returns every send.
    fn run(schedule: &mut Schedule, early: u64, from: u64, to: u64) -> Vec<(u64, PeerId, Protocol)> {
        let mut sends = Vec::new();
        while let Some(now) = schedule.next().filter(|now| *now < to) {
            let now = now.max(from);
            while let Some((id, protocol)) = schedule.take(now, early) {
                sends.push((now, id, protocol));
            }
        }
        sends
    }

    #[test]
    fn every_peer_is_probed_once_an_interval_under_every_protocol() {
        // Alone, a tenth sooner or later; together with others that are due, up to another tenth sooner.
        for (peers, together, gaps) in [(100, false, 8..=12), (4, true, 7..=13), (100, true, 7..=13)] {
            let mut schedule = Schedule::new(SECOND, vec![Protocol::Icmp, Protocol::Udp], 7);
            schedule.update(ids(0..peers), 0);
            let early = if together { schedule.early() } else { 0 };
            let mut last = HashMap::new();
            let sends = run(&mut schedule, early, 0, 20 * SECOND);
            for (now, id, protocol) in &sends {
                if let Some(before) = last.insert((*id, *protocol), *now) {
                    let gap = now - before;
                    assert!((gaps.start() * SECOND / 10..=gaps.end() * SECOND / 10).contains(&gap), "{gap} after");
                }
            }
            let pairs = 2 * peers as usize;
            assert_eq!(last.len(), pairs);
            assert!((pairs * 19..=pairs * 20 + pairs / 5).contains(&sends.len()), "{}", sends.len());
        }
    }

    #[test]
    fn sends_are_spread_over_the_interval() {
        for peers in [8, 100, 1000] {
            let mut schedule = Schedule::new(SECOND, vec![Protocol::Icmp], 1);
            schedule.update(ids(0..peers), 0);
            let early = schedule.early();
            let sends = run(&mut schedule, early, 0, 12 * SECOND);
            let mut batches: HashMap<u64, u64> = HashMap::new();
            sends.iter().for_each(|(now, ..)| *batches.entry(*now).or_default() += 1);
            let (largest, usual) = (batches.values().max().copied().unwrap(), u64::from(peers) * early / SECOND);
            assert!(largest <= 3 * usual + 4, "{largest} of {peers} at once, usually {usual}");
            assert!(batches.len() * 4 < sends.len() * 3, "{} wake-ups for {} probes", batches.len(), sends.len());
            for tenth in 20..110 {
                let within = sends.iter().filter(|(now, ..)| now * 10 / SECOND == tenth).count();
                assert!(within <= peers as usize / 4 + 2, "{within} of {peers} within a tenth");
            }
        }
    }

    #[test]
    fn connections_are_begun_at_their_own_time() {
        let mut schedule = Schedule::new(SECOND, vec![Protocol::Icmp, Protocol::Http], 1);
        schedule.update(ids(0..100), 0);
        let sends = run(&mut schedule, SECOND / 10, 0, 12 * SECOND);
        for (protocol, together) in [(Protocol::Icmp, true), (Protocol::Http, false)] {
            let times: Vec<u64> = sends.iter().filter(|(.., by)| *by == protocol).map(|(now, ..)| *now).collect();
            assert!(times.len() >= 1000);
            assert_eq!(times.windows(2).filter(|pair| pair[0] == pair[1]).count() > 500, together, "{protocol}");
        }
    }

    #[test]
    fn how_early_a_probe_may_be_follows_their_number() {
        for (interval, peers, wanted) in [
            (SECOND, 0, SECOND / 10),
            (SECOND, 8, SECOND / 10),
            (SECOND, 100, SECOND / 25),
            (SECOND, 1000, SECOND / 100),
            (5 * GRAIN, 8, GRAIN),
            (GRAIN / 2, 8, GRAIN / 4),
        ] {
            let mut schedule = Schedule::new(interval, vec![Protocol::Icmp], 1);
            schedule.update(ids(0..peers), 0);
            assert_eq!(schedule.early(), wanted, "{peers} each {interval} ns");
        }
    }

    #[test]
    fn nobody_is_probed_twice_at_once_however_short_the_interval() {
        let mut schedule = Schedule::new(GRAIN / 2, vec![Protocol::Icmp], 1);
        schedule.update(ids(0..8), 0);
        let early = schedule.early();
        let sends = run(&mut schedule, early, 0, 100 * GRAIN);
        let once: std::collections::HashSet<_> = sends.iter().map(|(now, id, _)| (now, id.slot)).collect();
        assert!(sends.len() > 1000 && once.len() == sends.len(), "{} at {} times", sends.len(), once.len());
    }

    #[test]
    fn two_canaries_do_not_beat_in_step() {
        let first = |seed| {
            let mut schedule = Schedule::new(SECOND, vec![Protocol::Icmp], seed);
            schedule.update(ids(0..1), 0);
            run(&mut schedule, 0, 0, 3 * SECOND).into_iter().map(|(now, ..)| now).collect::<Vec<_>>()
        };
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(Rng::new(4).next()));
    }

    #[test]
    fn who_stays_keeps_its_place_and_who_goes_is_not_probed() {
        let mut schedule = Schedule::new(SECOND, vec![Protocol::Icmp], 5);
        schedule.update(ids(0..10), 0);
        run(&mut schedule, 0, 0, 3 * SECOND);
        let before: HashMap<u32, u64> = schedule.heap.iter().map(|Reverse((at, slot, ..))| (*slot, *at)).collect();
        schedule.update(ids(5..12), 3 * SECOND);
        for Reverse((at, slot, ..)) in &schedule.heap {
            assert!(before.get(slot).is_none_or(|before| before == at) && *at >= 3 * SECOND);
        }
        assert_eq!(schedule.heap.len(), 7);
        // Another peer in the slot of one that went.
        schedule.update([PeerId { slot: 5, generation: 1 }].into_iter(), 3 * SECOND);
        assert_eq!(schedule.heap.len(), 1);
        assert!(run(&mut schedule, 0, 0, 6 * SECOND).iter().all(|(_, id, _)| id.generation == 1));
    }

    #[test]
    fn after_a_stop_there_is_no_burst() {
        let mut schedule = Schedule::new(SECOND, vec![Protocol::Icmp], 5);
        schedule.update(ids(0..1000), 0);
        run(&mut schedule, 0, 0, 2 * SECOND);
        let mut burst = 0;
        while schedule.take(60 * SECOND, 0).is_some() {
            burst += 1;
        }
        assert_eq!(burst, 0, "those of the last half of an interval were due a minute ago too");
        let sends = run(&mut schedule, 0, 60 * SECOND, 61 * SECOND + SECOND / 5);
        assert!((1000..=1200).contains(&sends.len()), "{}", sends.len());
    }
}
