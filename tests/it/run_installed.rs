//! `allocanary run` with the allocators that the host has as libraries: Debian's jemalloc, which its redis-server brings.

use std::fs;

use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::support::{allocanary, samples, words};

/// It waits without another program: one that was just started may not have loaded its libraries.
const SERVICE: [&str; 3] = ["sh", "-c", "rm -f wait; mkfifo wait; exec 3<>wait; echo ready; read -r line <&3"];

#[test]
fn a_library_of_the_host_is_a_candidate_by_its_name_and_version() {
    let folder = tempdir().unwrap();
    let run = |candidates: &str| {
        let flags =
            format!("run --ready line:ready --settle 1ms --repeats 1 --out-dir out --candidates {candidates} --");
        allocanary(folder.path(), words(&flags).into_iter().chain(SERVICE).collect::<Vec<_>>())
    };
    let list = allocanary(folder.path(), words("list allocators"));
    let name = list.out.split_whitespace().find(|word| word.starts_with("jemalloc@") && !word.ends_with(','));
    let Some(name) = name else { return skipped("no libjemalloc.so.2, which Debian's redis-server brings") };

    let ran = run(&format!("own {name}:narenas=1"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    let row = rows.iter().find(|row| row.cell.candidate.to_string().starts_with("jemalloc@")).unwrap();
    let answer = row.measured.as_ref().unwrap();
    let (_, version) = name.split_once('@').unwrap();
    assert!(answer.version.starts_with(version), "{}", answer.version);
    assert_eq!(answer.environment["MALLOC_CONF"], "narenas:1");
    assert!(answer.environment["LD_PRELOAD"].ends_with("libjemalloc.so.2"), "{:?}", answer.environment);
    // Its settings were read in the process.
    assert!(answer.unproven.is_empty() && answer.found["narenas"] == "1", "{answer:?}");
    assert!(!answer.environment.contains_key("ALLOCANARY_PROVE"), "{:?}", answer.environment);

    let ran = run("own jemalloc@5.2.99");
    let said = format!("no candidate `jemalloc@5.2.99`; perhaps {name}");
    assert!(ran.code == Some(2) && ran.err.contains(&said), "{ran:?}");
    let ran = run(&format!("own {name}:no_such=1"));
    assert!(ran.code == Some(2) && ran.err.contains("has no setting `no_such`"), "{ran:?}");
}

#[test]
fn a_library_of_another_architecture_is_refused_by_name() {
    let folder = tempdir().unwrap();
    let mut head = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x03\0".to_vec();
    head.resize(64, 0);
    fs::write(folder.path().join("libx.so"), head).unwrap();
    fs::write(folder.path().join("text.so"), "no library\n").unwrap();
    for (file, said) in
        [("libx.so", "a library for i386, wanted one for"), ("text.so", "wanted a shared library (ELF)")]
    {
        let ran = allocanary(folder.path(), words(&format!("run --candidates own preload=./{file} -- true")));
        let named = format!("candidate `preload=./{file}`: ./{file}: {said}");
        assert!(ran.code == Some(2) && ran.err.contains(&named), "{ran:?}");
    }
}
