//! `allocanary doctor` as a user runs it: on this host, under environments, and on processes of our own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use allocanary_testing::programs::compiled_to;
use allocanary_testing::skipped::skipped;

/// The command, with only the given variables of allocators.
fn doctor(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allocanary"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.contains("MALLOC") || name == "GLIBC_TUNABLES") {
        command.env_remove(name);
    }
    command.arg("doctor").args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn text(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = doctor(arguments, variables);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The text as one line, so that a sentence is found wherever it was wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn this_host_is_described_in_80_columns_without_colours() {
    let text = text(&[], &[]);
    for label in ["cores", "affinity", "CPU quota", "usable", "memory", "page", "C library", "jemalloc", "mimalloc"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(label)), "{label}\n{text}");
    }
    assert!(flat(&text).contains("no variable that configures an allocator is set"), "{text}");
    assert!(
        flat(&text).contains("allocanary::install!( jemalloc, narenas = per_cpu(1)")
            && text.contains("- name: _RJEM_MALLOC_CONF"),
        "{text}"
    );
    // A program that does not run yet may have a jemalloc with either name.
    for form in ["    _RJEM_MALLOC_CONF=", "    MALLOC_CONF=", "    ENV MALLOC_CONF=", "    - name: MALLOC_CONF\n"] {
        assert!(text.contains(form), "{form}: {text}");
    }
    assert!(!text.contains('\x1b'), "a pipe gets no colours");
    assert!(text.lines().filter(|line| !line.starts_with("    ")).all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn an_affinity_mask_counts() {
    let program = env!("CARGO_BIN_EXE_allocanary");
    let Ok(output) = Command::new("taskset").args(["-c", "0", program, "doctor"]).output() else {
        skipped("taskset is not installed");
        return;
    };
    let text = flat(&String::from_utf8_lossy(&output.stdout));
    assert!(text.contains("affinity 1 of them") && text.contains("up to 1 arena: the affinity mask has 1"), "{text}");
}

/// A control group with half a processor, in cgroup v1 or v2; `None` if it cannot be made.
struct Half(PathBuf);

impl Half {
    fn new() -> Option<Half> {
        let name = format!("allocanary-doctor-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu").join(&name);
        if std::fs::create_dir(&v1).is_ok() {
            let group = Half(v1);
            std::fs::write(group.0.join("cpu.cfs_quota_us"), "50000").ok()?;
            return Some(group);
        }
        let group = Path::new("/sys/fs/cgroup").join(&name);
        std::fs::create_dir(&group).ok()?;
        let group = Half(group);
        std::fs::write(group.0.join("cpu.max"), "50000 100000").ok()?;
        Some(group)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_is_found_here_and_in_another_process() {
    let Some(group) = Half::new() else {
        skipped("no control group can be made here");
        return;
    };
    let program = env!("CARGO_BIN_EXE_allocanary");
    let script = format!("echo $$ > {}/cgroup.procs && exec {program} doctor", group.0.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let wanted = format!("CPU quota 0.5 CPUs, from {}/cpu.", group.0.display());
    let here = flat(&String::from_utf8_lossy(&output.stdout));
    assert!(here.contains(&wanted) && here.contains("usable 1 processor: "), "{here}");

    let cell = Cell::start(Path::new(env!("CARGO_BIN_EXE_cell-system")), &[]);
    std::fs::write(group.0.join("cgroup.procs"), cell.0.id().to_string()).unwrap();
    let there = flat(&cell.doctor());
    // It has one thread, which uses one arena.
    assert!(there.contains(&wanted) && !there.contains("MALLOC_ARENA_MAX=1"), "{there}");
}

#[test]
fn variables_are_judged() {
    let said = |variables: &[(&str, &str)]| flat(&text(&[], variables));
    assert!(said(&[("MALLOC_CONF", "narenas:1")]).contains("depends ignored by Rust programs with tikv-jemallocator"));
    assert!(said(&[("_RJEM_MALLOC_CONF", "narena:1")]).contains("jemalloc has no setting `narena`; perhaps narenas"));
    let contradiction = [("JE_MALLOC_CONF", "narenas:5"), ("_RJEM_MALLOC_CONF", "narenas:7")];
    assert!(said(&contradiction).contains("narenas 5 is overruled by _RJEM_MALLOC_CONF, which says 7"));
    let tunable = [("MALLOC_ARENA_MAX", "3"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=5")];
    assert!(said(&tunable).contains("arena_max 3 is overruled by GLIBC_TUNABLES, which says 5"));
    assert!(said(&[("MALLOC_TRIM_THRESHOLD", "1")]).contains("ignored no allocator that we know of reads it; perhaps"));
    assert!(said(&[("MIMALLOC_PURGE_DELAYS", "1")]).contains("no option `purge_delays`; perhaps purge_delay"));
}

/// A cell that waits for its task, and is killed when the test is over.
struct Cell(Child);

impl Cell {
    fn start(program: &Path, variables: &[(&str, &str)]) -> Cell {
        let child = Command::new(program)
            .arg("run")
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Between fork and exec it is still a copy of this test.
        let link = PathBuf::from(format!("/proc/{}/exe", child.id()));
        let started = Instant::now();
        while std::fs::read_link(&link).ok() != program.canonicalize().ok() || !is_asleep(child.id()) {
            assert!(started.elapsed() < Duration::from_secs(60), "{} does not start", program.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        Cell(child)
    }

    fn doctor(&self) -> String {
        text(&[&self.0.id().to_string()], &[])
    }
}

#[test]
fn the_advice_is_for_scripts_too() {
    let variables = [("MALLOC_CONF", "narenas:1")];
    let json: serde_json::Value = serde_json::from_str(&text(&["--json"], &variables)).unwrap();
    assert_eq!((&json["schema"], &json["verb"]), (&1.into(), &"doctor".into()));
    let answers = json["answers"].as_array().unwrap();
    // A jemalloc in a Rust program does not read that variable.
    let moved = answers.iter().find(|answer| answer["allocator"] == "jemalloc").unwrap();
    assert_eq!((&moved["choice"], &moved["variable"]), (&"change".into(), &"_RJEM_MALLOC_CONF".into()));
    assert!(moved["value"].as_str().unwrap().contains("narenas:1"), "{moved}");
    let lines = moved["lines"].as_array().unwrap();
    assert!(
        lines.iter().any(|line| line.as_str().unwrap().starts_with("Dockerfile  ENV _RJEM_MALLOC_CONF=")),
        "{moved}"
    );
    let brief = text(&["--short"], &variables);
    assert!(brief.lines().count() <= 10 && brief.starts_with("For jemalloc, set _RJEM_MALLOC_CONF="), "{brief}");
}

/// Whether a process waits, as a cell does for its task.
fn is_asleep(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok()
        && std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") S "))
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each cell, with its allocator.
fn cells() -> Vec<(&'static str, &'static Path)> {
    let mut cells = vec![("glibc's malloc", Path::new(env!("CARGO_BIN_EXE_cell-system")))];
    #[cfg(feature = "jemalloc")]
    cells.push(("jemalloc", Path::new(env!("CARGO_BIN_EXE_cell-jemalloc"))));
    #[cfg(feature = "mimalloc")]
    cells.push(("mimalloc", Path::new(env!("CARGO_BIN_EXE_cell-mimalloc"))));
    cells
}

#[test]
fn each_cell_is_recognised_by_its_symbols() {
    for (allocator, program) in cells() {
        let text = Cell::start(program, &[]).doctor();
        assert!(flat(&text).contains(&format!("allocator {allocator} (sure: ")), "{allocator}\n{text}");
        for label in ["resident", "parts", "mappings", "threads", "CPU quota", "C library"] {
            assert!(text.contains(&format!("  {label}")), "{label}\n{text}");
        }
        assert!(text.contains("[heap]") && !text.contains("unknown"), "{text}");
        assert!(
            flat(&text).contains("of the program and its libraries, ") && flat(&text).contains("the most, "),
            "{text}"
        );
        assert!(flat(&text).contains(&format!("command {} run", program.display())), "{text}");
        if allocator == "jemalloc" {
            assert!(flat(&text).contains("jemalloc 5."), "its version stands in its file: {text}");
        }
    }
}

#[cfg(feature = "jemalloc")]
#[test]
fn a_library_that_was_deleted_while_it_was_mapped_is_still_known() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libjemalloc.so.2");
    std::fs::copy(env!("CARGO_BIN_EXE_preload-jemalloc"), &library).unwrap();
    let cell = Cell::start(env!("CARGO_BIN_EXE_cell-system").as_ref(), &[("LD_PRELOAD", library.to_str().unwrap())]);
    std::fs::remove_file(&library).unwrap();
    let said = flat(&cell.doctor());
    assert!(said.contains("allocator jemalloc (likely: malloc is bound to "), "{said}");
    assert!(said.contains("libjemalloc.so.2 (deleted)"), "{said}");
}

/// `preload` prints such lines and names `doctor PID` to check them.
#[test]
fn the_settings_of_a_preload_are_read_in_the_process() {
    let preload = env!("CARGO_BIN_EXE_preload-system");
    let said = |settings: &str| {
        let variables = [("LD_PRELOAD", preload), ("ALLOCANARY_PRELOAD", settings)];
        flat(&Cell::start(env!("CARGO_BIN_EXE_cell-system").as_ref(), &variables).doctor())
    };
    let good = said("arena_max=per_cpu(1),thread_idle=100ms");
    assert!(
        good.contains(&format!("preload {preload}, sets arena_max=")) && good.contains(",thread_idle=100ms"),
        "{good}"
    );
    assert!(
        !good.contains("per_cpu(1)\"") && !good.contains("instead of"),
        "the number that holds, and no advice: {good}"
    );
    assert!(!good.contains("no variable that configures an allocator was set"), "{good}");
    let tuned = said("tuned");
    assert!(tuned.contains("arena_max=") && tuned.contains("trim_threshold=131072"), "{tuned}");
    let typo = said("arena_max=2,arena_mx=1");
    assert!(typo.contains("which refused its settings: `arena_mx=1`") && typo.contains("none of them holds"), "{typo}");
    assert!(!typo.contains("sets arena_max"), "{typo}");
}

#[test]
fn each_cell_is_recognised_when_it_is_stripped() {
    let folder = tempfile::tempdir().unwrap();
    for (allocator, program) in cells() {
        let stripped = folder.path().join(program.file_name().unwrap());
        match Command::new("strip").arg(program).arg("-o").arg(&stripped).status() {
            Ok(status) => assert!(status.success()),
            Err(_) => {
                skipped("strip is not installed");
                return;
            }
        }
        let text = flat(&Cell::start(&stripped, &[]).doctor());
        // That there is only the C library is certain with and without symbols. An allocator that is recognised by
        // texts only is not certain.
        let sure = if allocator == "glibc's malloc" { "sure" } else { "likely" };
        assert!(text.contains(&format!("allocator {allocator} ({sure}: ")), "{allocator}\n{text}");
        if allocator == "jemalloc" {
            assert!(text.contains("the program uses install!"), "{text}");
        }
    }
}

#[cfg(feature = "jemalloc")]
#[test]
fn the_environment_is_that_of_the_process() {
    let variables = [("MALLOC_CONF", "narenas:3,tcache:1"), ("MIMALLOC_PURGE_DELAY", "0"), ("MALLOC_ARENA_MAX", "2")];
    let text = flat(&Cell::start(Path::new(env!("CARGO_BIN_EXE_cell-jemalloc")), &variables).doctor());
    for said in [
        "MALLOC_CONF=narenas:3,tcache:1 read by this program's jemalloc, to which install! hands it on",
        "wrong tcache: wanted true or false, found `1`: jemalloc keeps its default",
        "MIMALLOC_PURGE_DELAY=0 ignored this program has jemalloc",
        "MALLOC_ARENA_MAX=2 depends read by C's malloc alone",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
}

/// A program of `tests/own_malloc` that has written over its environment, as soon as it has.
struct Own {
    child: Child,
    /// The program's; it goes with the process.
    _folder: tempfile::TempDir,
}

impl Own {
    /// None without a C compiler.
    fn start(flags: &[&str], variables: &[(&str, &str)]) -> Option<Own> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/own_malloc/main.c");
        let flags = [&["-O1", "-w", "-rdynamic", "-pthread", "-fno-builtin"], flags].concat();
        let program = compiled_to(&folder.path().join("own"), &[&source], &flags)?;
        let mut command = Command::new(&program);
        command.args(["--port", "6379"]).env_clear().envs(variables.iter().copied()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        // The name of its thread is set by that thread.
        let started = Instant::now();
        let named = |id: u32| {
            let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
            let names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
            names.filter(|name| name.trim_end() != "own").count() == 1
        };
        while !named(child.id()) {
            assert!(started.elapsed() < Duration::from_secs(60), "its thread has no name yet");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Own { child, _folder: folder })
    }

    fn doctor(&self) -> String {
        flat(&text(&[&self.child.id().to_string()], &[]))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_malloc_of_the_programs_own_is_not_called_the_c_librarys() {
    let Some(own) = Own::start(&[], &[]) else { return };
    let text = own.doctor();
    assert!(
        text.contains("allocator an unknown allocator (likely: ") && !text.contains("the C library's malloc"),
        "{text}"
    );
    assert!(text.contains("exports a malloc of its own"), "{text}");
    assert!(text.contains("No call can give memory back: the program, its libraries and mapped files are "), "{text}");
}

#[test]
fn an_environment_that_was_overwritten_is_unknown_and_threads_tell() {
    let Some(own) = Own::start(&["-DMALLCTL"], &[("MALLOC_CONF", "background_thread:true"), ("HOME", "/root")]) else {
        return;
    };
    let text = own.doctor();
    assert!(text.contains("command own: *:6379 allocator jemalloc (sure: "), "{text}");
    assert!(text.contains("overwritten unknown: the program has written over its environment"), "{text}");
    assert!(!text.contains("no variable that configures an allocator was set"), "{text}");
    assert!(text.contains("1 of its threads is jemalloc's: background_thread is on"), "{text}");
    // It does not advise settings that the process already has, nor arenas for its one thread. No advice is left.
    assert!(!text.contains("background_thread:true") && !text.contains("narenas:"), "{text}");
    assert!(!text.contains("install!"), "{text}");
}

/// A program of the distribution, as soon as `is` returns true; `None` if it is not installed.
fn started(words: &[&str], variables: &[(&str, &str)], is: impl Fn(u32) -> bool) -> Option<Cell> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear().envs(variables.iter().copied()).env("PATH", "/usr/bin:/bin");
    let Ok(child) = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() else {
        skipped(format_args!("there is no {} here", words[0]));
        return None;
    };
    let cell = Cell(child);
    let since = Instant::now();
    while !is(cell.0.id()) {
        assert!(since.elapsed() < Duration::from_secs(60), "{} does not get ready", words[0]);
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(cell)
}

/// Redis with Debian's jemalloc writes over its environment, and its jemalloc has background threads.
#[cfg(feature = "mimalloc")]
#[test]
fn redis_has_the_allocator_that_its_malloc_is_bound_to() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let words = ["redis-server", "--port", "0", "--unixsocket", socket.to_str().unwrap(), "--save", ""];
    let ready = |_| socket.exists();
    let Some(redis) = started(&words, &[("MALLOC_CONF", "narenas:3")], ready) else { return };
    let said = flat(&redis.doctor());
    assert!(said.contains("command redis-server unixsocket:"), "{said}");
    assert!(said.contains("allocator jemalloc (likely: malloc is bound to /usr/lib/"), "{said}");
    assert!(said.contains("jemalloc 5.3.0, as its file says") && said.contains("background_thread is on"), "{said}");
    assert!(said.contains("overwritten unknown: ") && !said.contains("background_thread:true"), "{said}");
    drop(redis);
    std::fs::remove_file(&socket).unwrap();
    let preload = env!("CARGO_BIN_EXE_preload-mimalloc");
    let redis = started(&words, &[("LD_PRELOAD", preload)], ready).unwrap();
    let said = flat(&redis.doctor());
    assert!(said.contains(&format!("allocator mimalloc (likely: malloc is bound to {preload}")), "{said}");
    assert!(said.contains("defines mallctl (jemalloc) and is mapped, but malloc is not bound to it"), "{said}");
}

/// The same value is right for one jemalloc and not for another.
#[cfg(feature = "jemalloc")]
#[test]
fn a_value_is_judged_by_the_version_of_the_library_that_the_process_has() {
    const DEBIANS: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let said = |library: &str| {
        let variables = [("LD_PRELOAD", library), ("MALLOC_CONF", "tcache_max:1048576,background_thread:true")];
        let is_loaded = |id: u32| {
            std::fs::read_to_string(format!("/proc/{id}/maps")).is_ok_and(|maps| maps.contains(library))
                && is_asleep(id)
        };
        started(&["sleep", "600"], &variables, is_loaded).map(|cell| flat(&cell.doctor()))
    };
    let ours = said(env!("CARGO_BIN_EXE_preload-jemalloc")).unwrap();
    assert!(ours.contains("tcache_max: 1048576 becomes 32768: jemalloc 5.3.1 clips it"), "{ours}");
    if !Path::new(DEBIANS).exists() {
        return skipped("Debian's libjemalloc.so.2 is not installed");
    }
    let theirs = said(DEBIANS).unwrap();
    assert!(theirs.contains("jemalloc 5.3.0, as its file says") && !theirs.contains("becomes 32768"), "{theirs}");
}

#[test]
fn a_go_program_has_gos_runtime() {
    if !Command::new("go").arg("version").output().is_ok_and(|ran| ran.status.success()) {
        skipped("there is no go here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("main.go"), folder.path().join("waits"));
    std::fs::write(&source, "package main\n\nimport \"os\"\n\nfunc main() { os.Stdin.Read(make([]byte, 1)) }\n")
        .unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-ldflags", "-s -w", "-o"]).arg(&program).arg(&source).current_dir(folder.path());
    let built = build.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").env("CGO_ENABLED", "0").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let text = flat(&Cell::start(&program, &[("GOGC", "50"), ("MALLOC_ARENA_MAX", "1")]).doctor());
    assert!(
        text.contains("allocator Go's runtime (sure: ") && text.contains("has the section .go.buildinfo"),
        "{text}"
    );
    assert!(
        text.contains("GOGC=50 read by Go's runtime") && text.contains("=1 ignored this program has Go's runtime"),
        "{text}"
    );
    assert!(!text.contains("C code has") && !text.contains("install!"), "{text}");
}

#[cfg(feature = "jemalloc")]
#[test]
fn a_jemalloc_that_would_abort_on_a_mistake_is_explained() {
    for variable in ["MALLOC_CONF", "_RJEM_MALLOC_CONF"] {
        let text = flat(&text(&[], &[(variable, "abort_conf:true,bogus:1")]));
        assert!(text.contains("jemalloc has no setting `bogus`"), "{text}");
        assert!(text.contains("abort_conf:true makes jemalloc end the program at its start"), "{text}");
        assert!(text.contains(&format!("{variable}=abort_conf:true,bogus:1")), "{text}");
    }
}

#[test]
fn a_process_that_is_not_there_is_one_line_and_exit_code_2() {
    let output = doctor(&["4194305"], &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "allocanary: process 4194305: /proc/4194305/status: there is no such process\n");
    assert_eq!(doctor(&["soon"], &[]).status.code(), Some(2));
}

#[test]
fn help_has_examples() {
    let help = text(&["--help"], &[]);
    assert!(help.contains("Examples:") && help.contains("allocanary doctor 4242"), "{help}");
}

#[cfg(feature = "jemalloc")]
#[test]
fn a_link_in_etc_is_shown_and_stands_where_jemalloc_reads_it() {
    // A copy of /etc in a separate mount namespace, so that the host's does not change.
    let folder = tempfile::tempdir().unwrap();
    let in_namespace = |command: &str, variables: &[(&str, &str)]| {
        let etc = folder.path().display();
        let script = format!(
            "cp -a /etc/. {etc}; ln -sfn narenas:3,dirty_decay_ms:77 {etc}/_rjem_malloc.conf && ln -sfn narenas:9 \
             {etc}/malloc.conf && mount --bind {etc} /etc && exec {command}"
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", &script]).env_remove("MALLOC_CONF").envs(variables.iter().copied());
        let output = unshare.output().ok().filter(|output| output.status.success())?;
        Some(flat(&String::from_utf8_lossy(&output.stdout)))
    };
    let doctor = concat!(env!("CARGO_BIN_EXE_allocanary"), " doctor");
    let Some(text) = in_namespace(doctor, &[]) else {
        skipped("no mount namespace here");
        return;
    };
    assert!(text.contains("/etc/_rjem_malloc.conf -> narenas:3,dirty_decay_ms:77 read by Rust programs"), "{text}");
    assert!(text.contains("/etc/malloc.conf -> narenas:9 depends ignored by Rust programs"), "{text}");
    let set = [("_RJEM_MALLOC_CONF", "narenas:5")];
    let text = in_namespace(doctor, &set).unwrap();
    assert!(text.contains("narenas 3 is overruled by _RJEM_MALLOC_CONF, which says 5"), "{text}");

    // The doctor's answer agrees with jemalloc's behaviour: the cell has its own `install!`.
    let cell = concat!(env!("CARGO_BIN_EXE_cell-jemalloc"), " describe");
    for (variables, narenas) in [(&[][..], 3), (&[("MALLOC_CONF", "narenas:4")], 3), (&set, 5)] {
        let text = in_namespace(cell, variables).unwrap();
        assert!(text.contains(&format!("\"narenas\":\"{narenas}\"")), "{narenas}: {text}");
        assert!(text.contains("\"dirty_decay_ms\":\"77\""), "{text}");
    }
}
