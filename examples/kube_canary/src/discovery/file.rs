//! Peers from a file: one a line, `ADDRESS [NODE [ZONE]]`, `#` begins a comment. In: a path. Out: peers, again whenever the
//! file changes.
//!
//! The file is looked at every two to three seconds rather than watched: a ConfigMap is changed by swapping a link two levels up, which a
//! watch of the file itself does not see, and a `stat` costs a tenth of a probe. It is looked at when the prober is
//! awake, at every other of its beats: without a prober, never.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::mesh::Shared;
use crate::peer::{self, Peer};

/// Beats of the prober between two looks.
const LOOK: u32 = 2;
/// More lines than that are no list of nodes.
const MOST_PEERS: usize = 10_000;
const MOST_BYTES: u64 = 4 << 20;

/// A file that was read well once.
pub struct PeersFile {
    path: PathBuf,
    peers: Vec<Peer>,
    state: State,
}

/// What changes when the file does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Missing(String),
    There { inode: u64, size: u64, changed: (i64, i64) },
}

impl PeersFile {
    /// Reads the file; at the start it must be there and whole.
    pub fn open(path: &Path) -> Result<Self> {
        let state = State::of(path);
        let peers = read(path).map_err(|problem| Error::PeersFile { path: path.into(), problem })?;
        Ok(PeersFile { path: path.into(), peers, state })
    }

    /// The peers in it.
    pub fn peers(&self) -> Vec<Peer> {
        self.peers.clone()
    }

    /// Reads the file again whenever it changes.
    pub async fn watch(mut self, mesh: Shared) {
        loop {
            mesh.beats(LOOK).await;
            let state = State::of(&self.path);
            if state == self.state {
                continue;
            }
            self.state = state;
            match read(&self.path) {
                Ok(peers) => super::succeed(&mesh, "file", peers),
                Err(problem) => super::fail(&mesh, "file", format!("{}: {problem}", self.path.display())),
            }
        }
    }
}

impl State {
    fn of(path: &Path) -> State {
        match fs::metadata(path) {
            Ok(found) => {
                State::There { inode: found.ino(), size: found.size(), changed: (found.mtime(), found.mtime_nsec()) }
            }
            Err(error) => State::Missing(error.to_string()),
        }
    }
}

fn read(path: &Path) -> std::result::Result<Vec<Peer>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("wanted at most {MOST_BYTES} bytes, found {size}"));
    }
    parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
}

/// The peers of a text. A line that names none makes the whole text invalid: a file that is half written would otherwise
/// look as if nodes had gone.
pub fn parse(text: &str) -> std::result::Result<Vec<Peer>, String> {
    let mut peers: Vec<Peer> = Vec::new();
    let mut places: HashMap<IpAddr, usize> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else { continue };
        let wrong = |what: &str| format!("line {}: {what}, found `{}`", number + 1, shortened(line.trim()));
        let address: IpAddr = address.parse().map_err(|_| wrong("wanted `ADDRESS [NODE [ZONE]]`"))?;
        let address = address.to_canonical();
        let (node, zone) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if words.next().is_some() {
            return Err(wrong("wanted at most an address, a node and a zone"));
        }
        if [node, zone].iter().any(|name| name.len() > 253) {
            return Err(wrong("wanted names of at most 253 bytes"));
        }
        let peer = Peer { zone: zone.into(), ..Peer::on(address, node) };
        match places.get(&address) {
            // Twice is once; the line that knows more wins.
            Some(place) if peers[*place].node.is_empty() => peers[*place] = peer,
            Some(_) => {}
            None if peers.len() == MOST_PEERS => return Err(wrong(&format!("wanted at most {MOST_PEERS} peers"))),
            None => {
        peer::check(address).map_err(wrong)?;
                places.insert(address, peers.len());
                peers.push(peer);
            }
        }
    }
    // A file that is truncated before it is written anew is empty for a moment.
    if peers.is_empty() { Err("wanted at least one peer, found none".into()) } else { Ok(peers) }
}

fn shortened(line: &str) -> &str {
    match line.char_indices().nth(60) {
        Some((end, _)) => &line[..end],
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_names_and_comments_are_read() {
        let peers =
            parse("# nodes\n10.0.0.1 node-1 zone-a # the first\n\nfd00::2\tnode-2\n10.0.0.1\n10.0.0.3\n").unwrap();
        let shown: Vec<String> = peers.iter().map(|p| format!("{} {} {}", p.address, p.node, p.zone)).collect();
        assert_eq!(shown, ["10.0.0.1 node-1 zone-a", "fd00::2 node-2 ", "10.0.0.3  "]);
    }

    #[test]
    fn what_is_no_peer_is_named_with_its_line() {
        for (text, said) in [
            ("10.0.0.1\n10.0.0", "line 2: wanted `ADDRESS [NODE [ZONE]]`, found `10.0.0`"),
            ("10.0.0.1 a b c", "line 1: wanted at most an address, a node and a zone"),
            ("# nothing\n", "wanted at least one peer"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read(addresses in prop::collection::hash_set(any::<u32>(), 1..50)) {
            let addresses: Vec<IpAddr> =
                addresses.into_iter().map(|bits| IpAddr::V4(bits.into())).collect();
            let text: String = addresses.iter().map(|address| format!("{address} n\n")).collect();
            ("10.0.0.1\n0.0.0.0 a", "line 2: wanted the address of one host, not of none, found `0.0.0.0 a`"),
            (":: a", "not of none"),
            ("255.255.255.255", "not of all"),
            ("224.0.0.1", "multicast"),
            ("ff02::1 a", "multicast"),
            let found: Vec<IpAddr> = parse(&text).unwrap().iter().map(|peer| peer.address).collect();
            prop_assert_eq!(found, addresses);
        }
    }
}
