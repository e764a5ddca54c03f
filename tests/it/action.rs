//! The action of a CI: its script with a stand-in for the command, and its file.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, script, words};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A stand-in that writes down its arguments; its `compare` ends with this exit code.
fn run(code: u32, variables: &[(&str, &str)]) -> (Ran, String, String) {
    let folder = tempdir().unwrap();
    let text = format!(
        "#!/bin/sh\nfor word; do printf '<%s>' \"$word\"; done >> calls; echo >> calls\n\
         if [ $1 = compare ]; then echo 'gate said'; exit {code}; fi\n"
    );
    script(&folder.path().join("allocanary"), &text);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg(format!("{ROOT}/action.sh")).current_dir(folder.path()).env_clear().env("PATH", path);
    command.env("GITHUB_STEP_SUMMARY", "summary").env("GITHUB_OUTPUT", "output");
    let ran = Ran::from(command.envs(variables.iter().copied()).finish().unwrap());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    (ran, read("calls"), read("summary") + &read("output"))
}

#[test]
fn both_programs_are_measured_alike_and_compared() {
    let given = [
        ("OLD", "./old --once 'a b'"),
        ("NEW", "./new --once"),
        ("GATE", "peak_resident=5% wall=10%"),
        ("REPEATS", "30"),
        ("FLAGS", "--http 'http://localhost:{port}/'"),
    ];
    let (ran, calls, told) = run(0, &given);
    let gates = "<--gate><peak_resident=5%><--gate><wall=10%><--undecided><pass>";
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let flags = "<--name><program><--candidates><own><--repeats><30><--http><http://localhost:{port}/>";
    let wanted = [
        format!("<run>{flags}<--out-dir><allocanary-gate/old><--><./old><--once><a b>"),
        format!("<run>{flags}<--out-dir><allocanary-gate/new><--><./new><--once>"),
        format!("<compare><allocanary-gate/old><allocanary-gate/new>{gates}<--format><github>"),
    ];
    assert_eq!(calls.lines().collect::<Vec<_>>(), wanted);
    assert!(
        ran.out.contains("gate said") && told == "results=allocanary-gate\n",
        "`compare` writes the summary: {told}"
    );
    // Another CI shows the output unchanged.
    let (ran, calls, _) = run(0, &[&given[..], &[("GITHUB_STEP_SUMMARY", "")]].concat());
    assert!(ran.code == Some(0) && calls.trim_end().ends_with("<--format><table>"), "{calls}");
}

#[test]
fn a_broken_gate_fails_the_job_and_is_told() {
    let (ran, _, told) = run(1, &[("OLD", "./a"), ("NEW", "./b")]);
    assert!(ran.code == Some(1) && ran.out.contains("gate said") && told.contains("results="), "{ran:?}\n{told}");
    let (ran, calls, _) = run(0, &[("OLD", "./a")]);
    assert!(ran.code == Some(1) && ran.err.contains("NEW: wanted") && calls.is_empty(), "{ran:?}");
}

/// Each input is declared and used, and the scripts read each variable that the file sets.
#[test]
fn the_file_and_its_scripts_agree() {
    let file = fs::read_to_string(format!("{ROOT}/action.yml")).unwrap();
    let shell =
        ["action.sh", "dist/fetch.sh"].map(|name| fs::read_to_string(format!("{ROOT}/{name}")).unwrap()).concat();
    let inputs = file.split_once("inputs:\n").unwrap().1.split_once("outputs:").unwrap().0;
    let name =
        |line: &str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(|rest| rest.replace(':', ""));
    let declared: BTreeSet<String> = inputs.lines().filter_map(name).collect();
    let used = file.split("${{ inputs.").skip(1).map(|rest| rest.split_once(" }}").unwrap().0.to_string());
    assert_eq!(declared, used.collect());
    assert_eq!(declared.len(), 7);
    for line in file.lines().filter(|line| line.contains("${{ inputs.")) {
        let variable = words(line)[0].trim_end_matches(':');
        assert!(shell.contains(&format!("${{{variable}:")), "{variable} is not read");
    }
    for script in ["run: bash \"$GITHUB_ACTION_PATH/action.sh\"", "bash \"$GITHUB_ACTION_PATH/dist/fetch.sh\""] {
        assert!(file.contains(script), "{script}");
    }
}
