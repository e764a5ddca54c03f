//! Finds the names of peers if only their address is known. In: the mesh. Out: names in the mesh.
//!
//! DNS gives only addresses. Every canary sends its node's name in a header of `/healthz`. A peer that is not a canary sends none, and is
//! asked less and less often. An address may later belong to another pod. So a peer is asked again when it answers after a failure, when it
//! comes back, and about every ten minutes.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::clock;
use crate::mesh::Shared;

/// The header that carries the name of a canary's node.
pub const NODE_HEADER: &str = "kube-canary-node";

const AT_ONCE: usize = 4;
const DEADLINE: Duration = Duration::from_secs(2);
/// Beats of the prober between two searches for nameless peers.
const NEXT_LOOK: u32 = 1;
/// The same if the last search found none.
const IDLE_LOOK: u32 = 5;
const SECOND: u64 = 1_000_000_000;
const FIRST_WAIT: u64 = 2;
const LONGEST_WAIT: u64 = 600;
/// Each name is requested again within this time, in seconds.
const ROUND: u64 = 600;

/// When a nameless peer is asked again.
struct Turn {
    at: u64,
    wait: u64,
}

/// Asks nameless peers for ever.
pub async fn learn(port: u16, mesh: Shared) {
    let mut turns: HashMap<IpAddr, Turn> = HashMap::new();
    let mut round = Round { begun: clock::now() / SECOND, done: 0 };
    let mut asked: JoinSet<(IpAddr, Option<String>)> = JoinSet::new();
    let mut wait = NEXT_LOOK;
    loop {
        mesh.beats(wait).await;
        for address in due(&mesh, &mut turns, &mut round, clock::now() / SECOND) {
            if asked.len() == AT_ONCE {
                take(asked.join_next().await, &mesh);
            }
            asked.spawn(async move { (address, ask(SocketAddr::new(address, port)).await) });
        }
        while !asked.is_empty() {
            take(asked.join_next().await, &mesh);
        }
        wait = if turns.is_empty() { IDLE_LOOK } else { NEXT_LOOK };
    }
}

fn take(answer: Option<Result<(IpAddr, Option<String>), tokio::task::JoinError>>, mesh: &Shared) {
    if let Some(Ok((address, Some(name)))) = answer {
        mesh.lock().name(address, &name);
    }
}

/// The state of the round through all names.
struct Round {
    begun: u64,
    /// The positions of the mesh's table that had their turn in this round.
    done: usize,
}

impl Round {
    /// The positions whose turn it is. All of them have a turn within [`ROUND`] seconds, a few at a time.
    fn next(&mut self, now: u64, places: usize) -> std::ops::Range<usize> {
        let until = (places as u64 * now.saturating_sub(self.begun) / ROUND) as usize;
        let next = self.done.min(places)..until.min(places);
        self.done = next.end;
        if until >= places {
            *self = Round { begun: now, done: 0 };
        }
        next
    }
}

/// The nameless peers whose turn it is, and those whose names may have changed.
fn due(mesh: &Shared, turns: &mut HashMap<IpAddr, Turn>, round: &mut Round, now: u64) -> Vec<IpAddr> {
    let mut mesh = mesh.lock();
    let places = mesh.places();
    let again = mesh.to_be_confirmed(round.next(now, places));
    let asks =
        |address: &IpAddr| mesh.at(*address).is_some_and(|(_, entry)| entry.peer.node.is_empty() || entry.doubted);
    turns.retain(|address, _| asks(address));
    let nameless = mesh.entries().map(|(_, entry)| entry).filter(|entry| entry.probed() && entry.peer.node.is_empty());
    let mut due = Vec::new();
    for address in nameless.map(|entry| entry.peer.address).chain(again) {
        let turn = turns.entry(address).or_insert(Turn { at: now, wait: FIRST_WAIT });
        if turn.at <= now {
            *turn = Turn { at: now + turn.wait, wait: (turn.wait * 2).min(LONGEST_WAIT) };
            due.push(address);
        }
    }
    if turns.is_empty() {
        turns.shrink_to_fit();
    }
    due
}

async fn ask(peer: SocketAddr) -> Option<String> {
    tokio::time::timeout(DEADLINE, header(peer)).await.ok()?
}

async fn header(peer: SocketAddr) -> Option<String> {
    let stream = TcpStream::connect(peer).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::Builder::new().max_buf_size(8 * 1024).handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::get("/healthz").header("host", peer.to_string()).body(Empty::<Bytes>::new()).ok()?;
    let driven = tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    driven.abort();
    sane(answer.ok()?.headers().get(NODE_HEADER)?.to_str().ok()?)
}

/// A name, if it is valid in a label. It is checked because a peer can send anything.
fn sane(name: &str) -> Option<String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (!name.is_empty() && name.len() <= 253 && name.bytes().all(fine)).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Bounds;
    use crate::mesh::Mesh;
    use crate::peer::Peer;
    use crate::protocol::{Loss, Protocol};

    #[test]
    fn a_round_takes_every_place_once_in_its_time() {
        let mut round = Round { begun: 100, done: 0 };
        let mut taken: Vec<usize> = (101..=100 + ROUND).flat_map(|now| round.next(now, 1000)).collect();
        assert_eq!(taken, (0..1000).collect::<Vec<_>>());
        taken = (101 + ROUND..=100 + 2 * ROUND).flat_map(|now| round.next(now, 3)).collect();
        assert_eq!(taken, [0, 1, 2], "the next round, of a smaller mesh");
        assert!(round.next(101 + 2 * ROUND, 0).is_empty());
    }

    #[test]
    fn who_answers_again_is_asked_for_its_name_again() {
        let address = IpAddr::from([10, 0, 0, 1]);
        let mut mesh = Mesh::new(Bounds::default(), u64::MAX, 9, "a");
        mesh.update("dns", vec![Peer::at(address)], 0);
        mesh.name(address, "node-1");
        let mesh = Shared::new(mesh);
        let (mut turns, far) = (HashMap::new(), || Round { begun: 1000, done: 0 });
        let probe = |answered: bool| {
            let mut mesh = mesh.lock();
            let (id, _) = mesh.at(address).unwrap();
            let book = mesh.book(id, Protocol::Icmp).unwrap();
            let sequence = book.send(0);
            if answered {
                book.answer(sequence, 1, None);
            } else {
                book.lost(sequence, Loss::Timeout);
            }
        };
        probe(true);
        assert!(due(&mesh, &mut turns, &mut far(), 1000).is_empty(), "its name is known");
        probe(false);
        assert!(due(&mesh, &mut turns, &mut far(), 1000).is_empty(), "it would not answer");
        probe(true);
        assert_eq!(due(&mesh, &mut turns, &mut far(), 1000), [address]);
        assert!(due(&mesh, &mut turns, &mut far(), 1000).is_empty(), "not twice at once");
        mesh.lock().name(address, "node-2");
        assert!(due(&mesh, &mut turns, &mut far(), 1000).is_empty() && turns.is_empty());
        assert_eq!(due(&mesh, &mut turns, &mut Round { begun: 0, done: 0 }, 1000), [address], "every now and then");
    }

    #[test]
    fn only_names_of_nodes_are_taken() {
        assert_eq!(
            sane("ip-10-0-0-1.eu-central-1.compute.internal").as_deref(),
            Some("ip-10-0-0-1.eu-central-1.compute.internal")
        );
        for name in ["", "a b", "<script>", "a\"}", &"x".repeat(254)] {
            assert_eq!(sane(name), None, "{name}");
        }
    }
}
