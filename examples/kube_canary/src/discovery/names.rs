//! The names of peers of which only the address is known. In: the mesh. Out: names in the mesh, each asked for once.
//!
//! DNS tells addresses only. Every canary says its node's name in a header of `/healthz`; whoever is no canary says none
//! and is asked ever more rarely.

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
/// Beats of the prober between two looks for nameless peers.
const NEXT_LOOK: u32 = 1;
/// The same where there was none.
const IDLE_LOOK: u32 = 5;
const FIRST_WAIT: u64 = 2;
const LONGEST_WAIT: u64 = 600;

/// When a nameless peer is asked again.
struct Turn {
    at: u64,
    wait: u64,
}

/// Asks for ever.
pub async fn learn(port: u16, mesh: Shared) {
    let mut turns: HashMap<IpAddr, Turn> = HashMap::new();
    let mut asked: JoinSet<(IpAddr, Option<String>)> = JoinSet::new();
    let mut wait = NEXT_LOOK;
    loop {
        mesh.beats(wait).await;
        for address in due(&mesh, &mut turns) {
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

/// The nameless peers whose turn it is.
fn due(mesh: &Shared, turns: &mut HashMap<IpAddr, Turn>) -> Vec<IpAddr> {
    let mesh = mesh.lock();
    let nameless = |address: &IpAddr| mesh.at(*address).is_some_and(|(_, entry)| entry.peer.node.is_empty());
    turns.retain(|address, _| nameless(address));
    let now = clock::now() / 1_000_000_000;
    let mut due = Vec::new();
    for (_, entry) in mesh.entries().filter(|(_, entry)| entry.probed() && entry.peer.node.is_empty()) {
        let turn = turns.entry(entry.peer.address).or_insert(Turn { at: now, wait: FIRST_WAIT });
        if turn.at <= now {
            *turn = Turn { at: now + turn.wait, wait: (turn.wait * 2).min(LONGEST_WAIT) };
            due.push(entry.peer.address);
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

/// A name that may stand in a label: a peer can send anything.
fn sane(name: &str) -> Option<String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (!name.is_empty() && name.len() <= 253 && name.bytes().all(fine)).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
