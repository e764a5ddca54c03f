//! The mesh: the peers that this canary knows, each with a book per protocol. In: sets of peers from sources, events of
//! probes. Out: the peers to probe, and the figures to show.
//!
//! The prober, discovery and the web server share one mesh behind one lock ([`Shared`]); the lock is held for a lookup or
//! for one rendering, never across a wait.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::book::Book;
use crate::histogram::Bounds;
use crate::peer::Peer;
use crate::protocol::Protocol;
use crate::tallies::Tallies;

/// Identifies one peer as long as it is known. If another peer gets the same slot later, the generation differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId {
    /// Its place in the table.
    pub slot: u32,
    /// The number of this peer among all that were ever known.
    pub generation: u32,
}

/// A peer with its books.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The peer.
    pub peer: Peer,
    /// One book for each protocol that is in use, made at the first probe.
    pub books: [Option<Box<Book>>; Protocol::ALL.len()],
    /// When the last source stopped naming it. Its series stay for the grace period.
    pub gone_since: Option<u64>,
    /// Whether this canary probes it, if it does not probe all peers.
    pub chosen: bool,
    /// Whether the peer itself, and not a source, gave its node's name.
    pub learnt: bool,
    /// Whether its address may belong to another pod by now: since the peer gave its name, it was away or did not answer.
    pub doubted: bool,
}

impl Entry {
    /// Whether it gets probes.
    pub fn probed(&self) -> bool {
        self.chosen && self.gone_since.is_none()
    }

    /// Call this before the peer's node gets the name `node`. If it had another name, this is another canary, and its
    /// books are cleared. Returns whether this is so.
    fn rename(&mut self, node: &str) -> bool {
        let other = !self.peer.node.is_empty() && *self.peer.node != *node;
        if other {
            self.books = Default::default();
        }
        other
    }

    /// Whether the latest decided probe of any protocol was answered; `None` before the first decision.
    pub fn up(&self) -> Option<bool> {
        self.books.iter().flatten().filter_map(|book| book.up()).reduce(|one, other| one || other)
    }
}

/// Peers and books. See the module.
#[derive(Debug)]
pub struct Mesh {
    slots: Vec<(u32, Option<Entry>)>,
    by_address: HashMap<IpAddr, u32>,
    /// The peers that each source named last.
    sources: BTreeMap<&'static str, Vec<Peer>>,
    bounds: Bounds,
    grace_ns: u64,
    most_probed: usize,
    own_name: Box<str>,
    /// The canary's own counters.
    pub tallies: Tallies,
    /// Rises with every change of the peers, so that the prober notices.
    version: u64,
    /// The generation of the next peer. No two peers get the same, even if the table was shorter in between.
    next_generation: u32,
}

/// The next generation, of a counter.
fn take(next: &mut u32) -> u32 {
    let generation = *next;
    *next = next.wrapping_add(1);
    generation
}

impl Mesh {
    /// An empty mesh. `most_probed` is the most peers that get probes. `own_name` decides which ones.
    pub fn new(bounds: Bounds, grace_ns: u64, most_probed: usize, own_name: &str) -> Self {
        Mesh {
            slots: Vec::new(),
            by_address: HashMap::new(),
            sources: BTreeMap::new(),
            bounds,
            grace_ns,
            most_probed,
            own_name: own_name.into(),
            tallies: Tallies::default(),
            version: 0,
            next_generation: 0,
        }
    }

    /// Replaces the peers that this source names. A peer that no source names any more is kept for the grace period, without probes. If two
    /// sources name an address, the one that knows its node takes precedence.
    pub fn update(&mut self, source: &'static str, peers: Vec<Peer>, now: u64) {
        self.sources.insert(source, peers);
        let mut named: HashMap<IpAddr, &Peer> = HashMap::new();
        for peer in self.sources.values().flatten() {
            let known = named.entry(peer.address).or_insert(peer);
            if known.node.is_empty() {
                *known = peer;
            }
        }
        for (generation, entry) in &mut self.slots {
            let Some(entry) = entry else { continue };
            match named.remove(&entry.peer.address) {
                Some(peer) => {
                    entry.doubted |= entry.gone_since.take().is_some();
                    // A name that the peer itself gave is kept if the source does not know a name.
                    let node = if peer.node.is_empty() { entry.peer.node.clone() } else { peer.node.clone() };
                    entry.learnt &= peer.node.is_empty();
                    if entry.rename(&node) {
                        *generation = take(&mut self.next_generation);
                    }
                    entry.peer = Peer { node, ..peer.clone() };
                }
                None => entry.gone_since = entry.gone_since.or(Some(now)),
            }
        }
        let new: Vec<Peer> = named.into_values().cloned().collect();
        for peer in new {
            self.insert(peer);
        }
        self.choose();
        self.version += 1;
    }

    fn insert(&mut self, peer: Peer) {
        let slot = match self.slots.iter().position(|(_, entry)| entry.is_none()) {
            Some(slot) => slot,
            None => {
                self.slots.push((0, None));
                self.slots.len() - 1
            }
        };
        self.by_address.insert(peer.address, slot as u32);
        let books = Default::default();
        let entry = Entry { peer, books, gone_since: None, chosen: true, learnt: false, doubted: false };
        self.slots[slot] = (take(&mut self.next_generation), Some(entry));
    }

    /// If there are more peers than may be probed, each canary takes those whose hash with its own address is smallest (rendezvous
    /// hashing). So each peer is probed by about the same number of canaries, and a peer that comes or goes changes few choices. The hash
    /// of two addresses does not depend on their order. So most pairs are probed both ways, and an alert can say which direction is cut.
    fn choose(&mut self) {
        let own = place(self.own_name.as_bytes());
        let mut by_hash: Vec<(u64, usize)> = Vec::new();
        for (slot, (_, entry)) in self.slots.iter().enumerate() {
            if let Some(entry) = entry.as_ref().filter(|entry| entry.gone_since.is_none()) {
                let both = own ^ place(entry.peer.address.to_string().as_bytes());
                by_hash.push((allocanary_sys::rng::Rng::new(both).next(), slot));
            }
        }
        by_hash.sort_unstable();
        let chosen: Vec<usize> = by_hash.iter().take(self.most_probed).map(|(_, slot)| *slot).collect();
        for (_, entry) in &mut self.slots {
            if let Some(entry) = entry {
                entry.chosen = false;
            }
        }
        for slot in chosen {
            if let Some(entry) = &mut self.slots[slot].1 {
                entry.chosen = true;
            }
        }
    }

    /// Removes the peers that have been gone for longer than the grace period, and returns their number. The tables shrink, too.
    pub fn forget(&mut self, now: u64) -> usize {
        let mut count = 0;
        for (_, entry) in &mut self.slots {
            let over = |entry: &Entry| entry.gone_since.is_some_and(|gone| now.saturating_sub(gone) >= self.grace_ns);
            if entry.as_ref().is_some_and(over)
                && let Some(gone) = entry.take()
            {
                self.by_address.remove(&gone.peer.address);
                count += 1;
            }
        }
        if count > 0 {
            let used = self.slots.iter().rposition(|(_, entry)| entry.is_some()).map_or(0, |last| last + 1);
            self.slots.truncate(used);
            // A table that grew has up to twice the room that it needs.
            self.slots.shrink_to(2 * used);
            self.by_address.shrink_to(2 * self.by_address.len());
            self.version += 1;
        }
        count
    }

    /// Sets the name that a peer gave itself, if no source knows one. If the name differs from the last one, this is
    /// another peer.
    pub fn name(&mut self, address: IpAddr, node: &str) {
        let Some(slot) = self.by_address.get(&address) else { return };
        let (generation, entry) = &mut self.slots[*slot as usize];
        if let Some(entry) = entry
            && (entry.peer.node.is_empty() || entry.learnt)
        {
            if entry.rename(node) {
                *generation = take(&mut self.next_generation);
                self.version += 1;
            }
            entry.peer.node = node.into();
            (entry.learnt, entry.doubted) = (true, false);
        }
    }

    /// The addresses of those peers in `slots` that gave their names themselves, and of doubted peers that answer
    /// again. A peer that does not answer now is doubted from now on.
    pub fn to_be_confirmed(&mut self, slots: std::ops::Range<usize>) -> Vec<IpAddr> {
        let mut found = Vec::new();
        for (slot, (_, entry)) in self.slots.iter_mut().enumerate() {
            let Some(entry) = entry.as_mut().filter(|entry| entry.learnt && entry.probed()) else { continue };
            match entry.up() {
                Some(false) => entry.doubted = true,
                _ if entry.doubted || slots.contains(&slot) => found.push(entry.peer.address),
                _ => {}
            }
        }
        found
    }

    /// How many places the table has.
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// Rises with every change of the peers.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All peers, including those that are gone but not yet removed.
    pub fn entries(&self) -> impl Iterator<Item = (PeerId, &Entry)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, entry))| {
            Some((PeerId { slot: slot as u32, generation: *generation }, entry.as_ref()?))
        })
    }

    /// The peer with this id, if it is still the same.
    pub fn get(&self, id: PeerId) -> Option<&Entry> {
        let (generation, entry) = self.slots.get(id.slot as usize)?;
        entry.as_ref().filter(|_| *generation == id.generation)
    }

    /// The peer at that address.
    pub fn at(&self, address: IpAddr) -> Option<(PeerId, &Entry)> {
        let slot = *self.by_address.get(&address)?;
        let (generation, entry) = &self.slots[slot as usize];
        Some((PeerId { slot, generation: *generation }, entry.as_ref()?))
    }

    /// The book of a peer under a protocol; it is made if it is missing. `None` if the peer is not known any more.
    pub fn book(&mut self, id: PeerId, protocol: Protocol) -> Option<&mut Book> {
        let (generation, entry) = self.slots.get_mut(id.slot as usize)?;
        let entry = entry.as_mut().filter(|_| *generation == id.generation)?;
        Some(entry.books[protocol as usize].get_or_insert_with(|| Box::new(Book::new(&self.bounds))))
    }
}

/// A number for a name: FNV-1a with a final mix. It is not std's hash, because a name must have the same number in every build of the
/// canary.
pub(crate) fn place(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    allocanary_sys::rng::Rng::new(hash).next()
}

/// A handle of the mesh, for its three users.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Common>);

#[derive(Debug)]
struct Common {
    mesh: Mutex<Mesh>,
    beat: Notify,
}

impl Shared {
    /// Shares a mesh.
    pub fn new(mesh: Mesh) -> Self {
        Shared(Arc::new(Common { mesh: Mutex::new(mesh), beat: Notify::new() }))
    }

    /// Locks the mesh. A panic of another holder does not stop the probes: counters are consistent at every moment.
    pub fn lock(&self) -> MutexGuard<'_, Mesh> {
        self.0.mesh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `times` wake-ups of the prober, which are about a second apart. Periodic work that waits here causes
    /// no wake-ups of its own: with few peers, timers for it would be a fifth of all that a canary does.
    pub async fn beats(&self, times: u32) {
        for _ in 0..times {
            self.0.beat.notified().await;
        }
    }

    /// Wakes the tasks that wait for a beat of the prober.
    pub fn beat(&self) {
        self.0.beat.notify_waiters();
    }
}

#[cfg(test)]
#[path = "mesh_test.rs"]
mod tests;
