//! Peers files that are missing, half written, written again, or not regular files.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;
use crate::histogram::Bounds;
use crate::mesh::Mesh;
use allocanary_testing::fuzz::holds;

#[test]
fn addresses_names_and_comments_are_read() {
    let peers = parse("# nodes\n10.0.0.1 node-1 zone-a # the first\n\nfd00::2\tnode-2\n10.0.0.1\n10.0.0.3\n").unwrap();
    let shown: Vec<String> = peers.iter().map(|p| format!("{} {} {}", p.address, p.node, p.zone)).collect();
    assert_eq!(shown, ["10.0.0.1 node-1 zone-a", "fd00::2 node-2 ", "10.0.0.3  "]);
}

#[test]
fn what_is_no_peer_is_named_with_its_line() {
    for (text, said) in [
        ("10.0.0.1\n10.0.0", "line 2: wanted `ADDRESS [NODE [ZONE]]`, found `10.0.0`"),
        ("10.0.0.1 a b c", "line 1: wanted at most an address, a node and a zone"),
        ("# nothing\n", "wanted at least one peer"),
        ("10.0.0.1\n0.0.0.0 a", "line 2: wanted the address of one host, not of none, found `0.0.0.0 a`"),
        (":: a", "not of none"),
        ("255.255.255.255", "not of all"),
        ("224.0.0.1", "multicast"),
        ("ff02::1 a", "multicast"),
    ] {
        let problem = parse(text).unwrap_err();
        assert!(problem.contains(said), "{problem}");
    }
}

/// Wakes the prober as often as needed for a check of the file.
async fn look(mesh: &Shared) {
    for _ in 0..LOOK {
        tokio::task::yield_now().await;
        mesh.beat();
    }
    tokio::task::yield_now().await;
}

#[test]
fn a_file_that_vanishes_or_is_half_written_takes_no_peer_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    fs::write(&path, "10.0.0.1 a\n10.0.0.2 b\n").unwrap();
    let mesh = Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "a"));
    let (file, peers) = PeersFile::open(&path).unwrap();
    mesh.lock().update("file", peers, 0);
    // The probed peers, the numbers of successful and failed reads of the file, and its present problem.
    let state = || {
        let mesh = mesh.lock();
        let probed = mesh.entries().filter(|(_, entry)| entry.probed());
        let mut nodes: Vec<String> = probed.map(|(_, entry)| entry.peer.node.to_string()).collect();
        nodes.sort();
        let tally = mesh.tallies.sources.get("file").cloned().unwrap_or_default();
        (nodes.concat(), tally.succeeded, tally.failed, tally.problem.unwrap_or_default())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        tokio::spawn(file.watch(Own { addresses: Vec::new(), probed: false }, mesh.clone()));
        look(&mesh).await;
        assert_eq!(state(), ("ab".into(), 0, 0, String::new()), "as it was read at the start");
        fs::remove_file(&path).unwrap();
        look(&mesh).await;
        let (nodes, _, failed, problem) = state();
        assert_eq!((&*nodes, failed), ("ab", 1));
        assert!(problem.contains("No such file") && problem.contains(&*path.to_string_lossy()), "{problem}");
        look(&mesh).await;
        assert_eq!(state().2, 1, "what is missing still is no news");
        fs::write(&path, "10.0.0.1 a\n10.0.").unwrap();
        look(&mesh).await;
        let (nodes, _, failed, problem) = state();
        assert_eq!((&*nodes, failed), ("ab", 2));
        assert!(problem.contains("line 2") && problem.contains("`10.0.`"), "{problem}");
        fs::write(&path, "").unwrap();
        look(&mesh).await;
        assert_eq!((&*state().0, state().2), ("ab", 3));
        fs::write(&path, "10.0.0.1 a\n10.0.0.3 c\n").unwrap();
        look(&mesh).await;
        assert_eq!(state(), ("ac".into(), 1, 3, String::new()));
    });
}

#[test]
fn what_could_not_be_read_is_read_again_though_it_does_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    fs::write(&path, "10.0.0.1 a\n").unwrap();
    let mesh = Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "a"));
    let (file, _) = PeersFile::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    // A regular file whose first byte cannot be read: a read error, like that of a disk.
    std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
    let failed = || mesh.lock().tallies.sources.get("file").map_or(0, |tally| tally.failed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        tokio::spawn(file.watch(Own { addresses: Vec::new(), probed: false }, mesh.clone()));
        for looks in 1..=3 {
            look(&mesh).await;
            assert_eq!(failed(), looks);
        }
    });
}

#[test]
fn a_file_that_may_be_read_again_has_changed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let before = State::of(file.path());
    let mode = |bits| fs::set_permissions(file.path(), fs::Permissions::from_mode(bits)).unwrap();
    // The kernel records the time of a change in ticks, at least a hundred a second.
    let changed = (0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        mode(0o640);
        State::of(file.path()) != before
    });
    assert!(changed, "{before:?}");
}

#[test]
fn a_file_without_an_end_is_read_to_the_bound_and_no_further() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // The second size is more than the machine's memory.
    for size in [MOST_BYTES + 1, 1 << 40] {
        file.as_file().set_len(size).unwrap();
        let problem = read(file.path()).err().map(Problem::text).unwrap_or_default();
        assert!(problem.contains("wanted at most 4194304 bytes"), "{size}: {problem}");
    }
    fs::write(file.path(), "#".repeat(MOST_BYTES as usize - 9) + "\n10.0.0.1").unwrap();
    assert_eq!(read(file.path()).map_err(Problem::text).unwrap().len(), 1);
}

#[test]
fn fuzz_no_text_makes_it_panic() {
    let near = "([0-9a-f.:]{0,12}[ \t#\n]{0,2}){0,20}";
    holds(256, 16, prop_oneof!["\\PC{0,100}", near], |text| drop(parse(&text)));
}

#[test]
fn fuzz_what_is_written_is_read() {
    holds(256, 16, prop::collection::hash_set(any::<u32>(), 1..50), |addresses| {
        let addresses = addresses.into_iter().map(|bits| IpAddr::V4(bits.into()));
        let addresses: Vec<IpAddr> = addresses.filter(|address| peer::check(*address).is_ok()).collect();
        let text: String = addresses.iter().map(|address| format!("{address} n\n")).collect();
        let found = parse(&text).unwrap_or_default();
        assert_eq!(found.iter().map(|peer| peer.address).collect::<Vec<_>>(), addresses);
    });
}
