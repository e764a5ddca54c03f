//! The prober. In: the peers of the mesh, every interval. Out: replies and losses, in the peers' books.
//!
//! One task serves all peers. It sleeps until the next probe is due, reads the answers, marks overdue probes as lost, and sends. Each probe
//! that needs a connection has a short task of its own.

pub mod answers;
mod channel;
pub mod echo;
pub mod http;
pub mod icmp;
pub mod packet;
mod reads;
pub mod receive;
pub mod schedule;
pub mod socket;
pub mod stamps;
mod streams;
pub mod tcp;
pub mod timer;
pub mod udp;
mod wire;

use std::collections::VecDeque;

use crate::clock;
use crate::error::{Error, Result};
use crate::mesh::{Mesh, PeerId, Shared};
use crate::options::{MOST_INTERVALS, Options};
use crate::protocol::{Loss, Protocol};
use crate::say::say;
use answers::Asker;
use channel::{Channel, SETTLED};
use echo::Echo;
use packet::{Kind, Probe};
use reads::Reads;
use receive::Receiver;
use schedule::Schedule;
use stamps::Stamps;
use streams::Streams;
use timer::Timer;

/// The interval at which drops are counted and old peers removed. This is done with the first probe after it, or after
/// half of the interval more.
const HOUSEKEEPING: u64 = 1_000_000_000;
/// After this many peers have gone, the memory of their books is given back: about a quarter of a megabyte.
const MANY: usize = 200;

/// A probe in flight, and its deadline.
struct Deadline {
    at: u64,
    id: PeerId,
    protocol: Protocol,
    sequence: u32,
}

/// The prober. See the module.
pub struct Prober {
    shared: Shared,
    asker: Asker,
    channels: Vec<Channel>,
    streams: Streams,
    echo: Echo,
    schedule: Schedule,
    stamps: Stamps,
    receiver: Receiver,
    timer: Timer,
    /// In the order of their time, since the timeout is the same for all.
    deadlines: VecDeque<Deadline>,
    reads: Reads,
    version: Option<u64>,
    swept_at: u64,
    /// A probe may be sent early by this many nanoseconds.
    early: u64,
    /// Peers that have gone since memory was given back.
    forgotten: usize,
    fallback: Option<Error>,
}

impl Prober {
    /// Opens the sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If ICMP was requested and is not permitted, if the port of UDP echo is taken, or if the timeout is longer than eight intervals.
    pub fn open(options: &Options, shared: Shared) -> Result<Self> {
        if options.timeout > options.interval * MOST_INTERVALS || options.timeout.is_zero() {
            return Err(Error::Input(format!(
                "a timeout of {:?} with an interval of {:?}: wanted more than 0 and at most {MOST_INTERVALS} intervals",
                options.timeout, options.interval
            )));
        }
        let system = |what| move |error| Error::System { what, error };
        let nonce = socket::random().map_err(system("getting a random number"))?;
        let seed = socket::random().map_err(system("getting a random number"))?;
        let echo = Echo::bind(options.udp_port)?;
        let asked = options.protocols.clone();
        let mut protocols = asked.clone().unwrap_or_else(|| vec![Protocol::Icmp]);
        protocols.sort_unstable();
        protocols.dedup();
        let mut channels = Vec::new();
        let mut fallback = None;
        if protocols.contains(&Protocol::Icmp) {
            match open_icmp(nonce, &mut channels) {
                Err(error) if asked.is_none() => {
                    fallback = Some(error);
                    protocols = vec![Protocol::Udp];
                }
                done => done?,
            }
        }
        if protocols.contains(&Protocol::Udp) {
            // Peers listen on the same port as we do, even if the kernel chose it.
            channels.push(Channel::udp(false, echo.port()).map_err(system("opening a UDP socket"))?);
            channels.extend(Channel::udp(true, echo.port()));
        }
        let streams = Streams::new(shared.clone(), options.peer_port, options.timeout);
        let interval = options.interval.as_nanos() as u64;
        Ok(Prober {
            shared,
            asker: Asker { nonce, timeout: options.timeout.as_nanos() as u64 },
            channels,
            streams,
            echo,
            schedule: Schedule::new(interval, protocols, seed),
            stamps: Stamps::default(),
            receiver: Receiver::new(),
            timer: Timer::new().map_err(system("making a timer"))?,
            deadlines: VecDeque::new(),
            reads: Reads::new(),
            version: None,
            swept_at: 0,
            early: 0,
            forgotten: 0,
            fallback,
        })
    }

    /// The reason why peers are probed by UDP although no flag asks for it, if they are.
    pub fn fallback(&self) -> Option<&Error> {
        self.fallback.as_ref()
    }

    /// Probes, and answers other canaries' UDP echo, until it is dropped.
    ///
    /// # Errors
    /// Only if the timer or the socket of UDP echo fails permanently.
    pub async fn run(mut self) -> Result<()> {
        let timing = |error| Error::System { what: "waiting for the next probe", error };
        loop {
            if self.tick() {
                tokio::task::yield_now().await;
                continue;
            }
            self.timer.set(self.next().saturating_sub(clock::now())).map_err(timing)?;
            loop {
                tokio::select! {
                    biased;
                    expired = self.timer.expired() => break expired.map_err(timing)?,
                    answered = self.echo.answer(&self.shared, &mut self.receiver) => {
                        answered.map_err(|error| Error::System { what: "answering UDP echo", error })?;
                    }
                }
            }
        }
    }

    /// The time of the next action.
    fn next(&self) -> u64 {
        let mut next = self.swept_at + HOUSEKEEPING * 3 / 2;
        if let Some(due) = self.schedule.next() {
            next = next.min(due);
        }
        if let Some(deadline) = self.deadline() {
            next = next.min(deadline + SETTLED + 1).min(self.reads.next());
        }
        next
    }

    /// Reads answers, marks overdue probes as lost, and sends probes. Returns true if there is more to read now.
    fn tick(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut mesh = shared.lock();
        let stamped = mesh.tallies.unstamped == 0;
        let more = self.work(&mut mesh);
        let first = stamped && mesh.tallies.unstamped > 0;
        drop(mesh);
        if self.forgotten >= MANY {
            self.forgotten = 0;
            self.deadlines.shrink_to(2 * self.deadlines.len());
            let _ = allocanary::tuning::purge();
        }
        if first {
            say(
                "this kernel does not say when a packet came: round trips are up to twice as long as they were, and 250 us; \
                 kube_canary_unstamped_replies_total counts them",
            );
        }
        more
    }

    fn work(&mut self, mesh: &mut Mesh) -> bool {
        let now = clock::now();
        let sweep = now >= self.swept_at + HOUSEKEEPING;
        if sweep {
            self.shared.beat();
        }
        let mut more = false;
        if sweep || !self.deadlines.is_empty() {
            mesh.tallies.clock_steps += u64::from(self.stamps.read());
            for channel in self.channels.iter_mut().filter(|channel| sweep || channel.asked()) {
                more |= channel.read(mesh, &self.asker, &self.stamps, &mut self.receiver);
            }
            self.expire(mesh);
            self.reads.done(now, self.stamped(mesh), self.deadline());
        }
        if sweep {
            self.swept_at = now;
            self.forgotten += mesh.forget(now);
            mesh.tallies.socket_drops += self.channels.iter_mut().map(Channel::new_drops).sum::<u64>();
            mesh.tallies.socket_drops += self.echo.new_drops();
        }
        if self.version != Some(mesh.version()) {
            self.version = Some(mesh.version());
            self.schedule.update(mesh.entries().filter(|(_, entry)| entry.probed()).map(|(id, _)| id), now);
            self.early = self.schedule.early();
        }
        while let Some((id, protocol)) = self.schedule.take(now, self.early) {
            self.send(mesh, id, protocol);
        }
        more
    }

    /// Marks probes as lost after their deadline. A deadline counts as passed only when all packets that came before it
    /// have been read, so no answer that came in time is lost.
    fn expire(&mut self, mesh: &mut Mesh) {
        let read_to = self.channels.iter().map(Channel::read_to).min().unwrap_or(0);
        while let Some(front) = self.deadlines.front() {
            let book = mesh.get(front.id).and_then(|entry| entry.books[front.protocol as usize].as_ref());
            let awaited = book.is_some_and(|book| book.awaits(front.sequence));
            if awaited && front.at + SETTLED >= read_to {
                break;
            }
            if awaited && let Some(book) = mesh.book(front.id, front.protocol) {
                book.lost(front.sequence, Loss::Timeout);
            }
            self.deadlines.pop_front();
        }
    }

    /// Whether the kernel gives arrival times: some answers had one, and none came without.
    fn stamped(&self, mesh: &Mesh) -> bool {
        mesh.tallies.unstamped == 0 && self.channels.iter().any(Channel::stamped)
    }

    /// The deadline of the oldest probe.
    fn deadline(&self) -> Option<u64> {
        self.deadlines.front().map(|front| front.at)
    }

    fn send(&mut self, mesh: &mut Mesh, id: PeerId, protocol: Protocol) {
        let Some(address) = mesh.get(id).map(|entry| entry.peer.address) else { return };
        if matches!(protocol, Protocol::Tcp | Protocol::Http) {
            return self.streams.start(mesh, id, protocol, address);
        }
        let Some(book) = mesh.book(id, protocol) else { return };
        let now = clock::now();
        let sequence = book.send(now);
        let Some(channel) = self.channels.iter_mut().find(|channel| channel.carries(protocol, address)) else {
            // This host does not have the family of this address.
            book.lost(sequence, Loss::Send);
            return;
        };
        let probe = Probe { kind: Kind::Request, protocol, nonce: self.asker.nonce, id, sequence };
        match channel.send(address, &probe, now) {
            Ok(()) => {
                // Requests of others must not wait until our last probe is sent: the wait would be part of their times.
                if protocol == Protocol::Udp {
                    self.echo.take(&mut mesh.tallies, &mut self.receiver);
                }
                self.deadlines.push_back(Deadline { at: now + self.asker.timeout, id, protocol, sequence });
                self.reads.sent(now, self.stamped(mesh), self.deadline());
            }
            Err(_) => drop(book.lost(sequence, Loss::Send)),
        }
    }
}

/// Opens channels for both families. One is enough, since a host may lack the other family.
fn open_icmp(nonce: u64, channels: &mut Vec<Channel>) -> Result<()> {
    let v4 = Channel::icmp(false, nonce);
    let v6 = Channel::icmp(true, nonce);
    match (v4, v6) {
        (Err((datagram, raw)), Err(_)) => Err(Error::NoIcmp { datagram, raw }),
        (v4, v6) => {
            channels.extend(v4);
            channels.extend(v6);
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "mod_test.rs"]
mod tests;
