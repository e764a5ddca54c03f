//! The book of one peer under one protocol. In: a probe was sent, an answer came, a deadline passed. Out: counters, which change when a
//! probe is decided. At every moment, `sent = replies + lost + in flight`.
//!
//! The book uses no socket and no clock. It remembers the last [`WINDOW`] probes, to distinguish a late or second answer from a forged one.

use crate::histogram::{Bounds, Histogram};
use crate::latest::{Latest, Sorted};
use crate::protocol::Loss;

/// How many of the latest probes are remembered. With a probe every second, an answer that is 16 seconds late still counts as late.
pub const WINDOW: u32 = 16;

/// The state of one probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    InFlight,
    Answered,
    Lost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    sequence: u32,
    state: State,
    sent_at: u64,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first answer to a probe in flight.
    Reply,
    /// An answer to a probe that already counts as lost. It stays lost.
    Late,
    /// An answer to a probe that was already answered.
    Duplicate,
    /// No such probe was sent recently.
    Unknown,
}

/// Counters and the latest probes of one peer under one protocol.
#[derive(Clone, Debug)]
pub struct Book {
    slots: [Slot; WINDOW as usize],
    next: u32,
    sent: u64,
    in_flight: u32,
    replies: u64,
    lost: [u64; Loss::ALL.len()],
    late: u64,
    duplicates: u64,
    /// A bit for each of the last 64 decided probes, the latest in bit 0; 1 means answered.
    recent: u64,
    decided: u64,
    last_rtt_ns: u64,
    jitter_ns: f64,
    hop_limit: Option<u8>,
    connect_ns: u64,
    rtt: Histogram,
    latest: Latest,
}

impl Book {
    /// An empty book.
    pub fn new(bounds: &Bounds) -> Self {
        Book {
            slots: Default::default(),
            next: 0,
            sent: 0,
            in_flight: 0,
            replies: 0,
            lost: [0; Loss::ALL.len()],
            late: 0,
            duplicates: 0,
            recent: 0,
            decided: 0,
            last_rtt_ns: 0,
            jitter_ns: 0.0,
            hop_limit: None,
            connect_ns: 0,
            rtt: Histogram::new(bounds),
            latest: Latest::new(),
        }
    }

    /// Notes that a probe is sent at `now` (nanoseconds of any clock that does not step). Returns its sequence number.
    ///
    /// A probe in flight that leaves the window is lost, so deadlines should be shorter than the window.
    pub fn send(&mut self, now: u64) -> u32 {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        let at = (sequence % WINDOW) as usize;
        if self.slots[at].state == State::InFlight {
            self.lose(at, Loss::Timeout);
        }
        self.slots[at] = Slot { sequence, state: State::InFlight, sent_at: now };
        self.sent += 1;
        self.in_flight += 1;
        sequence
    }

    /// When the probe was sent, if it is remembered.
    pub fn sent_at(&self, sequence: u32) -> Option<u64> {
        self.find(sequence).map(|at| self.slots[at].sent_at)
    }

    /// Whether the probe is still in flight: neither answered nor lost.
    pub fn awaits(&self, sequence: u32) -> bool {
        self.find(sequence).is_some_and(|at| self.slots[at].state == State::InFlight)
    }

    /// Decides that the probe is lost. False if it was decided before, or is not remembered.
    pub fn lost(&mut self, sequence: u32, why: Loss) -> bool {
        match self.find(sequence) {
            Some(at) if self.slots[at].state == State::InFlight => {
                self.lose(at, why);
                true
            }
            _ => false,
        }
    }

    /// Notes an answer to `sequence` after `rtt_ns`. `hop_limit` is the number of hops that it had left, if the socket gives it.
    pub fn answer(&mut self, sequence: u32, rtt_ns: u64, hop_limit: Option<u8>) -> Answer {
        let Some(at) = self.find(sequence) else { return Answer::Unknown };
        match self.slots[at].state {
            State::Free => Answer::Unknown,
            State::Lost => {
                self.late += 1;
                Answer::Late
            }
            State::Answered => {
                self.duplicates += 1;
                Answer::Duplicate
            }
            State::InFlight => {
                self.slots[at].state = State::Answered;
                self.decide(true);
                self.take(rtt_ns);
                self.replies += 1;
                self.hop_limit = hop_limit.or(self.hop_limit);
                Answer::Reply
            }
        }
    }

    /// Sets the part of the latest reply's time that the connection took.
    pub fn connected(&mut self, nanos: u64) {
        self.connect_ns = self.connect_ns.saturating_add(nanos);
    }

    fn find(&self, sequence: u32) -> Option<usize> {
        let at = (sequence % WINDOW) as usize;
        let slot = &self.slots[at];
        (slot.sequence == sequence && slot.state != State::Free).then_some(at)
    }

    fn lose(&mut self, at: usize, why: Loss) {
        self.slots[at].state = State::Lost;
        self.lost[why as usize] += 1;
        self.decide(false);
    }

    fn decide(&mut self, answered: bool) {
        self.in_flight -= 1;
        self.decided += 1;
        self.recent = self.recent << 1 | u64::from(answered);
    }

    fn take(&mut self, rtt_ns: u64) {
        // RFC 3550, 6.4.1: the mean deviation of successive transit times, smoothed by 1/16.
        if self.replies > 0 {
            self.jitter_ns += (rtt_ns.abs_diff(self.last_rtt_ns) as f64 - self.jitter_ns) / 16.0;
        }
        self.last_rtt_ns = rtt_ns;
        self.rtt.record(rtt_ns);
        self.latest.record(self.replies, rtt_ns);
    }

    /// Probes sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Probes neither answered nor lost yet.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Probes answered by their deadline.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Probes lost for one reason.
    pub fn lost_for(&self, why: Loss) -> u64 {
        self.lost[why as usize]
    }

    /// Probes lost for any reason.
    pub fn lost_in_all(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Answers to probes that already counted as lost.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Answers to probes that were answered already.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Whether the latest decided probe was answered; `None` before the first decision.
    pub fn up(&self) -> Option<bool> {
        (self.decided > 0).then_some(self.recent & 1 == 1)
    }

    /// The share lost of the latest decided probes, at most 64; `None` before the first decision.
    pub fn recent_loss(&self) -> Option<f64> {
        let seen = self.decided.min(64) as u32;
        let mask = if seen == 64 { u64::MAX } else { (1 << seen) - 1 };
        (seen > 0).then(|| 1.0 - f64::from((self.recent & mask).count_ones()) / f64::from(seen))
    }

    /// The latest decided probes, at most 64 and the latest last: whether each was answered.
    pub fn recent(&self) -> impl Iterator<Item = bool> {
        let bits = self.recent;
        (0..self.decided.min(64)).rev().map(move |at| bits >> at & 1 == 1)
    }

    /// The latest round-trip time, in nanoseconds; 0 before the first reply.
    pub fn last_rtt_ns(&self) -> u64 {
        self.last_rtt_ns
    }

    /// The jitter of round-trip times after RFC 3550, in nanoseconds.
    pub fn jitter_ns(&self) -> f64 {
        self.jitter_ns
    }

    /// Hops that the latest reply had left.
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit
    }

    /// The sum of the connection times of all replies, in nanoseconds; 0 if probes need no connection.
    pub fn connect_ns(&self) -> u64 {
        self.connect_ns
    }

    /// All round-trip times.
    pub fn rtt(&self) -> &Histogram {
        &self.rtt
    }

    /// The latest round-trip times, at most 64.
    pub fn latest(&self) -> Sorted {
        self.latest.sorted(self.replies)
    }
}

#[cfg(test)]
#[path = "book_test.rs"]
mod tests;
