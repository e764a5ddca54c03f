//! Stacks of a real program: each is compared with the one that the C library's `backtrace` has seen at the same place.

use std::collections::BTreeMap;
use std::process::Stdio;

use allocanary_testing::skipped::skipped;
use allocanary_trace::coder::Event;
use allocanary_trace::reader::Trace;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::record::{compiled, compiled_as, traces};
use super::support::{Ran, command};

#[test]
fn stacks_are_those_that_the_c_library_sees_and_outlive_a_kill() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "stacks") else { return };
    let mut command = command(folder.path());
    command.args(["record", "-o", "traces", "--"]).arg(program);
    let ran: Ran = command.stdin(Stdio::null()).finish().unwrap().into();
    // Killed by itself, by SIGKILL.
    assert_eq!(ran.code, Some(137), "{}", ran.err);
    let [path] = &traces(&folder.path().join("traces"))[..] else { panic!("one trace: {}", ran.err) };
    let trace = Trace::open(path).unwrap();
    assert_eq!((trace.has_window(), trace.header.stacks, trace.header.broken), (false, 1, 0));
    let stacks = trace.stacks().unwrap();
    let mut found: BTreeMap<u64, Vec<Vec<String>>> = BTreeMap::new();
    for (thread, _) in trace.threads() {
        for item in trace.stream(thread) {
            if let Event::New { size, .. } = item.event {
                let frames = stacks.frames(item.stack).map(|code| format!("{:x}", code.pc)).collect();
                found.entry(size).or_default().push(frames);
            }
        }
    }
    let mut deep = 0;
    for line in ran.out.lines() {
        let mut words = line.split(' ');
        let size: u64 = words.next().unwrap().parse().unwrap();
        let wanted: Vec<&str> = words.collect();
        // The first frame is another place of the same function. A deeper stack is cut.
        let wanted = &wanted[..wanted.len().min(255)];
        deep += u64::from(wanted.len() == 255);
        let found = &found[&size];
        assert!(found.iter().any(|frames| frames[1..] == *wanted), "{size}: wanted {wanted:?}, found {found:?}");
    }
    assert!(ran.out.lines().count() > 600 && deep > 0 && trace.header.cut >= deep);
    let names: Vec<&str> = stacks.modules.iter().map(|module| module.path.as_str()).collect();
    assert!(
        names.iter().any(|name| name.ends_with("/stacks")) && names.iter().any(|name| name.ends_with("libc.so.6")),
        "{names:?}"
    );
}

#[test]
fn blocks_of_a_closed_library_have_its_names_though_another_one_lies_there_later() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    for (name, blocks) in [("first", "20"), ("second", "21")] {
        let defines = [format!("-DNAME={name}"), format!("-DBLOCKS={blocks}")];
        let flags = ["-DLIBRARY", "-g", "-shared", "-fPIC", &defines[0], &defines[1]];
        let Some(_) = compiled_as(folder.path(), "closed", &format!("{name}.so"), &flags) else { return };
    }
    let program = compiled_as(folder.path(), "closed", "closed", &["-ldl"]).unwrap();
    let mut recorded = command(folder.path());
    recorded.args(["record", "-o", "traces", "--"]).arg(program).args(["./first.so", "first", "./second.so", "second"]);
    let ran: Ran = recorded.stdin(Stdio::null()).finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let places: Vec<&str> = ran.out.lines().collect();
    assert_eq!(places[0], places[1], "both lie at one place");
    let [path] = &traces(&folder.path().join("traces"))[..] else { panic!("one trace: {}", ran.err) };
    let mut who = command(folder.path());
    let ran: Ran = who.args(["who", "--json"]).arg(path).finish().unwrap().into();
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |name: &str| {
        let site = answer["sites"].as_array().unwrap().iter().find(|site| site["name"] == name);
        site.map(|site| site["blocks"].as_u64().unwrap())
    };
    assert_eq!([of("first"), of("second")], [Some(200), Some(210)], "{}", ran.out);
}
