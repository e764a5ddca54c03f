//! Peers from a file. Each line is `ADDRESS [NODE [ZONE]]`, and `#` begins a comment. In: a path. Out: peers, again whenever the file
//! changes.
//!
//! The file is not watched, but checked every two to three seconds. A ConfigMap is changed by swapping a link two levels up, which a watch
//! of the file does not see, and a `stat` costs a tenth of a probe. The check takes place at every second beat of the prober, when it is
//! awake anyway. Without a prober there is no check.

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

/// Beats of the prober between two checks.
const LOOK: u32 = 2;
/// A file with more peers than this is not a list of nodes.
const MOST_PEERS: usize = 10_000;
const MOST_BYTES: u64 = 4 << 20;

/// A peers file that was read successfully once.
pub struct PeersFile {
    path: PathBuf,
    state: State,
}

/// Values that change when the file changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Missing(String),
    /// Both times are used: the time of the contents can be set by hand, and the time of the inode also changes with
    /// the file's mode.
    There {
        inode: u64,
        size: u64,
        written: (i64, i64),
        changed: (i64, i64),
    },
}

/// The reason why a file gives no peers.
enum Problem {
    /// It could not be read, because of the disk or because no descriptor was free. The next attempt may succeed
    /// although the file does not change.
    Unread(String),
    /// The contents or the kind of the file is wrong.
    Wrong(String),
}

impl PeersFile {
    /// Reads the file, and returns its peers. At the start the file must exist and be valid.
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
            // A missing file has another state once it exists.
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
    // Opening a FIFO waits for a writer, and would block the only thread. With this flag it does not wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(Problem::of)?;
    let kind = file.metadata().map_err(Problem::of)?.file_type();
    if !kind.is_file() {
        return Err(Problem::Wrong(format!("wanted a regular file, found {}", named(kind))));
    }
    let mut text = String::new();
    // The size of the file is not used: for a file of /proc it is 0, and another process may write to the file during
    // the read.
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

/// The peers of a text. A line that names no peer makes the whole text invalid: most half-written files end in such a line,
/// and would otherwise look as if nodes had gone. A file that is cut at the end of a line, or within a name, is accepted:
/// `--grace` keeps the series until the rest is there.
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
            // A peer that is named twice is one peer; the line with a node takes precedence.
            Some(place) if peers[*place].node.is_empty() => peers[*place] = peer,
            Some(_) => {}
            None if peers.len() == MOST_PEERS => return Err(wrong(&format!("wanted at most {MOST_PEERS} peers"))),
            None => {
                places.insert(address, peers.len());
                peers.push(peer);
            }
        }
    }
    // A file that is being written again is empty for a moment.
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
