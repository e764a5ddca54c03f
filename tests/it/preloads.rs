//! The preloads in usual programs: the same output as without a preload, the proof, and the libraries' own properties.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use serde_json::Value;
use tempfile::tempdir;

use super::bounded::{Bounded, end_of};
use super::support::{allocanary, built, described, ours, this_build};
use allocanary_testing::skipped::skipped;

/// A preload's file.
pub fn preload(allocator: &str) -> PathBuf {
    built(&format!("preload-{allocator}"))
}

/// A command in an environment of our own; with a preload if there is one.
pub fn clean(words: &[&str], folder: &Path, allocator: Option<&str>) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder).env("LC_ALL", "C.UTF-8");
    if let Some(allocator) = allocator {
        command.env("LD_PRELOAD", preload(allocator));
    }
    command
}

pub fn ran(command: &mut Command) -> Output {
    command.finish().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a proof.
pub fn proof(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The lines of a load or of an exit.
pub fn at<'a>(lines: &'a [Value], moment: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["at"] == moment).collect()
}

pub fn is_here(name: &str) -> bool {
    let here = ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(name).exists());
    if !here {
        skipped(format_args!("there is no {name} here"));
    }
    here
}

/// Compiles one of `preloads_c`; `None` without a compiler.
pub fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let compiler = if name.ends_with("cpp") { "c++" } else { "cc" };
    if !is_here(compiler) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/preloads_c").join(name);
    let program = folder.join(name.split('.').next().unwrap());
    let mut command = Command::new(compiler);
    command.args(["-O1", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source);
    let output = ran(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(program)
}

/// Programs of a distribution, with what they are given.
const PROGRAMS: &[&[&str]] = &[
    &["ls", "-la", "/usr/bin"],
    &["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; (exit 3) || echo $?"],
    &[
        "/usr/bin/python3",
        "-c",
        "import json, re, threading\n\
         done = []\n\
         def work(n):\n    done.append(sum(len(json.dumps({str(i): 'x' * i})) for i in range(n)))\n\
         threads = [threading.Thread(target=work, args=(300 + n,)) for n in range(8)]\n\
         [thread.start() for thread in threads]\n[thread.join() for thread in threads]\n\
         print(sorted(done), len(re.findall('a+', 'baac' * 10000)))",
    ],
    &["git", "-c", "core.pager=cat", "log", "--stat", "-n", "20", "--no-color"],
    &["jq", "-n", "[range(2000) | {a: ., b: (. * 2 | tostring)}] | map(.b) | add | length"],
    &[
        "sqlite3",
        ":memory:",
        "create table t(a, b); with recursive n(i) as (select 1 union all select i+1 from n where i<5000) \
         insert into t select i, hex(i) from n; create index x on t(b); select count(*), sum(length(b)) from t where b > '3';",
    ],
];

#[test]
fn programs_answer_as_without() {
    let folder = tempdir().unwrap();
    // git reads a history of this folder's own.
    let history = "git init -q . && for i in 1 2 3 4 5 6 7 8; do seq $i 300 > f$i && git add -A && \
                   git -c user.name=n -c user.email=e commit -qm c$i; done";
    if is_here("git") {
        assert!(ran(&mut clean(&["sh", "-c", history], folder.path(), None)).status.success());
    }
    for words in PROGRAMS {
        if !is_here(words[0].rsplit('/').next().unwrap()) {
            continue;
        }
        let without = ran(&mut clean(words, folder.path(), None));
        assert!(without.status.success() && !without.stdout.is_empty(), "{words:?}: {without:?}");
        for allocator in ours() {
            for settings in ["", "thread_idle=1ms"] {
                let mut command = clean(words, folder.path(), Some(allocator));
                let with = ran(command.env("ALLOCANARY_PRELOAD", settings));
                assert_eq!(text(&with.stderr), text(&without.stderr), "{words:?} with {allocator} {settings}");
                assert!(with == without, "{words:?} with {allocator} {settings}: {with:?}");
            }
        }
    }
}

#[test]
fn the_proof_says_who_and_what_and_with_which_settings() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let at_end = |allocator| match allocator {
        "system" => vec!["allocated_bytes", "mapped_bytes", "arenas"],
        "jemalloc" => {
            vec!["allocated_bytes", "active_bytes", "resident_bytes", "mapped_bytes", "metadata_bytes", "arenas"]
        }
        _ => vec!["resident_bytes", "arenas"],
    };
    for (allocator, variable, value, setting) in [
        ("system", "GLIBC_TUNABLES", "glibc.malloc.arena_max=3", ("arena_max", "3")),
        ("system", "MALLOC_ARENA_MAX", "4", ("arena_max", "4")),
        ("system", "ALLOCANARY_PRELOAD", "arena_max=5", ("arena_max", "5")),
        ("system", "ALLOCANARY_PRELOAD", "tuned", ("trim_threshold", "131072")),
        ("jemalloc", "ALLOCANARY_PRELOAD", "tuned,narenas=3", ("tcache_max", "4096")),
        ("mimalloc", "ALLOCANARY_PRELOAD", "tuned", ("allow_thp", "0")),
        ("jemalloc", "_RJEM_MALLOC_CONF", "narenas:3", ("narenas", "3")),
        ("jemalloc", "MALLOC_CONF", "tcache:false", ("tcache", "false")),
        ("jemalloc", "ALLOCANARY_PRELOAD", "tcache=false,narenas=7,tcache_max=16KiB", ("tcache_max", "16384")),
        ("mimalloc", "MIMALLOC_PURGE_DELAY", "7", ("purge_delay", "7")),
        ("mimalloc", "ALLOCANARY_PRELOAD", "allow_thp=0", ("allow_thp", "0")),
    ] {
        let _ = fs::remove_file(&path);
        let mut command = clean(&["/bin/sh", "-c", "/bin/ls / > /dev/null; :"], folder.path(), Some(allocator));
        assert!(ran(command.env("ALLOCANARY_PROOF", &path).env(variable, value)).status.success());
        let lines = proof(&path);
        let (loads, exits) = (at(&lines, "load"), at(&lines, "exit"));
        assert_eq!((loads.len(), exits.len()), (2, 2), "the shell and ls: {lines:?}");
        let description = described(allocator);
        for line in &loads {
            assert_eq!(line["allocator"], allocator);
            assert_eq!(line["version"], description.version);
            assert_eq!(line["build"], this_build().id);
            assert_eq!(line["settings"][setting.0], setting.1, "{variable}={value}: {line}");
            assert!(line.get("problem").is_none(), "{line}");
            // All settings that a cell reads back, in the same spelling, except this setting and those that follow from
            // the number of cores.
            for (name, value) in &description.effective {
                let ours = line["settings"][name].as_str().unwrap_or_else(|| panic!("{allocator}: no {name}"));
                assert_eq!(ours.parse::<i64>().is_ok(), value.parse::<i64>().is_ok(), "{name}: {ours}, {value}");
            }
        }
        assert!(loads[1]["exe"].as_str().unwrap().ends_with("/ls"), "{loads:?}");
        for line in exits {
            // The shell ends by `_exit`, which has no counters.
            for name in at_end(allocator).into_iter().filter(|_| line["exe"].as_str().unwrap().ends_with("/ls")) {
                let name = format!("allocator_{name}");
                assert!(line[&name].as_u64().is_some_and(|number| number > 0), "{allocator}, {name}: {line}");
            }
            assert!(loads.iter().any(|load| load["pid"] == line["pid"] && load["exe"] == line["exe"]));
        }
    }
}

#[test]
fn wrong_settings_are_named_and_the_program_runs_on() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    for (allocator, wrong, part) in [
        ("jemalloc", "narenas=2,tcach=false", "tcach=false"),
        ("jemalloc", "narenas=0", "narenas=0"),
        ("system", "narenas=1", "narenas=1"),
        ("mimalloc", "thread_idle=soon", "thread_idle=soon"),
    ] {
        let _ = fs::remove_file(&path);
        let mut command = clean(&["/bin/echo", "on"], folder.path(), Some(allocator));
        let output = ran(command.env("ALLOCANARY_PRELOAD", wrong).env("ALLOCANARY_PROOF", &path));
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "on\n"));
        let said = text(&output.stderr);
        assert!(
            said.lines().count() == 1 && said.starts_with(&format!("allocanary: ALLOCANARY_PRELOAD: `{part}`: ")),
            "{said}"
        );
        let lines = proof(&path);
        assert!(lines[0]["problem"].as_str().unwrap().contains(part), "{}", lines[0]);
        if allocator == "jemalloc" {
            assert_ne!(lines[0]["settings"]["narenas"], "2", "all or nothing");
        }
    }
    let mut command = clean(&["/usr/bin/nproc"], folder.path(), Some("jemalloc"));
    let output = ran(command.env("ALLOCANARY_CORES", "many"));
    assert!(
        output.status.success() && text(&output.stderr).contains("ALLOCANARY_CORES: `many`: wanted a whole number")
    );
}

#[test]
fn the_proof_outlives_a_kill_and_counts_each_way_to_end() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let mut command = clean(&["/bin/sleep", "600"], folder.path(), Some("jemalloc"));
    let mut child = command.env("ALLOCANARY_PROOF", &path).spawn().unwrap();
    let since = Instant::now();
    while proof(&path).is_empty() && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    end_of(&mut child);
    let lines = proof(&path);
    assert_eq!((lines.len(), &lines[0]["pid"], &lines[0]["at"]), (1, &child.id().into(), &"load".into()));
    if !is_here("python3") {
        return;
    }
    // The line of exit() has counters. _exit() may run in a signal handler, so its line has none. A fork's child has its
    // own line.
    for (code, exits, counted) in [
        ("import sys; sys.exit(0)", 1, 1),
        ("import os; os._exit(0)", 1, 0),
        ("import os; pid = os.fork(); pid and os.waitpid(pid, 0)", 2, 2),
        ("import os; pid = os.fork(); os._exit(0) if pid == 0 else os.waitpid(pid, 0)", 2, 1),
    ] {
        let _ = fs::remove_file(&path);
        let mut command = clean(&["/usr/bin/python3", "-c", code], folder.path(), Some("jemalloc"));
        assert!(ran(command.env("ALLOCANARY_PROOF", &path)).status.success());
        let lines = proof(&path);
        let ends = at(&lines, "exit");
        let with = ends.iter().filter(|line| line["allocator_allocated_bytes"].is_u64()).count();
        assert_eq!((at(&lines, "load").len(), ends.len(), with), (1, exits, counted), "{code}: {lines:?}");
    }
}

#[test]
fn a_program_sees_the_cores_that_it_shall_see() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let nproc = |allocator, cores: &str| {
        let mut command = clean(&["/usr/bin/nproc"], folder.path(), Some(allocator));
        text(&ran(command.env("ALLOCANARY_CORES", cores).env("ALLOCANARY_PROOF", &path)).stdout)
    };
    for allocator in ours() {
        assert_eq!([nproc(allocator, "40"), nproc(allocator, "1")], ["40\n", "1\n"]);
    }
    // By jemalloc's own rule, and by ours.
    let arenas = |allocator: &str, name: &str, cores: &str, settings: &str| {
        let _ = fs::remove_file(&path);
        let mut command = clean(&["/bin/true"], folder.path(), Some(allocator));
        command.env("ALLOCANARY_CORES", cores).env("ALLOCANARY_PRELOAD", settings).env("ALLOCANARY_PROOF", &path);
        assert!(ran(&mut command).status.success());
        proof(&path)[0]["settings"][name].as_str().unwrap().to_string()
    };
    let narenas = |cores, settings| arenas("jemalloc", "narenas", cores, settings);
    assert_eq!([narenas("40", ""), narenas("1", ""), narenas("40", "narenas=3")], ["160", "1", "3"]);
    let arena_max = |settings| arenas("system", "arena_max", "40", settings);
    assert_eq!([arena_max(""), arena_max("mxfast=0"), arena_max("arena_max=3")], ["320", "320", "3"]);
    if is_here("python3") {
        let code = "import os; print(os.cpu_count(), len(os.sched_getaffinity(0)), os.sysconf('SC_NPROCESSORS_CONF'))";
        let mut command = clean(&["/usr/bin/python3", "-c", code], folder.path(), Some("system"));
        assert_eq!(text(&ran(command.env("ALLOCANARY_CORES", "40")).stdout), "40 40 40\n");
    }
}

#[test]
fn every_function_of_the_family_is_there_and_blocks_cross_between_them() {
    let folder = tempdir().unwrap();
    let Some(family) = compiled(folder.path(), "family.c", &[]) else { return };
    for allocator in ours().into_iter().map(Some).chain([None]) {
        let output = ran(&mut clean(&[family.to_str().unwrap()], folder.path(), allocator));
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "every function answered\n"),
            "{allocator:?}"
        );
    }
}

#[test]
fn threads_exceptions_forks_and_opened_libraries_work() {
    let folder = tempdir().unwrap();
    let Some(threads) = compiled(folder.path(), "threads.cpp", &[]) else { return };
    let without = ran(&mut clean(&[threads.to_str().unwrap()], folder.path(), None));
    assert!(without.status.success());
    for allocator in ours() {
        for settings in ["", "thread_idle=1ms"] {
            let mut command = clean(&[threads.to_str().unwrap()], folder.path(), Some(allocator));
            let with = ran(command.env("ALLOCANARY_PRELOAD", settings));
            assert!(with == without, "{allocator} {settings}: {with:?}");
        }
    }
}

#[test]
fn started_by_hand_a_preload_says_what_it_is() {
    for allocator in ours() {
        let output = ran(Command::new(preload(allocator)).env_clear());
        let said = text(&output.stdout);
        assert!(
            output.status.success() && said.contains(&format!("LD_PRELOAD=/path/to/preload-{allocator}")),
            "{output:?}"
        );
    }
    let output = ran(Command::new(env!("CARGO_BIN_EXE_preload-record")).env_clear());
    assert!(output.status.success() && text(&output.stdout).contains("allocanary record -o FOLDER"), "{output:?}");
}

#[test]
fn auto_is_the_allocators_own_rule_for_the_processors_at_hand() {
    let folder = tempdir().unwrap();
    let arenas = |words: &[&str]| {
        let path = folder.path().join("proof.jsonl");
        let _ = fs::remove_file(&path);
        let mut command = clean(words, folder.path(), Some("jemalloc"));
        command.env("ALLOCANARY_PROOF", &path).env("ALLOCANARY_PRELOAD", "narenas=auto");
        let output = ran(&mut command);
        assert!(output.status.success(), "{output:?}");
        at(&proof(&path), "load").last().unwrap()["settings"]["narenas"].clone()
    };
    let cpus = allocanary::container::Cpus::here().count();
    let wanted = if cpus > 1 { 4 * cpus } else { 1 };
    assert_eq!(arenas(&["true"]), wanted.to_string());
    if is_here("taskset") {
        assert_eq!(arenas(&["taskset", "-c", "0", "true"]), "1");
    }
}

#[test]
fn the_verb_names_the_library_and_refuses_what_it_would_refuse() {
    let folder = tempdir().unwrap();
    let ran = allocanary(folder.path(), ["preload", "jemalloc", "--settings", "narenas=per_cpu(1),thread_idle=100ms"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let library = ran.out.lines().next().and_then(|line| line.strip_prefix("library  ")).unwrap();
    assert_eq!(fs::canonicalize(library).unwrap(), fs::canonicalize(preload("jemalloc")).unwrap());
    assert!(ran.out.contains("ENV ALLOCANARY_PRELOAD='narenas=per_cpu(1),thread_idle=100ms'"), "{}", ran.out);
    for (allocator, settings, said) in [
        ("jemalloc", "narena=1", "preload jemalloc: --settings: `narena=1`: no such setting"),
        ("system", "arena_max=0", "preload system: --settings: `arena_max=0`: not a value"),
        ("tcmalloc", "", "(as far as this build has them) or profile, found `tcmalloc`"),
    ] {
        let ran = allocanary(folder.path(), ["preload", allocator, "--settings", settings]);
        assert!(ran.code == Some(2) && ran.err.contains(said), "{ran:?}");
    }
}

#[test]
fn the_doctor_knows_a_preload_in_a_running_process() {
    let folder = tempdir().unwrap();
    for (allocator, flavour) in [("system", "glibc"), ("jemalloc", "jemalloc"), ("mimalloc", "mimalloc")] {
        let proof_file = folder.path().join("proof.jsonl");
        let _ = fs::remove_file(&proof_file);
        let mut command = clean(&["/bin/sleep", "600"], folder.path(), Some(allocator));
        command.env("ALLOCANARY_PRELOAD", "thread_idle=1s").env("ALLOCANARY_PROOF", &proof_file);
        let mut child = command.spawn().unwrap();
        let since = Instant::now();
        while proof(&proof_file).is_empty() && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ran = allocanary(folder.path(), ["doctor", &child.id().to_string()]);
        child.kill().unwrap();
        end_of(&mut child);
        let words = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("preload-{allocator}, sets thread_idle=1000ms")), "{words}");
        let line = ran.out.lines().find(|line| line.trim_start().starts_with("allocator")).unwrap();
        assert!(line.contains(flavour), "{line}");
    }
}

#[test]
fn a_preload_exports_the_family_and_has_one_allocator() {
    let map = include_str!("../../src/preloads/allocator.map");
    let wanted: BTreeSet<&str> = map
        .lines()
        .filter(|line| line.contains(';') && !line.contains('*') && !line.contains('}'))
        .flat_map(|line| line.split(';'))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    assert!(wanted.contains("pvalloc") && wanted.contains("epoll_wait"), "{wanted:?}");
    for allocator in ours() {
        let binary = fs::read(preload(allocator)).unwrap();
        let file = object::File::parse(&*binary).unwrap();
        let exported =
            file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(|symbol| symbol.name().ok());
        // glibc's second names are its own functions.
        let is_here = |name: &&&str| allocator != "system" || !name.starts_with("__libc_");
        let wanted: BTreeSet<&str> = wanted.iter().filter(is_here).copied().collect();
        assert_eq!(exported.collect::<BTreeSet<_>>(), wanted, "preload-{allocator}");
        for (other, beginnings) in [("jemalloc", ["_rjem_", "je_"]), ("mimalloc", ["mi_", "_mi_"])] {
            let of_it = |name: &&str| beginnings.iter().any(|beginning| name.starts_with(beginning));
            let found = file.symbols().filter_map(|symbol| symbol.name().ok()).filter(of_it).count();
            assert_eq!(found > 50, other == allocator, "preload-{allocator} has {found} symbols of {other}");
            assert!(other == allocator || found == 0, "preload-{allocator} has {found} symbols of {other}");
        }
    }
}

#[test]
fn redis_answers_as_without_and_its_malloc_is_the_preloads() {
    let folder = tempdir().unwrap();
    if !is_here("redis-server") || !is_here("redis-cli") {
        return;
    }
    let path = folder.path().join("proof.jsonl");
    let answers = |allocator: Option<&str>, number: usize| {
        let socket = folder.path().join(format!("s{number}"));
        let socket = socket.to_str().unwrap();
        let words = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--io-threads", "2"];
        let mut command = clean(&words, folder.path(), allocator);
        command.env("ALLOCANARY_PROOF", &path).env("ALLOCANARY_PRELOAD", "thread_idle=20ms").stdout(Stdio::null());
        let mut server = command.spawn().unwrap();
        let ask = |line: &str| {
            let words: Vec<&str> = ["redis-cli", "-s", socket].into_iter().chain(line.split(' ')).collect();
            text(&ran(&mut clean(&words, folder.path(), None)).stdout)
        };
        let since = Instant::now();
        while ask("ping") != "PONG\n" && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let script =
            "for i=1,20000 do redis.call('set','k'..i,string.rep('v',i%300)) end return redis.call('strlen','k299')";
        let words = ["redis-cli", "-s", socket, "eval", script, "0"];
        let said = [
            text(&ran(&mut clean(&words, folder.path(), None)).stdout),
            ask("dbsize"),
            ask("get k7"),
            ask("debug digest"),
        ];
        let _ = ask("shutdown nosave");
        assert!(end_of(&mut server).success());
        said
    };
    let without = answers(None, 0);
    assert_eq!(without[1], "20000\n");
    for (number, allocator) in ours().into_iter().enumerate() {
        let _ = fs::remove_file(&path);
        assert_eq!(answers(Some(allocator), number + 1), without, "{allocator}");
        let lines = proof(&path);
        assert_eq!(at(&lines, "load")[0]["allocator"], allocator);
        let exit = at(&lines, "exit")[0];
        let bytes = exit["allocator_mapped_bytes"].as_u64().or(exit["allocator_resident_bytes"].as_u64()).unwrap();
        assert!(bytes > 2 << 20, "what redis has stored is in it, not in the allocator that it is linked with: {exit}");
    }
}
