//! Peers from a file: one a line, `ADDRESS [NODE [ZONE]]`, `#` begins a comment. In: a path. Out: peers, again whenever the
//! file changes.
//!
//! The file is looked at every two to three seconds rather than watched: a ConfigMap is changed by swapping a link two
//! levels up, which a watch of the file itself does not see, and a `stat` costs a tenth of a probe. It is looked at when
//! the prober is awake, at every other of its beats: without a prober, never.

use std::collections::HashMap;
use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::own::{self, Own};
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
    state: State,
}

/// What changes when the file does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Missing(String),
    /// The time of its contents can be set, and that of the file itself is of its rights too.
    There {
        inode: u64,
        size: u64,
        written: (i64, i64),
        changed: (i64, i64),
    },
}

/// Why a file gives no peers.
enum Problem {
    /// It could not be read, and may be read the next time though it did not change: a disk, no descriptors.
    Unread(String),
    /// What is in it, or what it is.
    Wrong(String),
}

impl PeersFile {
    /// Reads the file, and gives the peers in it; at the start it must be there and whole.
    pub fn open(path: &Path) -> Result<(Self, Vec<Peer>)> {
        let state = State::of(path);
        let peers = read(path).map_err(|problem| Error::PeersFile { path: path.into(), problem: problem.text() })?;
        Ok((PeersFile { path: path.into(), state }, peers))
    }

    /// Reads the file again whenever it changes.
    pub async fn watch(mut self, own: Own, mesh: Shared) {
        loop {
            mesh.beats(LOOK).await;
            let state = State::of(&self.path);
            if state == self.state {
                continue;
            }
            let unknown = |error| Problem::Unread(format!("{}: {error}", own::ASKING));
            let read = read(&self.path).and_then(|peers| own.none_of("file", peers).map_err(unknown));
            // One that is missing will look different once it is there.
            if !matches!((&read, &state), (Err(Problem::Unread(_)), State::There { .. })) {
                self.state = state;
            }
            match read {
                Ok(peers) => super::succeed(&mesh, "file", peers),
                Err(problem) => super::fail(&mesh, "file", format!("{}: {}", self.path.display(), problem.text())),
            }
        }
    }
}

impl State {
    fn of(path: &Path) -> State {
        match fs::metadata(path) {
            Ok(found) => {
                let (written, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
                State::There { inode: found.ino(), size: found.size(), written, changed }
            }
            Err(error) => State::Missing(error.to_string()),
        }
    }
}

impl Problem {
    fn of(error: io::Error) -> Problem {
        match error.kind() {
            ErrorKind::InvalidData => Problem::Wrong(error.to_string()),
            _ => Problem::Unread(error.to_string()),
        }
    }

    fn text(self) -> String {
        match self {
            Problem::Unread(text) | Problem::Wrong(text) => text,
        }
    }
}

fn read(path: &Path) -> std::result::Result<Vec<Peer>, Problem> {
    // To open a FIFO waits for somebody who writes, and this thread is the only one: with this flag it does not.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(Problem::of)?;
    let kind = file.metadata().map_err(Problem::of)?.file_type();
    if !kind.is_file() {
        return Err(Problem::Wrong(format!("wanted a regular file, found {}", named(kind))));
    }
    let mut text = String::new();
    // Not by its size, which a file of /proc says is 0 and which others write may rise meanwhile.
    let size = file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(Problem::of)?;
    if size as u64 > MOST_BYTES {
        return Err(Problem::Wrong(format!("wanted at most {MOST_BYTES} bytes, found more")));
    }
    parse(&text).map_err(Problem::Wrong)
}

fn named(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ => "a device",
    }
}

/// The peers of a text. A line that names none makes the whole text invalid: most files that are half written end in such
/// a line, and would otherwise look as if nodes had gone. One that is cut at the end of a line, or within a name, is read as
/// it is: `--grace` keeps the series until the rest is there.
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
        peer::check(address).map_err(wrong)?;
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
#[path = "file_test.rs"]
mod tests;
