use std::process::Command;

use super::request::WireError;
use super::*;
use crate::{ProcessSubject, Shares};

/// A child that is a shell script. It says that it is ready, and then executes this.
fn child(script: &str) -> HeldChild {
    HeldChild::of(Command::new("sh").arg("-c").arg(format!("echo ready; {script}")), 7 << 20).unwrap()
}

fn ask(child: &mut HeldChild, line: &str, time: Duration) -> Result<String, Cost> {
    child.ask(line, &RequestSubject::default(), Instant::now() + time, time, 7 << 20)
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_child_answers_line_by_line() {
    let mut child = child(r#"while read -r line; do echo "$line!"; done"#);
    assert_eq!(ask(&mut child, "one", LONG).unwrap(), "one!");
    assert_eq!(ask(&mut child, "two", LONG).unwrap(), "two!");
}

#[test]
fn a_child_that_is_late_is_told_and_killed() {
    let mut late = child("exec sleep 1000");
    let time = Duration::from_millis(10);
    assert_eq!(ask(&mut late, "one", time), Err(Cost::Time(time)));
    let pid = late.pid();
    drop(late);
    assert!(ProcessSubject::of(pid).is_none(), "it is killed and waited for");
}

#[test]
fn the_end_of_a_child_is_told() {
    let ends = |script: &str| ask(&mut child(script), "one", LONG).unwrap_err();
    assert_eq!(ends("read line; exit 71"), Cost::Memory(7 << 20));
    assert_eq!(ends("read line; exit 3"), Cost::Ended("ended with code 3".into()));
    assert_eq!(ends("read line; kill -SEGV $$"), Cost::Ended("was ended by signal 11".into()));
    assert_eq!(ends("read line; exec tr '\\0' x < /dev/zero"), Cost::Ended("answered more than 32 MiB".into()));
    let error = HeldChild::of(&mut Command::new("/nowhere/at/all"), 0).unwrap_err().to_string();
    assert!(error.starts_with("the child that was to read it could not be started: No such file"), "{error}");
}

/// The answers of a child to these requests.
fn served(requests: &[ReadRequest]) -> Vec<ReaderReply> {
    let mut requests = requests.iter().map(|one| serde_json::to_string(one).unwrap());
    let mut lines: Vec<String> = Vec::new();
    let tell = |line: &str| {
        lines.push(line.into());
        Ok(())
    };
    serve_here(|| Ok(requests.next()), tell, |text| format!("{text}?")).unwrap();
    assert_eq!(lines[0], "ready");
    lines[1..].iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requests_and_answers_survive_their_lines() {
    let process = |pid, map| ReadRequest {
        of: ReadingSource::Process { pid, stopped: false, shares: Shares::NotRead },
        time: Duration::MAX,
        map,
    };
    let core = ReadRequest { of: ReadingSource::Core("/nowhere\n/core".into()), ..process(0, true) };
    let other = ReadRequest { of: ReadingSource::Other("a\nb".into(), RequestSubject::default()), ..process(0, true) };
    // Reads a process that waits. The heap of this test process changes during the walk, because other tests run, and
    // would then have no map.
    let waits = child("read line");
    let pid = waits.pid();
    let answers = served(&[process(pid, true), process(0x3fff_ffff, true), core, other, process(pid, false)]);
    let [
        ReaderReply::Reading(whole),
        ReaderReply::Trouble(gone),
        ReaderReply::Trouble(core),
        ReaderReply::Other(other),
        ReaderReply::Reading(small),
    ] = &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!((whole.process.pid, gone, other.as_str()), (pid, &WireError::Gone(0x3fff_ffff), "a\nb?"));
    assert!(matches!(core, WireError::Text(text) if text.contains("/nowhere\n/core: No such file")), "{core:?}");
    assert!(whole.heaps.iter().any(|heap| !heap.map.is_empty()) && small.heaps.iter().all(|heap| heap.map.is_empty()));
}

#[test]
fn a_program_that_cannot_be_a_child_reads_by_itself() {
    let mut reader = Reader::new(MEMORY);
    let own = std::process::id();
    assert_eq!(reader.take(own, ReadMode::Running, LONG).unwrap().process.pid, own);
    assert!(matches!(reader.take(0x3fff_ffff, ReadMode::Running, LONG), Err(ProcessTrouble::Gone(_))));
    let crowd = Crowd { workers: 2, memory: MEMORY, time: LONG, map: false, shares: Shares::NotRead };
    let mut told = Vec::new();
    let pids = [own, 0x3fff_ffff, own, own];
    let all: Result<(), ()> = crowd.read(&pids, |pid, read| {
        told.push((pid, read.is_ok()));
        Ok(())
    });
    told.sort_unstable();
    assert_eq!(all, Ok(()));
    assert_eq!(told, [(own, true), (own, true), (own, true), (0x3fff_ffff, false)]);
    assert_eq!(crowd.read(&pids, |_, _| Err("full")), Err("full"));
}

#[test]
fn what_costs_too_much_is_named() {
    let of = |of| ReadRequest { of, time: LONG, map: false }.costly(Cost::Time(LONG)).to_string();
    assert_eq!(
        of(ReadingSource::Process { pid: 7, stopped: false, shares: Shares::NotRead }),
        "process 7: reading it took more than 60 s"
    );
    let core = "/core: reading it took more than 60 s; --timeout and --reader-memory allow more";
    assert_eq!(of(ReadingSource::Core("/core".into())), core);
}

#[test]
fn a_child_gets_a_moment_more_than_its_time() {
    let grace = |time| {
        ReadRequest { of: ReadingSource::Other(String::new(), RequestSubject::default()), time, map: false }
            .time_with_grace()
            - time
    };
    let seconds = [0, 3, 10, 60].map(|seconds| grace(Duration::from_secs(seconds)).as_secs_f64());
    assert_eq!(seconds, [0.5, 0.5, 1.0, 2.0]);
}
