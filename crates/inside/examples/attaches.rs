//! Puts the recorder into a process and takes it out again, many times: `attaches PID LIBRARY FOLDER TIMES MILLISECONDS`.
//! Out: one line with the counts. Each time, the words of all tables are read from outside before and after. They must
//! be the same.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use allocanary_inside::attach::{AttachedRecorder, RecorderRequest, Refusal};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, library, folder, times, ms] = arguments.as_slice() else {
        eprintln!("storm: wanted PID LIBRARY FOLDER TIMES MILLISECONDS");
        std::process::exit(2);
    };
    let (Ok(pid), Ok(times), Ok(ms)) = (pid.parse::<u32>(), times.parse::<u32>(), ms.parse::<u64>()) else {
        eprintln!("storm: wanted three numbers; found {arguments:?}");
        std::process::exit(2);
    };
    let asked = RecorderRequest { folder: Path::new(folder).into(), limit: 256 << 20, rate: 1, stacks: 1 };
    let (mut done, mut no_thread, mut differ, mut others, mut left, mut words) = (0, 0, 0, Vec::new(), 0, 0);
    let (mut in_ms, mut out_ms) = (Vec::new(), Vec::new());
    let tables = protected_tables(pid);
    for _ in 0..times {
        let begun = Instant::now();
        let recorder = match AttachedRecorder::attach(pid, Path::new(library), &asked) {
            Ok((recorder, reply)) => {
                left = left.max(reply.left);
                words = words.max(reply.words);
                recorder
            }
            Err(Refusal::NoThread { .. }) => {
                no_thread += 1;
                continue;
            }
            Err(refusal) => {
                others.push(refusal.to_string());
                continue;
            }
        };
        in_ms.push(begun.elapsed().as_millis());
        std::thread::sleep(Duration::from_millis(ms));
        let begun = Instant::now();
        loop {
            match recorder.detach() {
                Ok(reply) => {
                    done += 1;
                    if reply.others > 0 || reply.gone > 0 {
                        others.push(format!("{reply:?}"));
                    }
                    break;
                }
                Err(Refusal::NoThread { .. }) if begun.elapsed() < Duration::from_secs(60) => {}
                Err(refusal) => {
                    others.push(format!("detach: {refusal}"));
                    if begun.elapsed() > Duration::from_secs(60) || !Path::new(&format!("/proc/{pid}")).exists() {
                        break;
                    }
                }
            }
        }
        out_ms.push(begun.elapsed().as_millis());
        let now = protected_tables(pid);
        let is_other = |(at, before): (&u64, &Vec<u8>)| now.get(at).is_some_and(|now| now != before);
        differ += u32::from(tables.iter().any(is_other));
    }
    let runs = Path::new(&format!("/proc/{pid}")).exists();
    let median = |times: &mut Vec<u128>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    };
    println!(
        "times={times} done={done} no_thread={no_thread} others={} tables_differ={differ} words={words} left={left} in_ms={} out_ms={} runs={runs}",
        others.len(),
        median(&mut in_ms),
        median(&mut out_ms)
    );
    others.dedup();
    others.iter().take(5).for_each(|other| eprintln!("storm: {other}"));
}

/// The read-only data of the system's libraries, by address. If the loader has protected their tables, these are in it.
fn protected_tables(pid: u32) -> BTreeMap<u64, Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(memory) = fs::File::open(format!("/proc/{pid}/mem")) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    let is_of_system = |line: &str| [" /usr/lib/", " /lib/"].iter().any(|folder| line.contains(folder));
    let is_library = |line: &&str| line.contains(" r--p ") && line.contains(".so") && is_of_system(line);
    for line in maps.lines().filter(is_library) {
        let Some((from, to)) = line.split(' ').next().and_then(|range| range.split_once('-')) else { continue };
        let [Ok(from), Ok(to)] = [from, to].map(|number| u64::from_str_radix(number, 16)) else { continue };
        let mut bytes = vec![0; (to - from).min(1 << 20) as usize];
        if memory.read_exact_at(&mut bytes, from).is_ok() {
            found.insert(from, bytes);
        }
    }
    found
}
