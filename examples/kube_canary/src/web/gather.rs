//! The picture of the whole mesh. In: each peer's row, asked for when somebody looks. Out: who sees whom, and how well.
//!
//! Asked for once however many look, shown for a few seconds, then thrown away and its memory given back: nobody looks at
//! a canary for most of its life.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::ser::Serializer;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::brief::{self, Brief, Cell};
use super::client;
use crate::mesh::Shared;

/// Rows and columns. A picture of more cannot be read, and each look would ask every canary of a large cluster.
const MOST_NODES: usize = 200;
/// Canaries that are asked at the same time.
const AT_ONCE: usize = 16;
/// A look takes no longer, however many do not answer.
const DEADLINE: Duration = Duration::from_secs(8);
/// A picture is shown for so long.
const FRESH: Duration = Duration::from_secs(4);

/// Who sees whom.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    /// In the order of rows (who probes) and of columns (who is probed).
    nodes: Vec<Node>,
    /// Row after row: thousandths lost and median microseconds, or nothing known.
    cells: Vec<Option<Cell>>,
    /// Peers that there was no room for.
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    address: Option<IpAddr>,
    zone: Box<str>,
    cordoned: bool,
    /// This canary itself.
    own: bool,
    /// Why its row is empty.
    problem: Option<String>,
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.loss_permille, self.p50_us).serialize(serializer)
    }
}

/// Asks, and remembers for a few seconds.
#[derive(Debug)]
pub(super) struct Gatherer {
    mesh: Shared,
    node: String,
    own_addresses: Vec<IpAddr>,
    port: u16,
    latest: Mutex<Option<Arc<Picture>>>,
}

impl Gatherer {
    /// For the canary on `node`; the others listen on `port`.
    pub(super) fn new(mesh: Shared, node: String, own_addresses: Vec<IpAddr>, port: u16) -> Self {
        Gatherer { mesh, node, own_addresses, port, latest: Mutex::new(None) }
    }

    /// The picture. Whoever comes while it is made waits for the same one.
    pub(super) async fn picture(self: &Arc<Self>) -> Arc<Picture> {
        let mut latest = self.latest.lock().await;
        if let Some(picture) = &*latest {
            return picture.clone();
        }
        let picture = Arc::new(self.ask().await);
        *latest = Some(picture.clone());
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FRESH).await;
            *this.latest.lock().await = None;
            let _ = allocanary::tuning::purge();
        });
        picture
    }

    async fn ask(&self) -> Picture {
        let mut picture = self.blank();
        let columns = Columns::of(&picture.nodes);
        if let Some(row) = picture.nodes.iter().position(|node| node.own) {
            columns.fill(row, brief::own(&self.mesh.lock()), &mut picture.cells);
        }
        let mut others: Vec<(usize, SocketAddr)> = Vec::new();
        for (row, node) in picture.nodes.iter_mut().enumerate().filter(|(_, node)| !node.own) {
            node.problem = Some(format!("not asked within {} s", DEADLINE.as_secs()));
            others.extend(node.address.map(|address| (row, SocketAddr::new(address, self.port))));
        }
        let all = async {
            let mut asked = JoinSet::new();
            let mut others = others.into_iter();
            loop {
                while asked.len() < AT_ONCE
                    && let Some((row, address)) = others.next()
                {
                    asked.spawn(async move { (row, client::get(address, "/peers?brief").await) });
                }
                let Some(answer) = asked.join_next().await else { break };
                let Ok((row, answer)) = answer else { continue };
                let read = answer.and_then(|text| {
                    let brief: Brief =
                        serde_json::from_slice(&text).map_err(|error| format!("not a canary: {error}"))?;
                    columns.fill(row, brief.cells(), &mut picture.cells);
                    Ok(brief.node.into_owned())
                });
                match read {
                    Ok(name) => {
                        picture.nodes[row].problem = None;
                        if picture.nodes[row].name.is_empty() {
                            picture.nodes[row].name = name;
                        }
                    }
                    Err(problem) => picture.nodes[row].problem = Some(problem),
                }
            }
        };
        // What was read by then is shown.
        let _ = tokio::time::timeout(DEADLINE, all).await;
        picture
    }

    /// The nodes, and no cell known.
    fn blank(&self) -> Picture {
        let mut nodes: Vec<Node> = Vec::new();
        {
            let mesh = self.mesh.lock();
            for (_, entry) in mesh.entries().filter(|(_, entry)| entry.gone_since.is_none()) {
                let peer = &entry.peer;
                nodes.push(Node {
                    name: peer.node.to_string(),
                    address: Some(peer.address),
                    zone: peer.zone.clone(),
                    cordoned: peer.cordoned,
                    own: self.own_addresses.contains(&peer.address),
                    problem: None,
                });
            }
        }
        // Which address is the own one is not always known; the name is.
        if !nodes.iter().any(|node| node.own) {
            match nodes.iter_mut().find(|node| node.name == self.node) {
                Some(node) => node.own = true,
                None => nodes.push(Node {
                    name: self.node.clone(),
                    address: None,
                    zone: "".into(),
                    cordoned: false,
                    own: true,
                    problem: None,
                }),
            }
        }
        let left_out = nodes.len().saturating_sub(MOST_NODES);
        nodes.sort_unstable_by(|one, other| {
            (!one.own, &one.name, one.address).cmp(&(!other.own, &other.name, other.address))
        });
        nodes.truncate(MOST_NODES);
        nodes.sort_unstable_by(|one, other| (&one.name, one.address).cmp(&(&other.name, other.address)));
        let cells = vec![None; nodes.len() * nodes.len()];
        Picture { nodes, cells, left_out }
    }
}

/// Where a peer's column is. Other canaries may know a peer by another of its addresses, and then by its name.
struct Columns {
    by_address: HashMap<IpAddr, usize>,
    by_name: HashMap<String, usize>,
    width: usize,
}

impl Columns {
    fn of(nodes: &[Node]) -> Self {
        let by_address = nodes.iter().enumerate().filter_map(|(at, node)| Some((node.address?, at))).collect();
        let named = nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty());
        Columns { by_address, by_name: named.map(|(at, node)| (node.name.clone(), at)).collect(), width: nodes.len() }
    }

    fn fill<'a>(&self, row: usize, seen: impl Iterator<Item = (IpAddr, &'a str, Cell)>, cells: &mut [Option<Cell>]) {
        for (address, name, cell) in seen {
            if let Some(column) = self.by_address.get(&address).or_else(|| self.by_name.get(name)) {
                cells[row * self.width + column] = Some(cell);
            }
        }
    }
}
