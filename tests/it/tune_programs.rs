//! `allocanary tune` over programs, services and traces: recommendations, "keep what you have", refusals, and an
//! interrupt.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use allocanary_testing::programs::compiled_text;
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::preloads::compiled;
use super::run_bad::assert_gone;
use super::support::{Ran, allocanary, command, samples, script, words};

/// A search with few rows among the settings of glibc's malloc; the machine of the tests is too busy for limits on time.
const FEW: &str = "tune --candidates system --repeats 6 --out-dir out";

fn tune(folder: &Path, flags: &str, program: &[&str]) -> Ran {
    let flags: Vec<&str> = words(FEW).into_iter().chain(words(flags)).collect();
    allocanary(folder, flags.into_iter().chain(["--"]).chain(program.iter().copied()))
}

/// A folder with the program `turns`, whose memory follows the number of arenas.
fn turns() -> Option<TempDir> {
    let folder = tempdir().unwrap();
    compiled(folder.path(), "turns.c", &[]).map(|_| folder)
}

/// A program that ends at once. It is larger than the memory that the kernel carries over from the command, so its peak is known however
/// few samples there are.
const SHORT: &str = "dd if=/dev/zero of=/dev/null bs=16M count=1 status=none";

/// The text without its line ends.
fn joined(ran: &Ran) -> String {
    ran.out.replace('\n', " ")
}

/// The winning candidate depends on the machine. The search's choice is tested with invented rows.
#[test]
fn a_search_over_a_program_hands_its_answer_over_and_goes_on_where_it_was() {
    let folder = tempdir().unwrap();
    script(&folder.path().join("turns"), &format!("#!/bin/sh\n{SHORT}\n"));
    let ran = tune(folder.path(), "--tolerance wall=1000%", &["./turns"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in ["own (what you have)", "for ./turns"] {
        assert!(joined(&ran).contains(said), "{said}\n{}", ran.out);
    }
    let out = folder.path().join("out");
    let rows = samples(&out);
    assert!(rows.iter().all(|row| row.error.is_none() && row.cell.job.program().is_some()));
    let of = |stage: &str| rows.iter().filter(|row| row.cell.study.as_deref() == Some(stage)).count();
    // own, arena_max and trim_threshold; thread_idle where the machine makes the program run for long enough.
    assert!(of("tune-race-1") >= 7 * 2 && of("tune-final") > 0, "{ran:?}");
    let file = fs::read_to_string(out.join("tune.txt")).unwrap();
    let has = |text: &str| ["Use ", "Keep what you have"].iter().find(|said| text.contains(**said)).copied();
    assert!(has(&file).is_some() && has(&file) == has(&ran.out), "{file}\n{}", ran.out);
    assert!(fs::read_to_string(out.join("report.html")).unwrap().starts_with("<!DOCTYPE html>"));
    // The proof is a study of the program.
    let tuned = fs::read_to_string(out.join("tuned.toml")).unwrap();
    assert!(tuned.contains("[program]") && tuned.contains("tolerance = [\"wall=1000%\"]"), "{tuned}");
    for again in
        ["run --program out/tuned.toml --repeats 1 --out-dir again", "study out/tuned.toml --repeats 1 --out-dir more"]
    {
        let again = allocanary(folder.path(), words(again));
        assert_eq!(again.code, Some(0), "{again:?}");
    }
    // With the same rows the search makes the same choices, and measures nothing again.
    let resumed = tune(folder.path(), "--tolerance wall=1000% --resume", &["./turns"]);
    assert_eq!((resumed.code, &resumed.out), (Some(0), &ran.out), "{resumed:?}");
    assert_eq!(samples(&out).len(), rows.len());
    script(&folder.path().join("turns"), "#!/bin/sh\nsleep 0.02\n");
    let other = tune(folder.path(), "--tolerance wall=1000% --resume", &["./turns"]);
    assert!(other.code == Some(2) && other.err.contains("has rows of another build of ./turns: wanted "), "{other:?}");
}

#[test]
fn what_the_user_has_now_may_be_a_setting() {
    let folder = tempdir().unwrap();
    let present = "tune --candidates system --present own:arena_max=1 --repeats 5 --out-dir other";
    let ran =
        allocanary(folder.path(), words(present).into_iter().chain(["--", "sh", "-c", &format!("{SHORT}; echo done")]));
    assert!(ran.code == Some(0) && joined(&ran).contains("own:arena_max=1 (what you have)"), "{ran:?}");
}

/// A service whose memory follows the number of arenas, as a study file. `settle` is its rest after the load.
fn service(folder: &Path, metric: &str, settle: &str) {
    let text = format!(
        "[program]\nname = 'turns'\ncommand = ['./turns', '{{dir}}']\nready = 'line:ready'\nsettle = '{settle}'\n\
         load = 'kill -USR1 $(cat {{dir}}/pid); while [ ! -e {{dir}}/done ]; do sleep 0.01; done; \
         echo 1000 requests; echo score 7'\n[program.metric]\n{metric}\n"
    );
    fs::write(folder.join("service.toml"), text).unwrap();
}

#[test]
fn a_service_is_tuned_by_its_resident_memory_within_the_limits_that_it_has() {
    let Some(folder) = turns() else { return };
    service(folder.path(), "throughput = '([0-9]+) requests'\n'score:count:higher' = 'score ([0-9]+)'", "20ms");
    let ran = allocanary(folder.path(), words(FEW).into_iter().chain(["service.toml"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = "note: the rows have no p99: the default limit p99=20% is left out";
    assert!(joined(&ran).contains(said), "{}", ran.out);
    assert!(joined(&ran).contains("own (what you have)"), "{}", ran.out);
    let idle = "run --program service.toml --repeats 1 --candidates system:thread_idle=100ms --out-dir idle";
    let idle = allocanary(folder.path(), words(idle));
    assert_eq!(idle.code, Some(0), "{idle:?}");
    let rows = samples(&folder.path().join("idle"));
    assert_eq!(rows[0].measured.as_ref().unwrap().environment["ALLOCANARY_PRELOAD"], "thread_idle=100ms");
    let tuned = fs::read_to_string(folder.path().join("out/tuned.toml")).unwrap();
    assert!(tuned.contains("tolerance = [\"throughput=5%\"]") && tuned.contains("settle = \"20ms\""), "{tuned}");
}

#[test]
fn limits_are_of_metrics_that_the_rows_have() {
    let Some(folder) = turns() else { return };
    service(folder.path(), "'score:count:higher' = 'score ([0-9]+)'", "20ms");
    let few = "tune service.toml --candidates system --repeats 5 --time-budget 10m";
    let with = |more: &str| allocanary(folder.path(), words(few).into_iter().chain(words(more)));
    let ran = with("--tolerance p99=5% --out-dir a");
    let said = "--tolerance p99=5%: the rows have no p99: they have resident, peak_resident, cpu, faults";
    assert!(ran.code == Some(2) && ran.err.contains(said), "{ran:?}");
    assert!(ran.err.contains("score"), "the user's own metrics are listed: {ran:?}");
    let ran = with("--tolerance scroe=5% --out-dir b");
    assert!(ran.code == Some(2) && ran.err.contains("--tolerance scroe=5%: no metric `scroe`"), "{ran:?}");
    assert!(!folder.path().join("b").exists());
    let ran = with("--objective p99 --out-dir c");
    assert!(
        ran.code == Some(2) && ran.err.contains("--objective p99: the program prints none that is read"),
        "{ran:?}"
    );
    assert!(!folder.path().join("c").exists(), "told before anything is measured");
    let ran = with("--tolerance score=5% --out-dir d");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(joined(&ran).contains(" score ") && joined(&ran).contains(" 7 "), "{}", ran.out);
    // Without a limit on the command line and without a throughput, the time of the load is limited instead.
    let ran = with("--objective cpu --out-dir e");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(joined(&ran).contains("the time of the load is limited instead, wall=5%"), "{}", ran.out);
}

#[test]
fn a_trace_is_tuned_by_the_memory_of_its_replay() {
    let Some(folder) = turns() else { return };
    let record = |to: &str, program: &str| {
        let ran = allocanary(folder.path(), ["record", "-o", "traces", "--", program]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let trace = fs::read_dir(folder.path().join("traces")).unwrap().flatten().next().unwrap().path();
        // A trace is recognised by its first bytes, and not by its name.
        fs::rename(&trace, folder.path().join(to)).unwrap();
    };
    record("recorded", "./turns");
    record("small", "date");
    record("none", "true");
    let ran = allocanary(folder.path(), words("tune none"));
    assert!(ran.code == Some(2) && ran.err.contains("none: no allocation was recorded"), "{ran:?}");
    let ran = allocanary(folder.path(), words(FEW).into_iter().chain(words("recorded --tolerance throughput=90%")));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in ["system (what you have)", "for a replay of recorded"] {
        assert!(joined(&ran).contains(said), "{said}\n{}", ran.out);
    }
    let again = allocanary(folder.path(), words("study out/tuned.toml --repeats 1 --out-dir again"));
    assert_eq!(again.code, Some(0), "{again:?}");
    // By default the limits are those that a replay has.
    let ran = allocanary(folder.path(), words("tune small --candidates jemalloc --repeats 5 --out-dir other"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(joined(&ran).contains("the rows have no p99: the default limit p99=20% is left out"), "{}", ran.out);
    assert!(ran.err.contains("the replay rests for 50 ms: --settle 2000ms lets it act"), "{ran:?}");
}

#[test]
fn what_is_neither_a_program_nor_a_trace_nor_a_study_is_refused() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("notes.txt", "notes");
    write("bad.trace", "no trace");
    write("plain.toml", "workloads = ['server']\n");
    write("two.toml", "[[study]]\nname = 'a'\n[[study]]\nname = 'b'\n");
    write("program.toml", "[program]\ncommand = ['true']\n");
    for (line, said) in [
        ("tune notes.txt", "notes.txt: wanted a trace of `allocanary record`, or a study file (*.toml), found neither"),
        ("tune missing.toml", "missing.toml: opening a trace or a study: No such file"),
        ("tune bad.trace", "bad.trace"),
        ("tune bad.trace --threads 4", "--threads: bad.trace is a trace, which has its own"),
        ("tune two.toml", "two.toml: wanted one study, found several"),
        ("tune program.toml -- true", "wanted a file or a program after `--`, found both"),
        ("tune plain.toml --stdin notes.txt", "plain.toml: there is no [program] table"),
        (
            "tune --ready line:x",
            "flags of a program, such as --ready, --load or --stdin: wanted the program after `--`",
        ),
        ("tune --pace 1 -- true", "--pace: is for a trace"),
        ("tune --mark-at 5s -- true", "--mark-at: is for a trace"),
        ("tune --mark-at 5s", "--mark-at: is for a trace"),
        ("tune program.toml --workloads server", "workloads: a program decides that itself"),
        ("tune program.toml --emulate-cpus 4,8", "--emulate-cpus: wanted one, found 2"),
        ("tune --objective size -- true", "--objective: no objective `size`"),
        ("tune --tolerance peak_resident=5% -- true", "peak_resident is the objective itself"),
        ("tune --present nothing -- true", "no candidate `nothing`"),
        ("tune --candidates jemaloc -- true", "no allocator `jemaloc`"),
        ("tune --time-budget 1ms -- true", "--time-budget: wanted at least "),
        ("tune -- sh -c exit_3", "a first run of the program, under own, failed"),
        ("tune -- /no/such", "/no/such: No such file"),
    ] {
        let ran = allocanary(folder.path(), words(line));
        assert!(ran.code == Some(2) && ran.err.contains(said), "{line}: {ran:?}");
        assert!(!folder.path().join("allocanary-out").exists(), "{line}");
    }
}

#[test]
fn a_program_in_which_a_preload_has_no_effect_is_told_with_the_reason() {
    let folder = tempdir().unwrap();
    if compiled_text(folder.path(), "fixed.c", "int main(void) { return 0; }\n", &["-static"]).is_none() {
        return;
    }
    let ran = allocanary(folder.path(), words("tune --candidates jemalloc -- ./fixed"));
    let said = "--candidates jemalloc: ./fixed is linked statically: no loader reads LD_PRELOAD";
    assert!(ran.code == Some(2) && ran.err.contains(said), "{ran:?}");
    let ran = allocanary(folder.path(), words("tune --present system -- ./fixed"));
    assert!(ran.code == Some(2) && ran.err.contains("is linked statically"), "{ran:?}");
}

#[test]
fn an_interrupt_leaves_no_process_and_keeps_the_rows_and_resume_goes_on() {
    let folder = tempdir().unwrap();
    let mark = format!("71.{}", std::process::id());
    // The run after the fifth row never ends, until there is a file `go`. How many runs come before it is not known: a run that is too
    // short to be measured is run once more. The objective is one that the kernel counts: the memory of so short a run may not be known.
    let text =
        format!("sleep 0.02; test -e go || test $(cat out/*.jsonl | wc -l) -lt 5 || {{ touch waits; sleep {mark}; }}");
    let flags = words(
        "tune --candidates system --objective cpu --repeats 5 --run-timeout 20m --time-budget 300h --tolerance wall=1000% --out-dir out",
    );
    let line: Vec<&str> = flags.into_iter().chain(["--", "sh", "-c", &text]).collect();
    let mut child = command(folder.path()).args(&line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while !folder.path().join("waits").exists() {
        assert!(
            Instant::now() < until && child.try_wait().unwrap().is_none(),
            "the run after the fifth row never began"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.finish().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("go on with `allocanary tune ") && said.contains(" --resume --out-dir out -- "), "{said}");
    assert_gone(&format!("sleep {mark}"));
    let kept = samples(&folder.path().join("out"));
    assert_eq!(kept.len(), 5, "each row that was written is kept");

    fs::write(folder.path().join("go"), "").unwrap();
    let resumed = allocanary(folder.path(), [&["tune", "--resume"], &line[1..]].concat());
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let all = samples(&folder.path().join("out"));
    assert_eq!(all[..5], kept, "what was measured is not measured again");
    let mut cells: Vec<String> = all.iter().map(|row| row.cell.identity()).collect();
    cells.sort_unstable();
    cells.dedup();
    assert_eq!(cells.len(), all.len(), "each cell has one row");
}
