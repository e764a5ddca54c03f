//! Programs that misbehave, and invalid input: each gives a clear error or a row, and no process stays alive.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use allocanary_rows::Moment;
use allocanary_rows::sample::FailureKind;
use allocanary_testing::skipped::skipped;
use allocanary_testing::tiny::Tiny;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::limits::limited;
use super::run::run;
use super::support::{allocanary, command, copy_program, samples, script};

const TWO: &str = "--repeats 1 --candidates own jemalloc";

/// Whether a process has this text in its command line.
fn is_alive(marker: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let texts = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let shown: Vec<String> = texts.map(|text| String::from_utf8_lossy(&text).replace('\0', " ")).collect();
    shown.iter().any(|text| text.contains(marker))
}

pub fn assert_gone(marker: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while is_alive(marker) {
        assert!(Instant::now() < until, "{marker} is alive");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_fails_as_it_comes_is_told_before_anything_is_measured() {
    let folder = tempdir().unwrap();
    for (flags, program, said) in [
        (TWO, &["/no/such"][..], "/no/such: No such file"),
        (TWO, &["no-such-program"], "no-such-program: no such program in PATH"),
        (TWO, &["sh", "-c", "echo why >&2; exit 3"], "under own, failed: ended with exit code 3: why"),
        (TWO, &["sh", "-c", "kill -SEGV $$"], "was killed by signal 11 (SIGSEGV)"),
        (TWO, &["sh", "-c", "setsid sleep 611 & exit 0"], "left 1 process behind"),
        ("--run-timeout 1s", &["sleep", "612"], "did not end within its deadline of 1 s (--run-timeout)"),
        ("--check false", &["true"], "--check `false` ended with exit code 1"),
        ("--before false", &["true"], "--before `false` ended with exit code 1"),
        ("--after false", &["true"], "--after `false` ended with exit code 1"),
        ("--metric x=a([0-9])", &["echo", "b7"], "does not match the output; it ended with: b7"),
        ("--ready line:up --settle 1ms", &["sh", "-c", "echo no; exit 4"], "exit code 4 before it was ready: no"),
        (
            "--ready line:up --run-timeout 1s",
            &["sh", "-c", "echo no; sleep 613"],
            "was not ready (--ready: wanted `up`",
        ),
        ("--ready line:up --load false", &["sh", "-c", "echo up; sleep 614"], "--load `false` ended with exit code 1"),
        ("--candidates preload=/no/lib.so", &["true"], "/no/lib.so: no such file to preload"),
        ("--candidates jemaloc", &["true"], "no candidate `jemaloc`; perhaps jemalloc"),
        ("--candidates jemalloc:narena=1", &["true"], "has no setting `narena`; perhaps narenas"),
        ("--memory-limit 1", &["true"], "--memory-limit: wanted a size"),
        (
            "--tolerance threads=5%",
            &["true"],
            "tolerance: threads: neither more nor less is better, so it has no limit",
        ),
        ("--tolerance wal=5%", &["true"], "no metric `wal`; perhaps wall"),
        ("--settle 5s", &["true"], "--settle: is for a service"),
        ("", &[], "wanted a program after `--`"),
    ] {
        let ran = run(folder.path(), flags, program);
        assert_eq!(ran.code, Some(2), "{program:?}: {ran:?}");
        assert!(ran.err.contains(said), "{program:?}: wanted `{said}` in {}", ran.err);
        assert!(!folder.path().join("out").exists(), "{program:?}: something was left behind");
    }
    (611..=614).for_each(|seconds| assert_gone(&format!("sleep {seconds}")));
}

#[test]
fn an_output_that_differs_from_run_to_run_is_told_and_not_compared() {
    let folder = tempdir().unwrap();
    let ran = run(folder.path(), TWO, &["sh", "-c", "date +%N"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("output differs from run to run under own: outputs are not compared"), "{}", ran.err);
    let rows = samples(&folder.path().join("out"));
    assert!(rows.len() == 2 && rows.iter().all(|row| row.error.is_none()), "{rows:?}");
}

#[test]
fn where_a_check_decides_outputs_are_not_compared() {
    let folder = tempdir().unwrap();
    let differs = ["sh", "-c", "echo \"preload: $LD_PRELOAD\""];
    let ran = run(folder.path(), &format!("{TWO} --check true"), &differs);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert!(rows.len() == 2 && rows.iter().all(|row| row.error.is_none()), "{rows:?}");
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    assert_eq!(run(folder.path(), TWO, &differs).code, Some(1), "without a check they are");
}

#[test]
fn what_fails_under_one_candidate_is_a_row_with_the_cause() {
    let preloaded = "test -z \"$LD_PRELOAD\" || ";
    for (bad, kind, said) in [
        ("{ echo no luck >&2; kill -ABRT $$; }", FailureKind::Crashed, "was killed by signal 6 (SIGABRT): no luck"),
        ("exit 9", FailureKind::Crashed, "ended with exit code 9"),
        ("echo more", FailureKind::Corrupt, "its output differs from that under own: wanted 0 bytes"),
        ("exec env -i sleep 1", FailureKind::Setting, "preload-jemalloc: wanted in process"),
        ("{ LD_PRELOAD= exec sleep 1; }", FailureKind::Setting, "changes its environment"),
        ("sleep 621", FailureKind::Late, "did not end within its deadline"),
    ] {
        let folder = tempdir().unwrap();
        let deadline = if kind == FailureKind::Late { "--run-timeout 5s" } else { "" };
        let ran = run(folder.path(), &format!("{TWO} {deadline}"), &["sh", "-c", &format!("{preloaded}{bad}")]);
        assert_eq!(ran.code, Some(1), "{bad}: {ran:?}");
        let rows = samples(&folder.path().join("out"));
        assert_eq!(rows.len(), 2, "{bad}");
        let row = rows.iter().find(|row| row.cell.candidate == "jemalloc".into()).unwrap();
        let error = row.error.as_ref().unwrap_or_else(|| panic!("{bad}: {row:?}"));
        assert!(error.kind == kind && error.text.contains(said), "{bad}: {error:?}");
        assert!(rows.iter().all(|row| row.cell.candidate != "own".into() || row.error.is_none()), "{bad}");
    }
    assert_gone("sleep 621");
}

#[test]
fn what_cannot_be_preloaded_is_named_and_measured_as_it_comes() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let user = at("user");
    copy_program("/bin/sleep".as_ref(), &user);
    let owned = Command::new("chown").arg("64321").arg(&user).status().is_ok_and(|status| status.success());
    let mut programs = Vec::new();
    if owned {
        fs::set_permissions(&user, fs::Permissions::from_mode(0o4755)).unwrap();
        programs.push((user, "is a set-user-id program"));
    } else {
        skipped("only root can give a file to another user");
    }
    let sleep = "#include <unistd.h>\nint main(void) { usleep(100000); return 0; }\n";
    let own = format!("#include <stddef.h>\nvoid *malloc(size_t n) {{ return NULL; }}\n{sleep}");
    let go = "package main\nimport \"time\"\nfunc main() { time.Sleep(100 * time.Millisecond) }\n";
    for (name, source, text, compiler, said) in [
        ("fixed", "x.c", sleep, "cc -static -o", "is linked statically"),
        ("own", "x.c", &own, "cc -o", "exports a malloc of its own"),
        ("musl", "x.c", sleep, "musl-gcc -o", "has another C library than the preloads: its loader is /lib/ld-musl-"),
        ("go", "x.go", go, "go build -o", "is linked statically"),
        // The loader maps it, and the preload too: but nothing in it calls C's malloc.
        ("go-by-loader", "x.go", go, "go build -buildmode=pie -o", "is a Go program: its runtime has an allocator"),
    ] {
        fs::write(at(source), text).unwrap();
        let words: Vec<&str> = compiler.split(' ').chain([name, source]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("CGO_ENABLED", "0").current_dir(&folder);
        match command.finish() {
            Ok(ran) if ran.status.success() => programs.push((at(name), said)),
            Ok(ran) => skipped(format_args!("{compiler}: {}", String::from_utf8_lossy(&ran.stderr))),
            Err(error) => skipped(format_args!("{compiler}: {error}")),
        }
    }
    for (number, (path, said)) in programs.iter().enumerate() {
        let path = path.to_str().unwrap();
        let ran = run(folder.path(), TWO, &[path, "0.1"]);
        assert!(ran.code == Some(2) && ran.err.contains(said), "{path}: {ran:?}");
        // Its allocations do not go through C's malloc, so there is nothing to record.
        let ran = allocanary(folder.path(), ["record", "-o", "traces", "--", path, "0.1"]);
        assert!(
            ran.code == Some(2) && ran.err.contains(said) && ran.err.contains("cannot be recorded"),
            "{path}: {ran:?}"
        );
        let out = format!("as-it-comes-{number}");
        let ran = allocanary(folder.path(), ["run", "--repeats", "1", "--out-dir", &out, "--", path, "0.1"]);
        assert!(ran.code == Some(0) && ran.err.contains(said), "{path}: {ran:?}");
        let rows = samples(&at(&out));
        assert!(!rows.is_empty() && rows.iter().all(|row| row.cell.allocator == "own"), "{path}");
    }
}

#[test]
fn a_preload_that_is_missing_or_foreign_is_named() {
    let folder = tempdir().unwrap();
    // A command without its preloads next to it, and then with one that is none.
    for file in [env!("CARGO_BIN_EXE_allocanary"), env!("CARGO_BIN_EXE_cell-system")] {
        copy_program(file.as_ref(), folder.path());
    }
    let run = || {
        let mut command = Command::new("./allocanary");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&folder);
        let line = ["run", "--repeats", "1", "--candidates", "own", "system", "--", "sleep", "0.1"];
        let ran = command.args(line).stdin(Stdio::null()).finish().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (code, said) = run();
    assert!(code == Some(2) && said.contains("wanted preload-system in "), "{said}");
    fs::write(folder.path().join("preload-system"), "no library\n").unwrap();
    let (code, said) = run();
    assert!(code == Some(2) && said.contains("found no ELF library of this machine"), "{said}");
    // A program cannot be preloaded, and the loader goes on without it.
    fs::copy(env!("CARGO_BIN_EXE_cell-system"), folder.path().join("preload-system")).unwrap();
    let (code, said) = run();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("found in no process") && said.contains("cannot be preloaded"), "{said}");
}

#[test]
fn a_gigabyte_of_output_fills_neither_memory_nor_the_disk() {
    let folder = tempdir().unwrap();
    // In KiB: less than what is printed.
    let memory = "ulimit -v 700000";
    let line = "run --repeats 1 --candidates own --run-timeout 10m --out-dir out -- head -c 1000000000 /dev/zero";
    let ran = limited(folder.path(), memory, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    let bytes: Vec<u64> =
        rows.iter().map(|row| row.measured.as_ref().unwrap().output.as_ref().unwrap().bytes).collect();
    assert_eq!(bytes, [1_000_000_000]);
    let kept = fs::read_dir(folder.path().join("out/cells")).unwrap().flatten();
    let kept: u64 = kept.filter_map(|cell| Some(cell.path().join("stdout").metadata().ok()?.len())).sum();
    assert!(kept <= 20 << 20, "{kept}");
}

#[test]
fn a_limit_of_memory_is_a_row_or_is_said_not_to_be_allowed() {
    let folder = tempdir().unwrap();
    // The preload makes the shell take more than its group may have.
    let grow = "test -z \"$LD_PRELOAD\" || { x=a; while :; do x=$x$x; done; }; sleep 0.1";
    let ran = run(folder.path(), &format!("{TWO} --memory-limit 32MiB --cpu-limit 0.5"), &["sh", "-c", grow]);
    if ran.code == Some(2) {
        assert!(ran.err.contains("leave out --memory-limit"), "{ran:?}");
        return skipped(ran.err);
    }
    let rows = samples(&folder.path().join("out"));
    let row = rows.iter().find(|row| row.cell.candidate == "jemalloc".into()).unwrap();
    let error = row.error.as_ref().unwrap();
    assert!(error.kind == FailureKind::OutOfMemory && error.text.contains("--memory-limit 32MiB"), "{error:?}");
}

/// The run must find out whether the limit kills a candidate, even for the first one.
#[test]
fn the_first_candidate_may_be_killed_at_its_limit() {
    let folder = tempdir().unwrap();
    let grow = "test -z \"$LD_PRELOAD\" || { x=a; while :; do x=$x$x; done; }; sleep 0.1";
    let ran = run(folder.path(), "--repeats 1 --candidates jemalloc own --memory-limit 32MiB", &["sh", "-c", grow]);
    if ran.code == Some(2) && ran.err.contains("leave out --memory-limit") {
        return skipped(ran.err);
    }
    let rows = samples(&folder.path().join("out"));
    let kind = |candidate: &str| {
        let row = rows.iter().find(|row| row.cell.candidate == candidate.into()).unwrap_or_else(|| panic!("{ran:?}"));
        row.error.as_ref().map(|error| error.kind)
    };
    assert_eq!([kind("jemalloc"), kind("own")], [Some(FailureKind::OutOfMemory), None], "{ran:?}");
}

#[test]
fn an_interrupt_leaves_no_process_in_any_moment() {
    for (number, (flags, text)) in [
        ("--before 'touch begun; sleep MARK'", "true"),
        ("", "touch begun; sleep MARK & setsid sleep MARK & wait"),
        ("--ready 'touch begun; sleep MARK; false'", "sleep MARK"),
        ("--ready line:up --load 'touch begun; sleep MARK'", "echo up; sleep MARK"),
        ("--ready line:up --load 'touch begun' --settle 10m", "echo up; setsid sleep MARK & wait"),
        ("--check 'touch begun; sleep MARK'", "true"),
        ("--after 'touch begun; sleep MARK'", "true"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = tempdir().unwrap();
        let mark = format!("63{number}.{}", std::process::id());
        let line = format!(
            "exec \"$0\" run --run-timeout 20m --candidates own --out-dir out {} -- sh -c '{}'",
            flags.replace("MARK", &mark),
            text.replace("MARK", &mark)
        );
        let path = command(folder.path()).get_program().to_owned();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(line).arg(path).current_dir(&folder).stdin(Stdio::null());
        let mut child = shell.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while !folder.path().join("begun").exists() {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "{flags}: it never began");
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let ended = child.finish().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{flags}: {said}");
        assert!(said.contains("interrupted"), "{flags}: {said}");
        assert_gone(&format!("sleep {mark}"));
    }
}

#[test]
fn a_wrapper_script_is_seen_through() {
    let folder = tempdir().unwrap();
    script(&folder.path().join("wrapper"), "#!/bin/sh\ntrue\nsh -c 'true; sleep 0.2'\nexec sleep 0.2\n");
    let ran = run(folder.path(), "--repeats 1 --candidates own jemalloc:narenas=1", &["./wrapper"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    let row = rows.iter().find(|row| row.cell.allocator == "jemalloc").unwrap();
    assert_eq!(row.measured.as_ref().unwrap().found["narenas"], "1");
}

#[test]
fn a_disk_that_the_output_fills_still_gets_the_rows() {
    let disk = match Tiny::mount("2m", "rw") {
        Ok(disk) => disk,
        Err(problem) => return skipped(problem),
    };
    let folder = tempdir().unwrap();
    let out = disk.path().join("out");
    let line = ["run", "--repeats", "2", "--candidates", "own", "--out-dir", out.to_str().unwrap(), "--"];
    let ran = allocanary(folder.path(), line.into_iter().chain(["head", "-c", "9000000", "/dev/zero"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&out);
    assert!(rows.len() == 2 && rows.iter().all(|row| row.error.is_none()));
}

#[test]
fn a_program_that_closes_its_descriptors_is_read() {
    let folder = tempdir().unwrap();
    let text = "exec 0<&- 1>&- 2>&-; exec sleep 0.2";
    let ran = run(folder.path(), "--repeats 1 --candidates own jemalloc:narenas=1", &["sh", "-c", text]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert!(rows.iter().all(|row| row.measured.as_ref().unwrap().reading("resident_bytes", Moment::Peak).is_some()));
}
