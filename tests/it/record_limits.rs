//! The recorder never harms the program: under a limit on the length of files (`ulimit -f`), without a reader of its standard
//! error, and if a signal handler forks in the middle of the recorder. The other preloads write their proof under the same
//! limit.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use allocanary_testing::skipped::skipped;
use allocanary_trace::format::TraceEnd;
use allocanary_trace::info::{Info, info};
use allocanary_trace::reader::Trace;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::preloads::preload;
use super::record::{compiled, traces};
use super::support::{Ran, allocanary, command, ours};

const RECORDER: &str = env!("CARGO_BIN_EXE_preload-record");

/// What `tests/record/limited.c` prints.
const LIMITED: &str = "150000\n";

/// A shell that runs a program with this preload under `ulimit -f`; a shell's unit is 512 or 1024 bytes. The shell itself has
/// no preload.
fn limited(blocks: u32, preload: &Path, variable: &str, value: &Path, program: &Path) -> Command {
    let mut command = Command::new("sh");
    let text = format!(r#"ulimit -f {blocks}; LD_PRELOAD="$1" {variable}="$2" exec "$3""#);
    command.args(["-c", &text, "sh"]).arg(preload).arg(value).arg(program);
    command.env_clear().stdin(Stdio::null());
    command
}

fn ran(command: &mut Command) -> Ran {
    command.finish().unwrap().into()
}

/// Each trace of a folder, the one with the most events first.
fn infos(folder: &Path) -> Vec<Info> {
    let mut infos: Vec<Info> = traces(folder).iter().map(|path| info(&Trace::open(path).unwrap()).unwrap()).collect();
    infos.sort_by_key(|info| std::cmp::Reverse(info.merged.events));
    infos
}

/// The recorder's lines on standard error.
fn said(ran: &Ran) -> Vec<&str> {
    ran.err.lines().filter(|line| line.starts_with("allocanary: ")).collect()
}

#[test]
fn a_limit_on_the_length_of_files_makes_the_trace_shorter_or_none() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "limited") else { return };
    let record = |blocks| {
        let out = folder.path().join("traces");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        let ran = ran(&mut limited(blocks, Path::new(RECORDER), "ALLOCANARY_RECORD", &out, &program));
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), LIMITED), "{blocks} blocks: {}", ran.err);
        (said(&ran).join("\n"), infos(&out), traces(&out).len())
    };
    // Nothing, and 20 or 40 KiB: too little for a trace. The program, and its child, say so in a line each.
    for blocks in [0, 40] {
        let (said, _, found) = record(blocks);
        assert_eq!(found, 0, "{blocks} blocks");
        let lines: Vec<&str> = said.lines().collect();
        let [one] = lines[..] else { panic!("{blocks} blocks: wanted one line, found {said}") };
        assert!(one.contains("limit on the length of files") && one.contains("(errno 27)"), "{one}");
    }
    // 75 or 150 KiB: the recording stops there, and says so in the trace.
    let (said, infos, _) = record(150);
    assert_eq!(said, "");
    assert_eq!(infos.iter().map(|info| info.header.state).collect::<Vec<_>>(), [TraceEnd::Full, TraceEnd::Full]);
    for info in &infos {
        assert!(info.bytes <= 150 << 10 && info.merged.events > 1000, "{} bytes", info.bytes);
        assert!(info.merged.damage.is_empty(), "{:?}", info.merged.damage);
    }
    // 100 or 200 MB: less than the 1 GiB of a trace, and enough.
    let (said, infos, _) = record(200_000);
    assert_eq!(said, "");
    assert_eq!(infos.iter().map(|info| info.header.state).collect::<Vec<_>>(), [TraceEnd::Exited, TraceEnd::Exited]);
    assert!(infos[0].allocations >= 150_000 && infos[0].merged.damage.is_empty(), "{}", infos[0].allocations);
}

/// The line that says why nothing is recorded goes to a file that is at its limit, or to a pipe without a reader.
#[test]
fn a_line_that_cannot_be_written_hurts_nobody() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "limited") else { return };
    let missing = folder.path().join("missing");
    let out = folder.path().join("traces");
    fs::create_dir(&out).unwrap();
    let to_file = |command: &mut Command| ran(command.stderr(File::create(folder.path().join("err")).unwrap()));
    let to_nobody = |command: &mut Command| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        ran(command.stderr(writer))
    };
    let record = |blocks, folder| limited(blocks, Path::new(RECORDER), "ALLOCANARY_RECORD", folder, &program);
    let proves = |allocator, blocks| {
        let mut command = limited(blocks, &preload(allocator), "ALLOCANARY_PRELOAD", Path::new("wrong=1"), &program);
        command.env("ALLOCANARY_PROOF", folder.path().join("proof"));
        command
    };
    for (what, ran) in [
        ("recorder, file", to_file(&mut record(0, &out))),
        ("recorder, pipe", to_nobody(&mut record(200_000, &missing))),
        ("system, file", to_file(&mut proves("system", 0))),
        ("system, pipe", to_nobody(&mut proves("system", 200_000))),
    ] {
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), LIMITED), "{what}: {ran:?}");
    }
}

/// A line of the proof is there as a whole or not at all.
#[test]
fn a_proof_that_may_not_grow_is_left_as_it_is() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "limited") else { return };
    // No file; one that is longer than 1 KiB; one whose last line would be cut by a limit of 1 or 2 KiB.
    for (blocks, length) in [(0, 0), (1, 4000), (2, 1000), (2, 2000)] {
        for allocator in ours() {
            let proof = folder.path().join("proof");
            let before = if length == 0 { String::new() } else { "x".repeat(length - 1) + "\n" };
            fs::write(&proof, &before).unwrap();
            let ran = ran(&mut limited(blocks, &preload(allocator), "ALLOCANARY_PROOF", &proof, &program));
            assert_eq!((ran.code, ran.out.as_str()), (Some(0), LIMITED), "{allocator}, {blocks} blocks: {}", ran.err);
            let after = fs::read_to_string(&proof).unwrap();
            let added = after.strip_prefix(&before).unwrap();
            assert!(added.is_empty() || added.ends_with("}\n"), "{allocator}, {blocks} blocks: {added}");
            assert!(added.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{added}");
        }
    }
}

/// The command's own writing fails by an error that names the file.
#[test]
fn the_command_itself_survives_the_limit() {
    let folder = tempdir().unwrap();
    let shell = |text: &str| -> Ran {
        let mut sh = Command::new("sh");
        let path = command(folder.path()).get_program().to_owned();
        sh.current_dir(folder.path()).args(["-c", text, "sh"]).arg(path).env_clear();
        sh.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null()).finish().unwrap().into()
    };
    let ran = shell(r#"ulimit -f 0; exec "$1" run --repeats 1 --candidates own --out-dir out -- true"#);
    assert!(ran.code == Some(2) && ran.err.contains("File too large") && ran.err.contains("out/study.toml"), "{ran:?}");
    let ran = shell(r#"ulimit -f 0; exec "$1" record -o traces -- sh -c 'echo ran'"#);
    assert!(ran.code == Some(2) && ran.out == "ran\n" && ran.err.contains("nothing was recorded"), "{ran:?}");
    // The program has the signal actions with which the command was started, and none of the command's own.
    let bits = |out: &str| -> Vec<u64> {
        let hex = out.lines().filter_map(|line| line.split_whitespace().nth(1));
        hex.map(|hex| u64::from_str_radix(hex, 16).unwrap() >> (libc::SIGXFSZ - 1) & 1).collect()
    };
    for (before, wanted) in [("", [0, 0, 0]), ("trap '' XFSZ; ", [0, 1, 0])] {
        for verb in ["record -o traces", "run --repeats 1 --candidates own --out-dir own"] {
            let found = folder.path().join("found");
            let look = format!("grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status > {}", found.display());
            let ran = shell(&format!(r#"{before}exec "$1" {verb} -- sh -c "{look}""#));
            assert_eq!(ran.code, Some(0), "{ran:?}");
            let found = fs::read_to_string(found).unwrap();
            assert_eq!(bits(&found), wanted, "{before}{verb}: {found}");
            let _ = fs::remove_dir_all(folder.path().join("own"));
        }
    }
}

/// The child returns into the interrupted call. This is tried at each instruction of the recorder that a signal can
/// interrupt.
#[test]
fn a_handler_that_forks_in_the_middle_of_the_recorder_hurts_neither_process() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "interrupted") else { return };
    for (threads, handler, window, stacks) in [
        ("alone", "quiet", "60000", "0"),
        ("threads", "allocates", "0", "1"),
        ("alone", "quiet", "0", "1"),
        ("threads", "quiet", "60000", "1"),
    ] {
        let out = folder.path().join("traces");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        let mut command = Command::new(&program);
        command.args([threads, handler]).env_clear().env("LD_PRELOAD", RECORDER).env("ALLOCANARY_RECORD", &out);
        command.env("ALLOCANARY_RECORD_WINDOW", window).env("ALLOCANARY_RECORD_MAX", (16 << 20).to_string());
        command.env("ALLOCANARY_RECORD_STACK_SAMPLE", stacks);
        let ran = ran(command.stdin(Stdio::null()));
        if ran.out == "not this processor\n" {
            return skipped("the processor has no trap flag");
        }
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(0), "all children ended well\n"),
            "{threads} {handler} {window}"
        );
        assert!(said(&ran).is_empty(), "{}", ran.err);
        let infos = infos(&out);
        let (parents, children): (Vec<_>, Vec<_>) =
            infos.iter().partition(|info| !infos.iter().any(|other| other.header.pid == info.header.parent));
        let [parent] = parents[..] else { panic!("{} parents", parents.len()) };
        assert_eq!(
            (parent.merged.strays, parent.merged.lost_frees, parent.header.lost),
            (0, 0, 0),
            "{threads} {handler}"
        );
        assert!(parent.merged.damage.is_empty() && parent.allocations > 1000, "{:?}", parent.merged);
        assert!(children.len() > 200, "{} children", children.len());
        for child in children {
            assert!(child.merged.damage.is_empty(), "{:?}", child.merged.damage);
            assert_eq!(child.header.state, TraceEnd::Exited);
            // Two threads with 49 blocks, each of which grows once. The child may also free blocks of its parent.
            assert!(child.allocations >= 98 && child.resizes >= 98, "{child:?}");
            assert!(child.merged.strays <= 20, "{:?}", child.merged);
        }
    }
}

/// The first allocation, which begins the trace, is on a small stack too.
#[test]
fn a_program_whose_coroutines_have_stacks_of_8_kib_is_recorded() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "small_stack") else { return };
    for stacks in ["off", "all"] {
        let line = ["record", "-o", "traces", "--stack-sample", stacks, "--", program.to_str().unwrap()];
        let ran = allocanary(folder.path(), line);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ok\n"), "{stacks}: {}", ran.err);
    }
}
