//! The verdict on the mesh, in words. In: each canary's view of its peers. Out: sentences, the worst first.
//!
//! The rule is that of `deploy/monitoring/rules.yaml`. A pair is down if no protocol answers. Its loss is that of the worst protocol. A
//! node is a bad peer if more than half of its probers, and at least two, find it bad. A node is a bad source if it finds more than half of
//! its peers bad. Any other bad pair is a bad path. Canaries that find all peers bad do not count against a peer, and peers that all
//! canaries find bad do not count against a source.

use std::collections::BTreeMap;

use serde::Serialize;

use super::brief::{self, Sight};

/// One lost probe of 64 is no fault. Two are a fault.
const BAD_PERMILLE: u16 = 20;
const SLOW_US: u32 = 100_000;
/// The most sentences. Further ones are only counted.
const MOST_SAID: usize = 8;
/// The most bad pairs without a bad node that get separate sentences. If there are more, one sentence counts all bad
/// paths.
const MOST_PAIRS: usize = 20;

/// One node's view of another, by their indices among the nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) cell: Sight,
}

/// How bad a pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Slow,
    Loss,
    Down,
}

impl Edge {
    fn fault(&self) -> Option<Fault> {
        match (self.cell.loss_permille(), self.cell.p50_us) {
            _ if self.cell.is_down() => Some(Fault::Down),
            (BAD_PERMILLE.., _) => Some(Fault::Loss),
            (_, Some(SLOW_US..)) => Some(Fault::Slow),
            _ => None,
        }
    }

    /// Whether the pair could raise an alert.
    pub(super) fn is_bad(&self) -> bool {
        self.fault().is_some()
    }
}

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Health {
    /// Nothing is bad.
    pub(super) ok: bool,
    /// Sentences, the worst first.
    pub(super) says: Vec<String>,
}

/// The bad pairs and all pairs of a node, either as the probing or as the probed node.
#[derive(Clone, Copy, Default)]
struct Side {
    all: u32,
    bad: u32,
    /// The bad pairs, except those whose other node has only bad pairs on its side.
    told: u32,
    permille: u32,
    /// The protocols that lose, one bit each.
    protocols: u8,
    /// Whether a bad pair loses by all its protocols.
    by_all: bool,
    slowest_us: u32,
}

impl Side {
    fn is_bad(&self) -> bool {
        self.bad >= 2 && self.bad * 2 > self.all && self.told > 0
    }

    fn is_all(&self) -> bool {
        self.bad == self.all
    }
}

/// The number of a node's good pairs that are not stored: as the probing node, and as the probed node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Well {
    pub(super) from: u32,
    pub(super) to: u32,
}

/// The verdict. `names` are the names of the nodes. `edges` are the known pairs. They lack good pairs, which `well` counts for each node,
/// and bad pairs, which `more_bad` counts.
pub(super) fn verdict(names: &[&str], edges: &[Edge], well: &[Well], more_bad: usize) -> Health {
    let all = edges.len() + more_bad + well.iter().map(|well| well.from as usize).sum::<usize>();
    if all == 0 {
        return Health { ok: true, says: vec!["Nobody has told yet what it sees.".into()] };
    }
    if more_bad > 0 {
        let bad = more_bad + edges.iter().filter(|edge| edge.is_bad()).count();
        let what = "have no answer, lose probes or are slow";
        let says = format!("{bad} of {all} paths {what}: more than single nodes or links explain.");
        return Health { ok: false, says: vec![says] };
    }
    let mut findings: Vec<(Fault, u32, String)> = Vec::new();
    for fault in [Fault::Down, Fault::Loss, Fault::Slow] {
        of_fault(fault, names, edges, well, &mut findings);
    }
    if findings.is_empty() {
        let lost = edges.iter().map(|edge| u64::from(edge.cell.loss_permille())).sum::<u64>();
        let lost = if lost == 0 { "nothing is lost".into() } else { format!("{} lost", share(lost, all as u64)) };
        let says = format!("All is well: of {all} paths each answers, {lost}.");
        return Health { ok: true, says: vec![says] };
    }
    findings.sort_by(|(one, weight, _), (other, than, _)| (other, than).cmp(&(one, weight)));
    let more = findings.len().saturating_sub(MOST_SAID);
    let mut says: Vec<String> = findings.into_iter().take(MOST_SAID).map(|(.., text)| text).collect();
    if more > 0 {
        says.push(format!("And {more} more."));
    }
    Health { ok: false, says }
}

fn of_fault(fault: Fault, names: &[&str], edges: &[Edge], well: &[Well], findings: &mut Vec<(Fault, u32, String)>) {
    // A pair that is down does not count as lossy or slow as well, but it counts among all pairs.
    let is_bad = |edge: &&Edge| edge.fault() == Some(fault);
    if !edges.iter().any(|edge| is_bad(&edge)) {
        return;
    }
    let mut out = vec![Side::default(); names.len()];
    let mut into = out.clone();
    for (at, well) in well.iter().enumerate() {
        out[at].all = well.from;
        into[at].all = well.to;
    }
    for edge in edges {
        for side in [&mut out[usize::from(edge.from)], &mut into[usize::from(edge.to)]] {
            side.all += 1;
            if is_bad(&edge) {
                side.bad += 1;
                side.permille += u32::from(edge.cell.loss_permille());
                let protocols = edge.cell.protocols_from(BAD_PERMILLE);
                side.protocols |= protocols;
                side.by_all |= protocols == 0;
                side.slowest_us = side.slowest_us.max(edge.cell.p50_us.unwrap_or(0));
            }
        }
    }
    for edge in edges.iter().filter(is_bad) {
        let (from, to) = (usize::from(edge.from), usize::from(edge.to));
        out[from].told += u32::from(!into[to].is_all());
        into[to].told += u32::from(!out[from].is_all());
    }
    let bad_nodes = (0..names.len()).filter(|at| out[*at].is_bad() || into[*at].is_bad()).count();
    let mut pairs: BTreeMap<(u16, u16), [Option<Sight>; 2]> = BTreeMap::new();
    for edge in edges.iter().filter(is_bad) {
        if !out[usize::from(edge.from)].is_bad() && !into[usize::from(edge.to)].is_bad() {
            let forward = edge.from < edge.to;
            let pair = if forward { (edge.from, edge.to) } else { (edge.to, edge.from) };
            pairs.entry(pair).or_default()[usize::from(!forward)] = Some(edge.cell);
        }
    }
    let bad = edges.iter().filter(is_bad).count();
    if bad_nodes * 2 > names.len() || pairs.len() > MOST_PAIRS {
        let what = match fault {
            Fault::Down => "have no answer",
            Fault::Loss => "lose probes",
            Fault::Slow => "are slow",
        };
        let all = out.iter().map(|side| side.all).sum::<u32>();
        let text = format!("{bad} of {all} paths {what}: more than single nodes or links explain.");
        return findings.push((fault, u32::MAX, text));
    }
    for (at, name) in names.iter().enumerate() {
        let (source, peer) = (out[at].is_bad(), into[at].is_bad());
        if source || peer {
            let side = if source { out[at] } else { into[at] };
            findings.push((fault, side.bad, node(fault, name, (source, peer), (&out[at], &into[at]))));
        }
    }
    for ((one, other), ways) in pairs {
        findings.push((fault, 1, pair(fault, names[usize::from(one)], names[usize::from(other)], ways)));
    }
}

/// A fault of one node: as the probing node, as the probed node, or both.
fn node(fault: Fault, name: &str, (source, peer): (bool, bool), (out, into): (&Side, &Side)) -> String {
    let loss = |side: &Side| {
        let protocols = if side.by_all { 0 } else { side.protocols };
        share(side.permille.into(), side.bad.into()) + &of_protocols(protocols)
    };
    let slow = |side: &Side| time(side.slowest_us);
    match (fault, source, peer) {
        (Fault::Down, true, true) => {
            format!("{name} is cut off: {}, and {} it.", reach("it reaches", out), reached(into))
        }
        (Fault::Down, true, _) => format!("{name} {}; others reach it.", reach("reaches", out)),
        (Fault::Down, ..) => format!("{} {name}.", capital(&reached(into))),
        (Fault::Loss, true, true) => format!("{name} loses {} both ways.", loss(out)),
        (Fault::Loss, true, _) => format!("{name}'s outgoing side loses {}.", loss(out)),
        (Fault::Loss, ..) => format!("{name}'s incoming side loses {}.", loss(into)),
        (Fault::Slow, true, true) => format!("{name} is slow both ways: up to {} at the median.", slow(out)),
        (Fault::Slow, true, _) => format!("{name} gets its answers slowly, whoever is asked: up to {}.", slow(out)),
        (Fault::Slow, ..) => format!("{name} answers slowly, whoever asks: up to {}.", slow(into)),
    }
}

fn reach(begin: &str, side: &Side) -> String {
    match side.is_all() {
        true => format!("{begin} nobody"),
        false => format!("{begin} {} of its {} peers", side.all - side.bad, side.all),
    }
}

fn reached(side: &Side) -> String {
    match side.is_all() {
        true => "nobody reaches".into(),
        false => format!("{} of {} canaries do not reach", side.bad, side.all),
    }
}

/// A fault of a link, in one direction or both.
fn pair(fault: Fault, one: &str, other: &str, ways: [Option<Sight>; 2]) -> String {
    let (from, to) = if ways[0].is_some() { (one, other) } else { (other, one) };
    let both = ways[0].is_some() && ways[1].is_some();
    let worst = |of: fn(&Sight) -> u32| ways.iter().flatten().map(of).max().unwrap_or(0);
    let lost = || {
        let each = || ways.iter().flatten().map(|cell| cell.protocols_from(BAD_PERMILLE));
        let protocols = if each().any(|one| one == 0) { 0 } else { each().fold(0, |all, one| all | one) };
        share(u64::from(worst(|cell| cell.loss_permille().into())), 1) + &of_protocols(protocols)
    };
    let slowest = || time(worst(|cell| cell.p50_us.unwrap_or(0)));
    match fault {
        Fault::Down if both => format!("{one} and {other} do not reach each other."),
        Fault::Down => format!("{from} does not reach {to}."),
        Fault::Loss if both => format!("Between {one} and {other} {} is lost both ways.", lost()),
        Fault::Loss => format!("From {from} to {to} {} is lost.", lost()),
        Fault::Slow if both => format!("Between {one} and {other} a round trip takes {}.", slowest()),
        Fault::Slow => format!("From {from} to {to} a round trip takes {}.", slowest()),
    }
}

/// The text ` of udp and http`. It is empty if the protocol is not the cause.
fn of_protocols(protocols: u8) -> String {
    if protocols == 0 { String::new() } else { format!(" of {}", brief::names(protocols)) }
}

/// The mean of `of` shares, as a text. `permille` is their sum, in thousandths.
fn share(permille: u64, of: u64) -> String {
    let percent = permille as f64 / of.max(1) as f64 / 10.0;
    if percent < 9.5 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn time(us: u32) -> String {
    format!("{} ms", us / 1000)
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The common ending of all names, from a dot on, such as the domain of a cloud's nodes.
pub(super) fn ending<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, rest)) = names.split_first().filter(|(_, rest)| !rest.is_empty()) else { return "" };
    if first.parse::<std::net::IpAddr>().is_ok() {
        return "";
    }
    let dots = first.char_indices().filter(|(at, character)| *at > 0 && *character == '.').map(|(at, _)| at);
    let shared = |end: &&str| rest.iter().all(|name| name.len() > end.len() && name.ends_with(end));
    dots.map(|at| &first[at..]).find(shared).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;

    const NAMES: [&str; 10] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];

    /// The verdict on a mesh of `nodes` nodes that all probe each other. `cell` returns one node's view of another:
    /// loss in thousandths, and microseconds.
    fn says(nodes: usize, cell: impl Fn(usize, usize) -> (u16, u32)) -> Vec<String> {
        says_of(nodes, |from, to| {
            let (loss_permille, us) = cell(from, to);
            Sight::by(Protocol::Icmp, loss_permille, (loss_permille < 1000).then_some(us))
        })
    }

    fn says_of(nodes: usize, cell: impl Fn(usize, usize) -> Sight) -> Vec<String> {
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let edges: Vec<Edge> =
            pairs.map(|(from, to)| Edge { from: from as u16, to: to as u16, cell: cell(from, to) }).collect();
        let told = verdict(&NAMES[..nodes], &edges, &[], 0);
        // The same if only bad pairs are stored.
        let (bad, rest): (Vec<Edge>, Vec<Edge>) = edges.iter().copied().partition(Edge::is_bad);
        let mut well = vec![Well::default(); nodes];
        for edge in rest {
            well[usize::from(edge.from)].from += 1;
            well[usize::from(edge.to)].to += 1;
        }
        if !told.ok {
            assert_eq!(verdict(&NAMES[..nodes], &bad, &well, 0), told);
        }
        assert_eq!(told.ok, !edges.iter().any(Edge::is_bad));
        told.says
    }

    #[test]
    fn it_names_the_side_the_node_and_the_pair() {
        let when = |is: bool, permille| if is { (permille, 200) } else { (0, 200) };
        assert_eq!(says(10, |_, _| (0, 200)), ["All is well: of 90 paths each answers, nothing is lost."]);
        assert_eq!(
            says(10, |from, to| when(from == 3 && to == 4, 9)),
            ["All is well: of 90 paths each answers, 0.0 % lost."]
        );
        assert_eq!(says(10, |from, _| when(from == 3, 120)), ["n3's outgoing side loses 12 %."]);
        assert_eq!(says(10, |_, to| when(to == 3, 25)), ["n3's incoming side loses 2.5 %."]);
        assert_eq!(says(10, |from, to| when(from == 3 || to == 3, 120)), ["n3 loses 12 % both ways."]);
        assert_eq!(says(10, |from, _| when(from == 0, 1000)), ["n0 reaches nobody; others reach it."]);
        assert_eq!(
            says(10, |from, to| when(from == 0 && to != 1, 1000)),
            ["n0 reaches 1 of its 9 peers; others reach it."]
        );
        assert_eq!(says(10, |_, to| when(to == 5, 1000)), ["Nobody reaches n5."]);
        assert_eq!(says(10, |from, to| when(to == 5 && from > 1, 1000)), ["7 of 9 canaries do not reach n5."]);
        assert_eq!(
            says(10, |from, to| when(from == 5 || to == 5, 1000)),
            ["n5 is cut off: it reaches nobody, and nobody reaches it."]
        );
        assert_eq!(says(10, |from, to| when(from == 0 && to == 1, 1000)), ["n0 does not reach n1."]);
        assert_eq!(says(10, |from, to| when(from + to == 1, 1000)), ["n0 and n1 do not reach each other."]);
        assert_eq!(says(2, |from, _| when(from == 1, 1000)), ["n1 does not reach n0."], "of two nobody is to blame");
        assert_eq!(says(10, |from, to| when(from == 2 && to == 1, 50)), ["From n2 to n1 5.0 % is lost."]);
        assert_eq!(
            says(10, |from, _| (0, if from == 3 { 250_000 } else { 200 })),
            ["n3 gets its answers slowly, whoever is asked: up to 250 ms."]
        );
    }

    #[test]
    fn a_protocol_that_fails_beside_others_that_answer_is_a_fault_and_is_named() {
        let well = Sight::by(Protocol::Icmp, 0, Some(200)).and(Protocol::Udp, 0);
        let udp = |is: bool, permille| if is { well.and(Protocol::Udp, permille) } else { well };
        assert_eq!(says_of(3, |from, to| udp((from, to) == (0, 1), 1000)), ["From n0 to n1 100 % of udp is lost."]);
        assert_eq!(says_of(10, |_, to| udp(to == 3, 330)), ["n3's incoming side loses 33 % of udp."]);
        let refuses = well.and(Protocol::Udp, 1000).and(Protocol::Tcp, 1000).and(Protocol::Http, 1000);
        assert_eq!(
            says_of(10, |_, to| if to == 3 { refuses } else { well }),
            ["n3's incoming side loses 100 % of udp, tcp and http."]
        );
        let both = well.and(Protocol::Icmp, 330).and(Protocol::Udp, 330);
        assert_eq!(says_of(10, |_, to| if to == 3 { both } else { well }), ["n3's incoming side loses 33 %."]);
    }

    #[test]
    fn the_worst_is_first_and_a_split_is_told_once() {
        let two = says(10, |from, to| match (from, to) {
            (3, _) => (120, 200),
            (7, 8) => (1000, 0),
            _ => (0, 200),
        });
        assert_eq!(two, ["n7 does not reach n8.", "n3's outgoing side loses 12 %."]);
        let halves = says(10, |from, to| if from % 2 == to % 2 { (0, 200) } else { (1000, 0) });
        assert_eq!(halves, ["50 of 90 paths have no answer: more than single nodes or links explain."]);
    }

    #[test]
    fn names_lose_the_ending_that_all_have() {
        assert_eq!(ending(&["a.eu.internal", "b.eu.internal"]), ".eu.internal");
        assert_eq!(ending(&["a.eu.internal", "b.us.internal"]), ".internal");
        assert_eq!(ending(&["a.x", "x"]), "");
        assert_eq!(ending(&["a.x"]), "", "one alone has no ending of all");
        assert_eq!(ending(&["10.0.0.1", "10.1.0.1"]), "");
    }
}
