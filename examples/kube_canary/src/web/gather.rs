//! The picture of the whole mesh. In: each peer's row, requested when a person opens the page. Out: which node reaches
//! which, and how well.
//!
//! It is requested once for all viewers and shown for a few seconds. Then it is dropped and its memory given back,
//! because most of the time nobody opens the page.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::brief::{self, Brief, Sight};
use super::client;
use super::verdict::{self, Edge, Health, Well};
use crate::mesh::Shared;

/// The most rows and columns of a picture, because nobody can read more. In a larger mesh, the nodes with most trouble are shown.
const MOST_SHOWN: usize = 200;
/// The most canaries that are asked for their rows.
const MOST_NODES: usize = 2000;
/// How many pairs are stored while a picture is made. This is enough for all pairs if each asked node probes 32 others, as in the
/// manifests. Beyond this number, only pairs with trouble are stored, up to twice as many. The others are counted.
const MOST_EDGES: usize = MOST_NODES * 32;
/// Canaries that are asked at the same time.
const AT_ONCE: usize = 16;
/// The longest time to make a picture, however many canaries do not answer.
const DEADLINE: Duration = Duration::from_secs(8);
/// A picture is shown for this time.
const FRESH: Duration = Duration::from_secs(4);

/// The picture: which node reaches which.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    /// The nodes, in the order of the rows (probing nodes) and columns (probed nodes).
    nodes: Vec<Node>,
    /// The cells, row by row. `None` if nothing is known.
    cells: Vec<Option<Sight>>,
    /// The number of nodes that are not shown: in a large mesh, nodes without trouble.
    left_out: usize,
    /// The common ending of all names.
    ending: String,
    /// The number of canaries that answered.
    told: usize,
    /// Canaries that did not answer, and the reasons; at most [`MOST_SILENT`] of them.
    silent: Vec<String>,
    /// The state of the mesh, in words.
    verdict: Health,
}

/// The most canaries without an answer that are named.
const MOST_SILENT: usize = 5;

impl Picture {
    /// The state of the mesh, with its faults.
    pub(super) fn verdict(&self) -> &Health {
        &self.verdict
    }
}

#[derive(Clone, Debug, Serialize)]
struct Node {
    name: String,
    address: Option<IpAddr>,
    zone: Box<str>,
    cordoned: bool,
    /// Whether it is this canary's own node.
    own: bool,
    /// Why its row is empty.
    problem: Option<String>,
    /// Whether its row has only bad pairs. A pair that is missing is then good but not stored, or not probed.
    only_bad: bool,
}

/// Requests the rows, and keeps the picture for a few seconds.
#[derive(Debug)]
pub(super) struct Gatherer {
    mesh: Shared,
    node: String,
    own_addresses: Vec<IpAddr>,
    port: u16,
    latest: Mutex<Option<Arc<Picture>>>,
}

impl Gatherer {
    /// A gatherer for the canary on `node`. The others listen on `port`.
    pub(super) fn new(mesh: Shared, node: String, own_addresses: Vec<IpAddr>, port: u16) -> Self {
        Gatherer { mesh, node, own_addresses, port, latest: Mutex::new(None) }
    }

    /// The picture. Requests that come while it is being made wait for the same one.
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
        let mut nodes = self.nodes();
        let unasked = nodes.len().saturating_sub(MOST_NODES);
        nodes.truncate(MOST_NODES);
        let columns = Columns::of(&nodes);
        let mut edges = Edges::of(nodes.len());
        if let Some(row) = nodes.iter().position(|node| node.own) {
            edges.add(row, &columns, brief::own(&self.mesh.lock()));
        }
        let mut others: Vec<(usize, SocketAddr)> = Vec::new();
        for (row, node) in nodes.iter_mut().enumerate().filter(|(_, node)| !node.own) {
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
                    edges.add(row, &columns, brief.cells());
                    Ok(brief.node.into_owned())
                });
                match read {
                    Ok(name) => {
                        nodes[row].problem = None;
                        if nodes[row].name.is_empty() {
                            nodes[row].name = name;
                        }
                    }
                    Err(problem) => nodes[row].problem = Some(problem),
                }
            }
        };
        // After the deadline, the rows that were read so far are shown.
        let _ = tokio::time::timeout(DEADLINE, all).await;
        Picture::of(nodes, edges, unasked)
    }

    /// All nodes by their names. This canary's own node comes first if there are more nodes than are asked.
    fn nodes(&self) -> Vec<Node> {
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
                    only_bad: false,
                });
            }
        }
        // The own address is not always known, but the own node's name is.
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
                    only_bad: false,
                }),
            }
        }
        nodes.sort_unstable_by(|one, other| {
            (!one.own, &one.name, one.address).cmp(&(!other.own, &other.name, other.address))
        });
        nodes
    }
}

impl Picture {
    /// The picture of all nodes and all known pairs.
    fn of(mut nodes: Vec<Node>, edges: Edges, unasked: usize) -> Picture {
        let Edges { all: edges, well, more_bad } = edges;
        nodes.iter_mut().zip(&well).for_each(|(node, well)| node.only_bad = well.from > 0);

        let full: Vec<String> = nodes.iter().map(Node::title).collect();
        let named: Vec<&str> = nodes.iter().map(|node| &*node.name).filter(|name| !name.is_empty()).collect();
        let ending = verdict::ending(&named).to_string();
        let names: Vec<&str> = full.iter().map(|name| name.strip_suffix(&*ending).unwrap_or(name)).collect();
        let silent: Vec<(usize, &str)> =
            nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.problem.as_deref()?))).collect();
        let told = nodes.len() - silent.len();
        let silent = silent.iter().take(MOST_SILENT).map(|(at, why)| format!("{}: {why}", names[*at])).collect();
        let verdict = verdict::verdict(&names, &edges, &well, more_bad);
        // The nodes that are shown, by their new positions.
        let mut trouble: Vec<(u32, usize)> = (0..nodes.len()).map(|at| (0, at)).collect();
        for edge in edges.iter().filter(|edge| edge.is_bad()) {
            trouble[usize::from(edge.from)].0 += 1;
            trouble[usize::from(edge.to)].0 += 1;
        }
        trouble.sort_by_key(|(bad, at)| (!nodes[*at].own, std::cmp::Reverse(*bad), *at));
        let mut shown: Vec<usize> = trouble.iter().take(MOST_SHOWN).map(|(_, at)| *at).collect();
        shown.sort_unstable_by(|one, other| {
            (&nodes[*one].name, nodes[*one].address).cmp(&(&nodes[*other].name, nodes[*other].address))
        });
        let mut place = vec![None; nodes.len()];
        shown.iter().enumerate().for_each(|(at, node)| place[*node] = Some(at));
        let mut cells = vec![None; shown.len() * shown.len()];
        for edge in edges {
            if let (Some(row), Some(column)) = (place[usize::from(edge.from)], place[usize::from(edge.to)]) {
                cells[row * shown.len() + column] = Some(edge.cell);
            }
        }
        let left_out = unasked + nodes.len() - shown.len();
        let nodes = shown.into_iter().map(|at| nodes[at].clone()).collect();
        Picture { nodes, cells, left_out, ending, told, silent, verdict }
    }
}

impl Node {
    /// Its name, or else its address.
    fn title(&self) -> String {
        match (&*self.name, self.address) {
            ("", Some(address)) => address.to_string(),
            (name, _) => name.into(),
        }
    }
}

/// The stored pairs: all of them or, in a large mesh, some of them.
struct Edges {
    all: Vec<Edge>,
    /// For each node, the number of good pairs that are not in `all`.
    well: Vec<Well>,
    /// The number of bad pairs that are not in `all`.
    more_bad: usize,
}

impl Edges {
    /// No pairs yet, in a mesh of `nodes` nodes.
    fn of(nodes: usize) -> Self {
        Edges { all: Vec::new(), well: vec![Well::default(); nodes], more_bad: 0 }
    }

    /// Adds the row of one canary.
    fn add<'a>(&mut self, row: usize, columns: &Columns, seen: impl Iterator<Item = (IpAddr, &'a str, Sight)>) {
        for (address, name, cell) in seen {
            let Some(column) = columns.by_address.get(&address).or_else(|| columns.by_name.get(name)) else { continue };
            let edge = Edge { from: row as u16, to: *column as u16, cell };
            if self.all.len() < if edge.is_bad() { 2 * MOST_EDGES } else { MOST_EDGES } {
                self.all.push(edge);
            } else if edge.is_bad() {
                self.more_bad += 1;
            } else {
                self.well[row].from += 1;
                self.well[*column].to += 1;
            }
        }
    }
}

/// Finds a peer's column. Other canaries may know a peer by another of its addresses. Then it is found by its name.
struct Columns {
    by_address: HashMap<IpAddr, usize>,
    by_name: HashMap<String, usize>,
}

impl Columns {
    fn of(nodes: &[Node]) -> Self {
        let by_address = nodes.iter().enumerate().filter_map(|(at, node)| Some((node.address?, at))).collect();
        let named = nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty());
        Columns { by_address, by_name: named.map(|(at, node)| (node.name.clone(), at)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;

    fn node(number: usize) -> Node {
        Node {
            name: format!("node-{number:04}.eu.internal"),
            address: Some(IpAddr::from([10, 1, (number / 256) as u8, (number % 256) as u8])),
            zone: "".into(),
            cordoned: false,
            own: number == 0,
            problem: None,
            only_bad: false,
        }
    }

    /// A thousand nodes each probe 32 others: the node with losses is shown and named.
    #[test]
    fn of_a_large_mesh_those_with_trouble_are_shown() {
        let edge = |from: usize, step: usize| {
            let to = (from + step) % 1000;
            let loss_permille = if from == 777 { 120 } else { 0 };
            Edge { from: from as u16, to: to as u16, cell: Sight::by(Protocol::Icmp, loss_permille, Some(200)) }
        };
        let edges: Vec<Edge> = (0..1000).flat_map(|from| (1..=32).map(move |step| edge(from, step))).collect();
        let edges = Edges { all: edges, well: vec![Well::default(); 1000], more_bad: 0 };
        let picture = Picture::of((0..1000).map(node).collect(), edges, 3);
        assert_eq!((picture.nodes.len(), picture.left_out, picture.told), (200, 803, 1000));
        assert_eq!(picture.cells.len(), 200 * 200);
        assert!(picture.nodes.iter().any(|node| node.name.starts_with("node-0777")));
        assert!(picture.nodes.iter().any(|node| node.own), "this canary is always there");
        assert_eq!(picture.ending, ".eu.internal");
        assert_eq!(picture.verdict.says, ["node-0777's outgoing side loses 12 %."]);
        assert_eq!(picture.cells.iter().flatten().filter(|cell| cell.loss_permille() > 0).count(), 32);
    }

    /// Five hundred nodes that all probe each other have more pairs than are stored.
    #[test]
    fn a_node_whose_good_pairs_are_not_remembered_is_not_cut_off() {
        let nodes: Vec<Node> = (0..500).map(node).collect();
        let columns = Columns::of(&nodes);
        let mut edges = Edges::of(nodes.len());
        for row in 0..500 {
            let bad = |column: usize| (row == 498 && column == 499) || column == 300;
            let cell = |column| Sight::by(Protocol::Icmp, if bad(column) { 1000 } else { 0 }, Some(200));
            let seen = nodes.iter().enumerate().filter(|(column, _)| *column != row);
            edges.add(row, &columns, seen.map(|(column, node)| (node.address.unwrap(), &*node.name, cell(column))));
        }
        assert!(edges.all.len() < 500 * 499 && edges.all.len() >= MOST_EDGES);
        let picture = Picture::of(nodes, edges, 0);
        assert_eq!(picture.verdict.says, ["Nobody reaches node-0300.", "node-0498 does not reach node-0499."]);
        let whole = |name: &str| !picture.nodes.iter().find(|node| node.name.starts_with(name)).unwrap().only_bad;
        assert!(whole("node-0000") && !whole("node-0498"));
        let pairs = picture.cells.iter().flatten();
        assert_eq!(pairs.filter(|cell| cell.loss_permille() > 0).count(), 200, "199 of node 300, and one");
    }

    /// Five hundred nodes, of which none reaches any other: more bad pairs than are stored, and no node is well.
    #[test]
    fn bad_pairs_that_are_not_remembered_are_counted_as_bad() {
        let nodes: Vec<Node> = (0..500).map(node).collect();
        let columns = Columns::of(&nodes);
        let mut edges = Edges::of(nodes.len());
        for row in 0..500 {
            let down = Sight::by(Protocol::Icmp, 1000, None);
            let others = nodes.iter().enumerate().filter(|(column, _)| *column != row);
            edges.add(row, &columns, others.map(|(_, node)| (node.address.unwrap(), &*node.name, down)));
        }
        assert_eq!(edges.all.len() + edges.more_bad, 500 * 499);
        let picture = Picture::of(nodes, edges, 0);
        let all =
            "249500 of 249500 paths have no answer, lose probes or are slow: more than single nodes or links explain.";
        assert_eq!(picture.verdict.says, [all]);
        assert!(!picture.verdict.ok);
    }
}
