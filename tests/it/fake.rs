//! The whole pipeline over a fake cell: exact numbers without measuring, and every way in which a cell can go wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use allocanary_rows::provenance::Build;
use allocanary_rows::sample::FailureKind::{self, Crashed, Garbage, Late, Setting, Silent};
use allocanary_sys::host::Host;
use tempfile::tempdir;

use super::support::{allocanary, samples, script, study, this_build, words};

/// How the fake can answer, the failure that the row must name, and a text that it must contain.
const MODES: &[(&str, Option<(FailureKind, &str)>)] = &[
    ("good", None),
    ("garbage", Some((Garbage, "\"no JSON at all"))),
    ("torn", Some((Garbage, "the answer is not a sample"))),
    ("signal", Some((Crashed, "killed by signal 11"))),
    ("exit", Some((Crashed, "ended with exit code 3: no luck today"))),
    ("silent", Some((Silent, "exit code 0 and no answer"))),
    ("other", Some((Garbage, "for another cell"))),
    ("uneven", Some((Garbage, "differ in length"))),
    ("panic", Some((Crashed, "exit code 101: thread 'main' panicked at src/x.rs:1:2: | a block was overwritten"))),
    ("deaf", Some((Crashed, "exit code 4"))),
    ("clip", Some((Setting, "size: wanted 9, found 5"))),
    ("nosy", Some((Crashed, "exit code 5: variables of allocators: 0"))),
];

/// Repeat 0, 1 and 2 answer 40, 41 and 42 MiB for 20 MiB that are live.
const RUN: &str = r#"
mode=${FAKE_MODE:-good}
[ $mode = deaf ] && exit 4
cell=$(cat)
repeat=${cell##*\"repeat\":}
rss=$(((40 + ${repeat%%,*}) * 1048576))
live='[0,20971520]'
error=
case $mode in
late) sleep 600 ;;
garbage) echo 'no JSON at all'; exit ;;
torn) echo '{"schema":1,"cell":'; exit ;;
signal) kill -SEGV $$ ;;
exit) echo 'no luck today' >&2; exit 3 ;;
silent) exit ;;
other) cell=$(echo "$cell" | sed 's/"threads":1/"threads":2/') ;;
uneven) live='[0]' ;;
panic) printf "thread 'main' panicked at src/x.rs:1:2:\na block was overwritten\nnote: run with it\n" >&2; exit 101 ;;
clip) error='"error":{"kind":"setting","text":"size: wanted 9, found 5"},' ;;
nosy) echo "variables of allocators: $(env | grep -c -e RJEM -e MIMALLOC -e GLIBC)" >&2; exit 5 ;;
esac
printf '{"schema":1,"cell":%s,"measured":{"version":"1.2","moments":["start","idle"],"requested_bytes":%s,' "$cell" "$live"
printf '"readings":{"resident_bytes":[1048576,%s],"peak_resident_bytes":[1048576,52428800]},' $rss
printf '"operations":1000,"active_ns":500000000,"verified":7},%s"provenance":%s}\n' "$error" "$provenance"
"#;

fn build() -> Build {
    let text = |text: &str| text.to_string();
    Build { package: text("fake"), version: text("1.2"), id: text("0"), ..this_build() }
}

/// Writes `cell-NAME`, an executable that speaks the two verbs.
fn write(folder: &Path, name: &str, build: &Build, protocol: u32) {
    let build_json = serde_json::to_string(build).unwrap();
    let host = serde_json::to_string(&Host::this()).unwrap();
    let modes = MODES.iter().map(|(mode, _)| *mode).chain(["late"]);
    let modes: Vec<String> = modes.map(|mode| format!("\"{mode}\"")).collect();
    let modes = modes.join(",");
    let text = format!(
        r#"#!/bin/sh
if [ "$1" = describe ]; then
cat <<'END'
{{"protocol":{protocol},"build":{build_json},"allocator":"{name}","version":"1.2","effective":{{}},
"settings":[{{"name":"mode","kind":{{"type":"choice","names":[{modes}]}},"about":"how to answer"}}],
"environment":{{"type":"each","prefix":"FAKE_"}},
"workloads":[{{"name":"work","about":"answers","operation":"answer","seconds":0.01}}]}}
END
exit
fi
provenance='{{"build":{build_json},"host":{host}}}'
{RUN}"#
    );
    script(&folder.join(format!("cell-{name}")), &text);
}

/// A folder with `cell-fake`.
pub fn folder() -> tempfile::TempDir {
    let folder = tempdir().unwrap();
    write(folder.path(), "fake", &build(), 1);
    folder
}

#[test]
fn every_way_of_going_wrong_is_a_row_and_the_rest_is_reported() {
    let folder = folder();
    let candidates: Vec<String> = MODES.iter().map(|(mode, _)| format!("fake:mode={mode}")).collect();
    let flags =
        format!("--cells . --workloads work --repeats 3 --run-timeout 10m --candidates {}", candidates.join(" "));
    let flags: Vec<&str> = flags.split(' ').collect();
    let ran = allocanary(folder.path(), ["study", "--threads", "1", "--out-dir", "out"].iter().chain(&flags));
    assert_eq!(ran.code, Some(1), "{ran:?}");

    let rows = samples(&folder.path().join("out"));
    let mut by_mode: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for row in &rows {
        by_mode.entry(&row.cell.settings["mode"]).or_default().push(row);
    }
    for (mode, wanted) in MODES {
        assert_eq!(by_mode[mode].len(), 3, "{mode}");
        for row in &by_mode[mode] {
            match (&row.error, wanted) {
                (None, None) => assert_eq!(row.measured.as_ref().unwrap().verified, 7),
                (Some(found), Some((kind, text))) => {
                    assert_eq!(found.kind, *kind, "{mode}: {found:?}");
                    assert!(found.text.contains(text), "{mode}: {found:?}");
                }
                _ => panic!("{mode}: {row:?}"),
            }
            assert!(row.wall_us > 0 && row.started_ms > 0, "{mode}");
        }
        let named = ran.out.contains(&format!("failed: fake:mode={mode}, work, 1 thread: "));
        assert_eq!(named, wanted.is_some(), "{mode}: {}", ran.out);
    }
    assert!(ran.out.contains("41.0 2.05x"), "{}", ran.out);
    assert_eq!(ran.out.matches("3 failed").count(), MODES.len() - 1, "{}", ran.out);
}

/// In a separate study: on a busy machine a short deadline would end the other cells too.
#[test]
fn a_cell_that_does_not_end_is_killed_at_its_deadline() {
    let folder = folder();
    let ran =
        study(folder.path(), "--cells . --candidates fake:mode=late --workloads work --repeats 1 --run-timeout 200ms");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let [row] = &samples(&folder.path().join("out"))[..] else { panic!("wanted one row: {ran:?}") };
    let error = row.error.as_ref().unwrap();
    assert_eq!(error.kind, Late, "{error:?}");
    assert!(error.text.contains("killed at its deadline of 0.2 s (--run-timeout)"), "{error:?}");
}

/// If no time can be computed from an estimate, only this cell fails, and not the plan or the other cells.
#[test]
fn a_cell_whose_estimate_cannot_be_is_refused_by_name() {
    let folder = folder();
    let text = fs::read_to_string(folder.path().join("cell-fake")).unwrap();
    let extra = r#""parameters":[{"name":"extra","kind":{"type":"number","min":0,"max":9},"about":"","default":"0"}]"#;
    for (name, workload) in [
        ("zero", format!(r#""seconds":0.01,{extra},"grows_with":["extra"]"#)),
        ("other", format!(r#""seconds":0.01,{extra},"rests":"pauses""#)),
        ("less", r#""seconds":-1"#.to_string()),
        ("ages", r#""seconds":1e300"#.to_string()),
    ] {
        let text = text.replace(r#""seconds":0.01"#, &workload);
        script(&folder.path().join(format!("cell-{name}")), &text.replace("\"fake\"", &format!("\"{name}\"")));
    }
    let ran = allocanary(
        folder.path(),
        words("study --plan --threads 1 --cells . --repeats 1 --workloads work --candidates fake"),
    );
    assert!(ran.code == Some(0) && ran.out.contains("1 processes, about "), "{ran:?}");
    for said in [
        "cell-zero: workload `work`: grows_with and rests: wanted parameters whose default is above 0, found `extra`, 0",
        "cell-other: workload `work`: grows_with and rests: wanted parameters whose default is above 0, found `pauses`",
        "cell-less: workload `work`: seconds: wanted 0 to 3000000000, found -1",
        "cell-ages: workload `work`: seconds: wanted 0 to 3000000000, found 1",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
}

#[test]
fn a_stale_or_foreign_cell_is_refused_by_name_and_the_others_serve() {
    let folder = folder();
    write(folder.path(), "stale", &Build { id: "0123456789abcdef".into(), ..this_build() }, 1);
    write(folder.path(), "future", &build(), 9);
    write(folder.path(), "nameless", &Build { version: String::new(), ..build() }, 1);
    script(&folder.path().join("cell-mute"), "#!/bin/sh\nexit 0\n");
    script(&folder.path().join("cell-broken"), "#!/bin/sh\necho 'what now' >&2\nexit 9\n");
    let ran = study(folder.path(), "--cells . --repeats 1 --workloads work --candidates stale");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for said in [
        "cell-stale: is of another build: wanted ",
        "found ",
        "0123456789abcdef",
        "cell-future: speaks protocol 9, wanted 1",
        "cell-nameless: does not say its version",
        "cell-mute: `describe` did not answer with a description",
        "cell-broken: `describe` failed: what now",
        "allocanary: no candidate `stale`",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    assert!(!folder.path().join("out").exists(), "a study that cannot run leaves nothing behind");
    assert_eq!(study(folder.path(), "--cells . --repeats 1 --workloads work --candidates fake").code, Some(0));
}
