//! The user's own program under each allocator: rows, proofs, reports, files.

use std::fs;
use std::path::Path;

use allocanary_rows::Moment;
use allocanary_rows::sample::Sample;
use allocanary_study::session::StudyFile;
use allocanary_testing::programs::compiled_text;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, allocanary, command, samples, script, words};

/// Runs a program; the rows go to `out`.
pub fn run(folder: &Path, flags: &str, program: &[&str]) -> Ran {
    let flags = ["run", "--out-dir", "out"].into_iter().chain(words(flags)).chain(["--"]);
    allocanary(folder, flags.chain(program.iter().copied()))
}

/// A shell that works for a moment, and lives for several of the longest pauses between two samples (100 ms).
const WORK: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.5; echo $i"];

fn of<'a>(rows: &'a [Sample], candidate: &str) -> Vec<&'a Sample> {
    rows.iter().filter(|row| row.cell.candidate == candidate.into()).collect()
}

#[test]
fn a_program_runs_under_each_allocator_and_each_proves_itself() {
    let folder = tempdir().unwrap();
    let flags = "--repeats 2 --candidates own system:arena_max=1 jemalloc:tcache=false,narenas=1 mimalloc:allow_thp=0";
    let ran = run(folder.path(), flags, &WORK);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.err.contains(['\r', '\u{1b}']), "no bar where there is no terminal: {ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows.len(), 8);
    for row in &rows {
        assert_eq!(row.error, None, "{}", row.cell.title());
        let answer = row.measured.as_ref().unwrap();
        assert_eq!(answer.moments, [Moment::Start, Moment::Peak]);
        let peak = answer.reading("peak_resident_bytes", Moment::Peak).expect("it lived for long enough");
        assert!(peak > 100 << 10 && answer.active_ns > 50_000_000, "{answer:?}");
        assert!(answer.reading("minor_faults", Moment::Peak).unwrap() > 10);
        assert_eq!(answer.output.as_ref().unwrap().bytes, 5);
        assert!(!answer.over_time.as_ref().unwrap().resident_kib.is_empty());
        assert_eq!((row.cell.job.threads(), row.cell.job.name().starts_with("sh -c ")), (None, true));
    }
    for (candidate, setting, value) in [
        ("system:arena_max=1", "arena_max", "1"),
        ("jemalloc:narenas=1,tcache=false", "narenas", "1"),
        ("jemalloc:narenas=1,tcache=false", "tcache", "false"),
        ("mimalloc:allow_thp=0", "allow_thp", "0"),
    ] {
        let rows = of(&rows, candidate);
        assert_eq!(rows.len(), 2, "{candidate}");
        let answer = rows[0].measured.as_ref().unwrap();
        assert_eq!(answer.found.get(setting).map(String::as_str), Some(value), "{candidate}: {answer:?}");
        assert_eq!(answer.unproven.get(setting), None, "{candidate}");
        assert!(answer.environment["LD_PRELOAD"].contains("preload-") && !answer.version.is_empty());
    }
    let kept: Vec<_> = fs::read_dir(folder.path().join("out/cells")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 8);
    assert!(kept.iter().all(|cell| fs::read_to_string(cell.path().join("stdout")).unwrap() == "3000\n"));
    let last = ran.out.rfind("Answer").expect("an answer");
    assert!(ran.out[last..].contains("peak"), "{}", ran.out);
}

/// The folder of the results is in its output, in each run.
#[test]
fn a_program_that_lists_the_folder_it_runs_in_writes_the_same_in_each_run() {
    for flags in ["run --repeats 1 --candidates own system", "run --repeats 1 --candidates own system --out-dir out"] {
        let folder = tempdir().unwrap();
        let ran = allocanary(folder.path(), words(flags).into_iter().chain(["--", "ls"]));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.err.contains("differs"), "{}", ran.err);
    }
    let folder = tempdir().unwrap();
    let ran = allocanary(folder.path(), words("run --out-dir out -- false"));
    assert_eq!((ran.code, folder.path().join("out").exists()), (Some(2), false), "{ran:?}");
}

#[test]
fn the_peak_has_the_last_moment_before_the_end() {
    let folder = tempdir().unwrap();
    let text = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
                int main(void) { memset(malloc(64 << 20), 1, 64 << 20); _exit(0); }\n";
    let program = compiled_text(folder.path(), "grows.c", text, &[]).expect("a C compiler");
    let ran = run(folder.path(), "--repeats 5 --candidates own", &[program.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for row in samples(&folder.path().join("out")) {
        let peak = row.measured.as_ref().unwrap().reading("peak_resident_bytes", Moment::Peak).unwrap();
        assert!((64 << 20..68 << 20).contains(&peak), "{peak}");
    }
    // The high-water mark that the kernel carries from this command into a small program is not the program's.
    let ran = allocanary(folder.path(), words("run --out-dir small --repeats 5 --candidates own -- sleep 1"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for row in samples(&folder.path().join("small")) {
        let reading = |name| row.measured.as_ref().unwrap().reading(name, Moment::Peak).unwrap();
        let (rss, peak) = (reading("resident_bytes"), reading("peak_resident_bytes"));
        assert!(peak * 10 <= rss * 11, "{rss} sampled, {peak}");
    }
}

/// It ends before it can be sampled, and has less memory than the process that starts it: its peak is that of a traced run.
#[test]
fn a_program_of_milliseconds_has_a_peak() {
    let folder = tempdir().unwrap();
    let ran = run(folder.path(), "--repeats 5 --candidates own system", &["true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let peaks = samples(&folder.path().join("out")).into_iter().map(|row| {
        let answer = row.measured.unwrap();
        assert_eq!(answer.output.as_ref().unwrap().bytes, 0);
        answer.reading("peak_resident_bytes", Moment::Peak).expect("a child may be traced")
    });
    let peaks: Vec<u64> = peaks.collect();
    assert!(peaks.len() == 10 && peaks.iter().all(|peak| (500 << 10..16 << 20).contains(peak)), "{peaks:?}");
    assert!(!ran.out.contains("is not known") && ran.out.contains("Answer"), "{}", ran.out);
}

#[test]
fn reports_comparisons_and_gates_read_these_rows() {
    let folder = tempdir().unwrap();
    let flags = "--repeats 5 --candidates own mimalloc --metric keys:count=([0-9]+) --tolerance wall=900%";
    let ran = run(folder.path(), flags, &WORK);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.contains("keys") && ran.out.contains("Keep own: no candidate is clearly better in peak_resident"),
        "{}",
        ran.out
    );
    let text = |format: &str| {
        let ran = allocanary(folder.path(), ["report", "out", "--format", format]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out
    };
    assert!(text("html").contains("Resident memory over time"));
    assert!(text("markdown").contains("| keys |"));
    assert!(text("csv").contains(",mimalloc,"), "{}", text("csv"));
    assert!(text("csv").lines().any(|line| line.contains(",keys,count,5,3000,")), "{}", text("csv"));
    let compare = |gate: &str| {
        allocanary(
            folder.path(),
            ["compare", "out", "out", "--gate", gate, "--metrics", "peak_resident,keys", "--undecided", "pass"],
        )
    };
    assert_eq!(compare("peak_resident=5%").code, Some(0), "{:?}", compare("peak_resident=5%"));
    assert_eq!(compare("keys=5%").code, Some(0), "{:?}", compare("keys=5%"));
    assert_eq!(compare("kees=5%").code, Some(2));
    // A gate works on these rows too: mimalloc replaces the program's own allocator.
    let rows = fs::read_to_string(folder.path().join("out/samples.jsonl")).unwrap();
    let worse: String = rows
        .lines()
        .filter(|line| line.contains(r#""candidate":"mimalloc""#))
        .map(|line| line.replace(r#""candidate":"mimalloc""#, r#""candidate":"own""#) + "\n")
        .collect();
    fs::write(folder.path().join("worse.jsonl"), worse).unwrap();
    let ran = allocanary(folder.path(), ["compare", "out", "worse.jsonl", "--gate", "peak_resident=5%"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[test]
fn a_run_is_resumed_and_a_file_says_the_same_as_flags() {
    let folder = tempdir().unwrap();
    let flags = "--repeats 1 --candidates own system";
    assert_eq!(run(folder.path(), flags, &WORK).code, Some(0));
    let more = allocanary(folder.path(), words("run --resume --out-dir out --repeats 2"));
    assert_eq!(more.code, Some(0), "{more:?}");
    assert_eq!(samples(&folder.path().join("out")).len(), 4);
    let other = run(folder.path(), "--resume --repeats 2 --candidates own system", &["true"]);
    assert!(other.code == Some(2) && other.err.contains("program: wanted"), "{other:?}");
    let text = "repeats = 1\ncandidates = ['own']\n[program]\ncommand = ['sh', '-c', 'cat; echo $0', '{dir}']\n\
                stdin = 'in'\nany_output = true\ncheck = 'grep -q hello'\nname = 'mine'\n";
    fs::write(folder.path().join("my.toml"), text).unwrap();
    fs::write(folder.path().join("in"), "hello\n").unwrap();
    for line in ["study my.toml --out-dir a", "run --program my.toml --out-dir b"] {
        let ran = allocanary(folder.path(), words(line));
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
    }
    for out in ["a", "b"] {
        let rows = samples(&folder.path().join(out));
        assert_eq!((rows.len(), rows[0].cell.job.name().as_str(), &rows[0].error), (1, "mine", &None));
    }
}

#[test]
fn another_library_is_preloaded_and_its_settings_are_unproven() {
    let folder = tempdir().unwrap();
    let library = env!("CARGO_BIN_EXE_preload-system");
    let flags = format!("--repeats 1 --any-output --candidates own preload={library},env.SAID=7 own:arena_max=1");
    let ran = run(folder.path(), &flags, &["sh", "-c", "sleep 0.1; echo said $SAID"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    let other = rows.iter().find(|row| row.cell.allocator == "preload").unwrap().measured.as_ref().unwrap();
    assert!(other.unproven["env.SAID"].contains("somebody else's"));
    assert_eq!(other.output.as_ref().unwrap().bytes, "said 7\n".len() as u64);
    let own =
        rows.iter().find(|row| row.cell.candidate == "own:arena_max=1".into()).unwrap().measured.as_ref().unwrap();
    assert!(own.unproven.contains_key("arena_max") && own.environment.contains_key("GLIBC_TUNABLES"));
}

#[test]
fn two_builds_of_a_program_are_two_and_only_one_is_resumed() {
    let folder = tempdir().unwrap();
    let build = |text: &str| script(&folder.path().join("app"), &format!("#!/bin/sh\n{text}\n"));
    build("sleep 0.1");
    let ran = run(folder.path(), "--repeats 1 --candidates own jemalloc", &["./app"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let again = "run --resume --out-dir out --repeats 2";
    let ran = allocanary(folder.path(), words(again));
    assert_eq!((ran.code, samples(&folder.path().join("out")).len()), (Some(0), 4), "{ran:?}");

    build("sleep 0.2");
    let ran = allocanary(folder.path(), words(&again.replace('2', "3")));
    assert_eq!((ran.code, samples(&folder.path().join("out")).len()), (Some(2), 4), "{ran:?}");
    let id = |out: &str| samples(&folder.path().join(out))[0].builds["./app"].clone();
    fs::rename(folder.path().join("out"), folder.path().join("old")).unwrap();
    let other = run(folder.path(), "--repeats 1 --candidates own jemalloc", &["./app"]);
    assert_eq!(other.code, Some(0), "{other:?}");
    let (old, new) = (id("old"), id("out"));
    assert!(
        ran.err.contains(&format!("has rows of another build of ./app: wanted {new}, found {old}: ")),
        "{}",
        ran.err
    );

    let csv = allocanary(folder.path(), words("report old out --format csv")).out;
    for (id, n) in [(&old, 2), (&new, 1)] {
        let version = format!("glibc's malloc, build {id}");
        let line = format!("./app,\"own ({version})\",\"{version}\",program,0,wall,ns,{n},");
        assert!(csv.contains(&line), "{line} in {csv}");
    }
    let compared = allocanary(folder.path(), words("compare old out --metrics wall"));
    assert!(compared.code == Some(0) && compared.out.contains(&format!("build {old} in the old, ")), "{compared:?}");
}

/// The user's settings for our libraries apply only to the candidate `own`.
#[test]
fn the_settings_of_the_users_preload_reach_no_candidate() {
    let folder = tempdir().unwrap();
    let mut command = command(folder.path());
    command.env("ALLOCANARY_PRELOAD", "tuned");
    command.args(words(
        "run --repeats 1 --any-output --out-dir out --candidates own jemalloc jemalloc:thread_idle=100ms \
                     jemalloc:memory_budget=1GiB,thread_idle=100ms --",
    ));
    command.args(["sh", "-c", "echo \"${LD_PRELOAD##*/} ${ALLOCANARY_PRELOAD-none}\" >> seen"]);
    let ran: Ran = command.finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let seen = fs::read_to_string(folder.path().join("seen")).unwrap();
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    seen.dedup();
    let with_both = "preload-jemalloc thread_idle=100ms,memory_budget=1GiB";
    assert_eq!(seen, [" tuned", "preload-jemalloc none", "preload-jemalloc thread_idle=100ms", with_both]);
    let rows = samples(&folder.path().join("out"));
    let row = rows.iter().find(|row| row.cell.settings.contains_key("memory_budget")).unwrap();
    let answer = row.measured.as_ref().unwrap();
    assert_eq!(
        answer.found.get("memory_budget").map(String::as_str),
        Some("1GiB"),
        "the preload says that it is on: {answer:?}"
    );
    assert!(!answer.unproven.contains_key("memory_budget"));
}

#[test]
fn a_program_sees_the_cores_that_are_asked_for() {
    let folder = tempdir().unwrap();
    let ran =
        run(folder.path(), "--repeats 1 --emulate-cpus 40 --candidates jemalloc", &["sh", "-c", "nproc; sleep 0.1"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let cell = fs::read_dir(folder.path().join("out/cells")).unwrap().flatten().next().unwrap().path();
    assert_eq!(fs::read_to_string(cell.join("stdout")).unwrap(), "40\n");
    assert_eq!(samples(&folder.path().join("out"))[0].cell.cores, Some(40));
}

#[test]
fn a_program_is_killed_before_the_command_where_memory_runs_out() {
    let folder = tempdir().unwrap();
    let program = ["sh", "-c", "cat /proc/self/oom_score_adj; sleep 0.1"];
    let ran = run(folder.path(), "--repeats 1 --candidates own", &program);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let cell = fs::read_dir(folder.path().join("out/cells")).unwrap().flatten().next().unwrap().path();
    assert_eq!(fs::read_to_string(cell.join("stdout")).unwrap(), "1000\n");
}

/// Their program comes with the command, and their candidates have a setting of preloads.
#[test]
fn the_shipped_studies_of_a_program_can_be_planned() {
    let folder = tempdir().unwrap();
    for (study, cells) in [("pressure", 8 * 12), ("room", 2 * 30)] {
        let ran = allocanary(folder.path(), ["study", "--plan", study]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            ran.out.contains(&format!("\n{cells} processes")) && ran.out.contains("jemalloc:memory_budget=container"),
            "{ran:?}"
        );
    }
}

#[test]
fn the_shipped_programs_can_be_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/programs");
    let mut names = Vec::new();
    for file in fs::read_dir(folder).unwrap().flatten().map(|file| file.path()) {
        if file.extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(&file).unwrap();
            let study = StudyFile::parse(&file.display().to_string(), &text).unwrap().check().unwrap();
            names.push(study.program.unwrap().title());
        }
    }
    names.sort();
    assert_eq!(names, ["git", "handover-cpp", "handover-rs", "nginx", "postgres", "python", "redis"]);
}
