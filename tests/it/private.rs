//! The modes of files that the command writes: only the user can read traces, prepared traces, and the output of
//! programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use allocanary_sys::private;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::record::traces;
use super::support::{Ran, allocanary, command, samples};

/// A folder and everything below it, with their modes.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let meta = fs::symlink_metadata(folder).unwrap();
    let mut found = vec![(folder.to_path_buf(), meta.permissions().mode() & 0o777)];
    if meta.is_dir() {
        fs::read_dir(folder).unwrap().for_each(|entry| found.extend(modes(&entry.unwrap().path())));
    }
    found
}

/// Fails if another user can read something below the folder.
fn assert_private(folder: &Path) {
    for (path, mode) in modes(folder) {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(format!("{mode:o}"), format!("{wanted:o}"), "{}", path.display());
    }
}

/// Records a program in the folder `traces`.
fn recorded(folder: &Path) -> PathBuf {
    let ran = allocanary(folder, ["record", "-o", "traces", "--", "sh", "-c", "echo done"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{}", ran.err);
    traces(&folder.join("traces"))[0].clone()
}

/// One replay, with this folder as the user's home.
fn replayed(folder: &Path, trace: &Path, out: &str) -> Ran {
    let mut command = command(folder);
    command.env("HOME", folder.join("home")).env("TMPDIR", folder.join("tmp"));
    command.args(["replay", "--candidates", "system", "--repeats", "1", "--out-dir", out]).arg(trace);
    command.stdin(Stdio::null()).finish().unwrap().into()
}

fn prepared_next_to(trace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(trace.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "replay")).collect()
}

#[test]
fn what_record_and_replay_write_is_the_users_alone() {
    let folder = tempdir().unwrap();
    let trace = recorded(folder.path());
    let ran = replayed(folder.path(), &trace, "out");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(prepared_next_to(&trace).len(), 1);
    // A program that root starts may change its user, and must be able to pass through the folder.
    let traces = folder.path().join("traces");
    assert_eq!(modes(&traces)[0].1, private::passage_mode());
    fs::read_dir(&traces).unwrap().for_each(|entry| assert_private(&entry.unwrap().path()));
    assert_private(&folder.path().join("out"));
}

#[test]
fn what_a_program_writes_is_the_users_alone() {
    let folder = tempdir().unwrap();
    let flags = "run --candidates own system --repeats 1 --out-dir out -- sh -c";
    // The script prints the modes of its folder and of the proof, which are removed afterwards.
    let script =
        "echo out; echo err >&2; exec stat -c '%a %n' \"$(dirname \"$0\")\" \"$0\" ${ALLOCANARY_PROOF:-\"$0\"} >&2";
    let ran = allocanary(folder.path(), flags.split(' ').chain([script, "{dir}"]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_private(&folder.path().join("out"));
    let cells = folder.path().join("out/cells");
    let mut proofs = 0;
    for (path, _) in modes(&cells).into_iter().filter(|(path, _)| path.ends_with("stderr")) {
        let said = fs::read_to_string(&path).unwrap();
        for line in said.lines().skip(1) {
            let (mode, path) = line.split_once(' ').unwrap();
            let is_proof = path.ends_with("/proof");
            proofs += u32::from(is_proof);
            // Services of root may change their user: they can open files that they know by name.
            let wanted: &[&str] = if is_proof { &["600"] } else { &["700", "711"] };
            assert!(wanted.contains(&mode), "{said}");
        }
    }
    assert_eq!(proofs, 1);
}

#[test]
fn rows_that_a_user_names_are_a_file_as_any_other() {
    let folder = tempdir().unwrap();
    let flags = "run --candidates own --repeats 1 --output rows.jsonl -- true";
    let mut run = command(folder.path());
    // SAFETY: umask is a system call alone, between fork and exec.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut run, || {
            libc::umask(0o022);
            Ok(())
        })
    };
    let ran: Ran = run.args(flags.split(' ')).finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(modes(&folder.path().join("rows.jsonl"))[0].1, 0o644);
}

/// The name next to the trace is taken by something that cannot be replaced. The command and its cells use the same
/// form, in the user's own folder.
#[test]
fn a_trace_whose_folder_takes_no_form_is_prepared_in_the_users_own() {
    let folder = tempdir().unwrap();
    let trace = recorded(folder.path());
    for name in ["home", "tmp"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let ran = replayed(folder.path(), &trace, "before");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let there = prepared_next_to(&trace)[0].clone();
    fs::remove_file(&there).unwrap();
    fs::create_dir(&there).unwrap();
    let ran = replayed(folder.path(), &trace, "after");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let operations = |out: &str| samples(&folder.path().join(out))[0].measured.as_ref().unwrap().operations;
    assert_eq!(operations("before"), operations("after"));
    let cache = folder.path().join("home/.cache");
    assert_private(&cache);
    assert_eq!(fs::read_dir(cache.join("allocanary")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
}

/// The process's number can be predicted, and every user may write to the folder for temporary files.
#[test]
fn a_link_that_was_planted_among_temporary_files_is_not_followed() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["tmp", "theirs"] {
        fs::create_dir(at(name)).unwrap();
    }
    // The shell's number is the command's.
    let plant = "ln -s \"$PWD/theirs\" tmp/allocanary-$$; allocanary=$1; shift; exec \"$allocanary\" \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    shell.env("TMPDIR", at("tmp")).args(["-c", plant, "sh", env!("CARGO_BIN_EXE_allocanary")]);
    let flags = "run --candidates own --repeats 1 --any-output --out-dir out -- sh -c";
    let ran: Ran = shell.args(flags.split(' ')).args(["echo $0", "{dir}"]).finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let outputs = modes(&at("out/cells")).into_iter().map(|(path, _)| path).filter(|path| path.ends_with("stdout"));
    let outputs: Vec<String> = outputs.map(|path| fs::read_to_string(path).unwrap()).collect();
    let wanted = format!("{}/allocanary-", at("tmp").canonicalize().unwrap().display());
    assert!(outputs.len() == 1 && outputs[0].starts_with(&wanted), "{outputs:?}");
    // The command's files there are removed, and the link is unchanged.
    let left = modes(&at("tmp")).into_iter().skip(1).map(|(path, _)| path.is_symlink());
    assert_eq!((left.collect::<Vec<_>>(), modes(&at("theirs")).len()), (vec![true], 1));
}
