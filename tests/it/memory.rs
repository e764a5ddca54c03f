//! A cell that the kernel kills for memory is a row like any other, and so is a cell that refuses to run. The tests use a real control
//! group with a real limit.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_rows::sample::FailureKind;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::fake;
use super::support::{Ran, TINY, samples, script};
use allocanary_testing::skipped::skipped;

const LIMIT: u64 = 96 << 20;

/// A control group with a memory limit, which goes away with the test.
struct Group(PathBuf);

impl Group {
    /// For version 1 below our own group; for version 2 next to it, since a group with processes cannot have groups
    /// with limits.
    fn make(name: &str) -> Result<Group, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let groups: Vec<(&str, &str)> = groups
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'))
            .map(|(controllers, path)| (controllers, path.trim_start_matches('/')))
            .collect();
        let v1 = groups.iter().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
        let (root, own) = match v1.or_else(|| groups.iter().find(|(controllers, _)| controllers.is_empty())) {
            Some((_, own)) if v1.is_some() => (Path::new("/sys/fs/cgroup/memory"), own.to_string()),
            Some((_, own)) => (Path::new("/sys/fs/cgroup"), own.to_string()),
            None => return Err("this process is in no memory group".into()),
        };
        let own = root.join(own);
        let above = if v1.is_some() { &own } else { own.parent().filter(|_| own != root).unwrap_or(root) };
        let path = above.join(format!("allocanary-{name}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Group(path);
        let limit = LIMIT.to_string();
        match v1 {
            Some(_) => {
                group.set("memory.limit_in_bytes", &limit)?;
                // Without swap accounting this file does not exist; then the next setting prevents swap.
                let _ = group.set("memory.memsw.limit_in_bytes", &limit);
                let _ = group.set("memory.swappiness", "0");
            }
            None => {
                group.set("memory.max", &limit)?;
                let _ = group.set("memory.swap.max", "0");
            }
        }
        Ok(group)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), String> {
        // Not `fs::write`: it would make the file where the controller is missing on an ordinary file system.
        let path = self.0.join(file);
        let written = fs::OpenOptions::new().write(true).open(&path).and_then(|mut open| {
            use std::io::Write;
            open.write_all(value.as_bytes())
        });
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Group {
    /// Runs the command with all its children in this group, in a folder.
    fn allocanary<T: AsRef<OsStr>>(&self, folder: &Path, arguments: impl IntoIterator<Item = T>) -> Ran {
        let ran = Command::new("sh")
            .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.0)
            .arg(env!("CARGO_BIN_EXE_allocanary"))
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .finish();
        ran.unwrap().into()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may take a moment to release dead processes.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The kind of file system that a folder lies on, by its name.
fn file_system(folder: &str) -> String {
    let output = Command::new("stat").args(["-f", "-c", "%T", folder]).finish().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Our own cells check the memory first; the fake allocates until it is stopped.
#[test]
fn a_cell_killed_for_memory_is_a_row_and_the_study_goes_on() {
    let group = match Group::make("killed") {
        Ok(group) => group,
        Err(why) => return skipped(why),
    };
    let folder = fake::folder();
    let cell = folder.path().join("cell-fake");
    let text = fs::read_to_string(&cell).unwrap();
    assert!(text.contains("sleep 600"));
    script(&cell, &text.replace("sleep 600", "x=0123456789abcdef; while :; do x=$x$x; done"));
    let study = "study --cells . --workloads work --candidates fake:mode=late fake:mode=good --threads 1 --repeats 2 --out-dir out";
    let ran = group.allocanary(folder.path(), study.split(' '));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows.len(), 4, "every cell is a row");
    for row in rows {
        let failure = row.error.as_ref().map(|failure| failure.kind);
        let wanted = (row.cell.settings["mode"] == "late").then_some(FailureKind::OutOfMemory);
        assert_eq!(failure, wanted, "{}: {:?}", row.cell.title(), row.error);
    }
    assert!(ran.out.contains("killed by the kernel for memory"), "{}", ran.out);
}

/// As in a container with a limit, where `run` gets no --memory-limit.
#[test]
fn a_program_killed_for_memory_is_told_with_the_limit_of_the_container() {
    let group = match Group::make("program") {
        Ok(group) => group,
        Err(why) => return skipped(why),
    };
    let folder = tempdir().unwrap();
    let run = |grow: &str, out: &str| {
        let program = format!("test -z \"$LD_PRELOAD\" || {{ {grow}; }}; sleep 0.1");
        let flags = ["run", "--repeats", "1", "--candidates", "own", "jemalloc", "--out-dir", out, "--", "sh", "-c"];
        let attempt = || group.allocanary(folder.path(), flags.into_iter().chain([program.as_str()]));
        // The command is in the group too. On a busy machine the kernel once killed it as well, 5 ms after the program,
        // whose memory was not free yet.
        let ran = (0..3).map(|_| attempt()).find(|ran| ran.code.is_some()).expect("the command was killed three times");
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let rows = samples(&folder.path().join(out));
        rows.into_iter().find(|row| row.cell.candidate == "jemalloc".into()).unwrap().error.unwrap()
    };
    // The program itself, and a child of it, which a shell tells by its exit code.
    let grow = "x=0123456789abcdef; while :; do x=$x$x; done";
    for (number, grow) in [grow.to_string(), format!("sh -c '{grow}'; exit $?")].iter().enumerate() {
        let error = run(grow, &format!("grow-{number}"));
        let said = "killed by the kernel for memory: it needs more than the control group's limit of 96.0 MiB";
        assert!(error.kind == FailureKind::OutOfMemory && error.text.contains(said), "{error:?}");
    }
    let other = run("kill -KILL $$", "other");
    assert!(other.kind == FailureKind::Crashed && other.text.contains("signal 9 (SIGKILL)"), "{other:?}");
}

/// More than the group has: each is refused before it takes anything.
const CAREFUL: &[&str] = &[
    "server:bursts=0,live=512MiB,requests=1,settle=1ms",
    // Only the page, while it grows; and the bodies of a burst.
    "server:burst=4KiB,bursts=0,page=48MiB,requests=2,settle=1ms",
    "server:burst=96MiB,requests=2,settle=1ms",
    "small:live=700000,operations=1,settle=1ms",
    "bleed:live=150000,operations=1,settle=1ms",
    "handoff:operations=1,queued=100000,settle=1ms",
    "blob:blobs=1,settle=1ms,size=128MiB",
    "churn:cycles=1,high=512MiB,settle=1ms",
    // It would fit without the chunk that may exceed the mark.
    "churn:chunk=20MiB,cycles=1,high=64MiB,low=1MiB,settle=1ms",
    // Blocks of 48 and of 8 bytes: 65 MiB under glibc.
    "churn:chunk=1,cycles=1,high=40MiB,low=1MiB,settle=1ms",
    "list:nodes=7000000,settle=1ms",
    "sort:records=5000000,settle=1ms,variant=arena",
    "sort:records=3000000,settle=1ms,variant=memory",
    "storm:bursts=1,in_flight=200,live=64MiB,requests=1000,settle=1ms",
    "reserve:settle=1ms,size=512MiB,touched=100",
    "wakes:bytes=64MiB,lasts=1ms,settle=1ms",
];

/// A new workload must be in the list above. A replay needs the memory of its trace, and does not check.
#[test]
fn every_workload_but_the_replay_is_tried_with_too_little_memory() {
    for workload in allocanary_cell::workloads::ALL {
        let tried = CAREFUL.iter().any(|form| form.split(':').next() == Some(workload.name));
        assert_eq!(tried, workload.name != "replay", "{}: its form in CAREFUL", workload.name);
    }
}

#[test]
fn a_cell_that_would_need_more_than_there_is_is_refused_and_others_are_not() {
    let group = match Group::make("refused") {
        Ok(group) => group,
        Err(why) => {
            return skipped(why);
        }
    };
    let folder = tempdir().unwrap();
    let mut careful = CAREFUL.to_vec();
    let mut small = vec![
        TINY,
        "server:settle=1ms",
        "small:operations=1000,settle=1ms",
        "bleed:operations=1000,settle=1ms",
        "handoff:operations=1000,settle=1ms",
        "blob:blobs=2,settle=1ms",
        "churn:chunk=1,cycles=1,high=16MiB,low=1MiB,settle=1ms",
        // 160 requests at once hold 34 MiB, and not the largest request 160 times, which were 240.
        "storm:bursts=1,live=1MiB,requests=200,settle=1ms",
        // No more than the load and the burst can be in flight.
        "storm:bursts=1,in_flight=100000,live=1MiB,requests=100,settle=1ms",
        "sort:records=1000000,settle=1ms,variant=memory",
    ];
    // 92 MiB in glibc's blocks, half of that in jemalloc's.
    let nodes = "list:nodes=3000000,settle=1ms";
    // Two files of 46 MiB: more than there is where they are memory, and no matter where the kernel can write them out.
    match file_system("/dev/shm").as_str() {
        "tmpfs" => careful.push("sort:folder=/dev/shm,records=3000000,settle=1ms,variant=mapped"),
        other => skipped(format_args!("a sort in files on a tmpfs: /dev/shm is {other}")),
    }
    match file_system("/var/tmp").as_str() {
        "tmpfs" => skipped("a sort in files on a disk: /var/tmp is tmpfs"),
        _ => small.push("sort:folder=/var/tmp,records=3000000,settle=1ms,variant=mapped"),
    }
    let study = "study --candidates system jemalloc --threads 1 --repeats 1 --out-dir out --workloads";
    let workloads = [nodes].into_iter().chain(small.iter().copied()).chain(careful.iter().copied());
    let ran = group.allocanary(folder.path(), study.split(' ').chain(workloads));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows.len(), 2 * (1 + small.len() + careful.len()), "every cell is a row");
    for row in rows {
        let failure = row.error.as_ref().map(|failure| failure.kind);
        let wanted = match row.cell.job.name().as_str() {
            workload if small.contains(&workload) => None,
            workload if workload == nodes => (row.cell.allocator == "system").then_some(FailureKind::Refused),
            _ => Some(FailureKind::Refused),
        };
        assert_eq!(failure, wanted, "{}: {:?}", row.cell.title(), row.error);
        for said in row.error.iter().map(|failure| &failure.text) {
            assert!(said.starts_with("parameter") && said.contains("iB of memory, found "), "{said}");
        }
    }
}
