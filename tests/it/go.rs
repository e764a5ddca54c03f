//! The Go cell of `benches/go`: built where Go is, and studied beside ours. Without Go its test says that it is skipped.

use std::path::Path;
use std::process::Command;

use allocanary_rows::description::Description;
use allocanary_sys::host::Host;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{allocanary, described, samples, words};
use allocanary_testing::skipped::skipped;

#[test]
fn go_is_studied_beside_our_cells_where_go_is() {
    if !Command::new("go").arg("version").finish().is_ok_and(|ran| ran.status.success()) {
        skipped("there is no go here");
        return;
    }
    let folder = tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/go");
    let built = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(folder.path().join("cell-go"))
        .arg(".")
        .current_dir(&sources)
        // Nothing but the standard library is needed, and so no network.
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .finish()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let told = Command::new(folder.path().join("cell-go")).arg("describe").finish().unwrap();
    let go: Description = serde_json::from_slice(&told.stdout).unwrap();
    let ours = described("system").workloads;
    for theirs in go.workloads {
        let ours = ours.iter().find(|ours| ours.name == theirs.name).unwrap();
        assert_eq!((&theirs.grows_with, &theirs.rests), (&ours.grows_with, &ours.rests), "{}", ours.name);
    }
    let list = "study --cells . --threads 2 --repeats 1 --out-dir out --workloads blob:blobs=20 --candidates";
    let candidates = ["system", "go", "go:gogc=400,gomemlimit=64MiB"];
    let ran = allocanary(folder.path(), words(list).into_iter().chain(candidates));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows.len(), 3);
    let system = rows.iter().find(|row| row.cell.allocator == "system").unwrap();
    for row in rows.iter().filter(|row| row.cell.allocator == "go") {
        let (answer, ours) = (row.measured.as_ref().unwrap(), system.measured.as_ref().unwrap());
        assert_eq!((&answer.moments, answer.operations), (&ours.moments, ours.operations));
        assert!(answer.verified > 0 && answer.version.starts_with("go1."), "{answer:?}");
        for reading in
            ["resident_bytes", "peak_resident_bytes", "anonymous_bytes", "vsz_bytes", "minor_faults", "user_us"]
        {
            assert!(answer.readings[reading].iter().all(Option::is_some), "{reading}");
            assert!(ours.readings.contains_key(reading), "{reading}");
        }
        assert_eq!(row.provenance.build.package, "cell-go");
        // Rows of hosts with different cores are never in one table.
        let (host, our_host) = (&row.provenance.host, &system.provenance.host);
        assert_eq!(Host { parallelism: our_host.parallelism, ..host.clone() }, *our_host);
    }
}
