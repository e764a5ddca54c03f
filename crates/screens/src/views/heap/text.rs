//! A reading for a terminal: the answer, the parts, the arenas, what to do, and what was checked.

use std::time::Duration;

use super::columns::columns;
use super::deeper::deeper;
use super::{bold, bytes, item, percent};
use crate::views::remedies::list;
use allocanary_doctor::remedies::{Remedy, conclusion};
use allocanary_heap::{Heap, Part, Parts, Reading, answer, rows};
use allocanary_text::outside::{TerminalStyle, harmless};
use allocanary_text::units::show_duration;

/// The lines of a terminal.
const SCREEN: usize = 24;
/// The number of arenas with a separate line.
const ARENAS: usize = 8;

/// The whole text.
pub fn text(reading: &Reading, remedies: &[Remedy], look: &TerminalStyle) -> String {
    let answer = crate::draw::wrapped(&headline(reading, remedies), look.width.into());
    let mut out = format!("{}\n\n{}\n", bold(&answer, look), parts(reading, look));
    for heap in reading.heaps.iter().filter(|heap| heap.arenas.len() > 1) {
        out.push_str(&format!("{}\n", arenas(heap, look)));
    }
    out.push_str(&format!("{}\n", bold("What to do", look)));
    out.push_str(&list(remedies, remedies.len(), reading.process.pid, look));
    if remedies.is_empty() {
        out.push_str(&item(&conclusion(reading, remedies), look));
    }
    let deeper = deeper(reading);
    if !deeper.is_empty() {
        out.push_str(&format!("\n{}\n", bold("What the parts mean", look)));
        deeper.iter().for_each(|sentence| out.push_str(&item(sentence, look)));
    }
    out.push('\n');
    out.push_str(&format!("{}\n", bold("What was checked, and how sure it is", look)));
    checked(reading).iter().for_each(|sentence| out.push_str(&item(sentence, look)));
    // The answer has scrolled away, so it is repeated at the end.
    if out.lines().count() > SCREEN {
        out.push_str(&format!("\n{}\n", bold(&answer, look)));
    }
    out
}

/// What the memory is, and how much of it can go back.
pub fn headline(reading: &Reading, remedies: &[Remedy]) -> String {
    format!("{}. {}", answer::answer(reading), conclusion(reading, remedies))
}

/// `process 812, redis-server, 4 threads, runs for 2 min 5 s`.
pub fn subject(reading: &Reading) -> String {
    let process = &reading.process;
    let age = process.age(reading.taken / 1000);
    // The process's start is known only in whole seconds.
    let age = if age.is_zero() { "has just started".into() } else { format!("runs for {}", show_duration(age)) };
    let threads = if process.threads == 1 { "1 thread".into() } else { format!("{} threads", process.threads) };
    format!("process {}, {}, {threads}, {age}", process.pid, process.name.harmless())
}

fn parts(reading: &Reading, look: &TerminalStyle) -> String {
    let several = reading.heaps.len() > 1;
    let mut table = vec![["part", "resident", "of all"].map(String::from).to_vec()];
    for row in rows(reading) {
        let name = if several { row.full_name() } else { row.name.clone() };
        let share = format!("{:.1} %", percent(row.resident, reading.resident));
        table.push(vec![name, bytes(row.resident), share]);
    }
    table.push(vec!["all that is resident".into(), bytes(reading.resident), "100.0 %".into()]);
    if reading.kernel.swapped > 0 {
        table.push(vec!["in swap, not resident".into(), bytes(reading.kernel.swapped), String::new()]);
    }
    let title = format!("Parts: {}", subject(reading));
    format!("{}\n{}", bold(&title, look), columns(&table, look))
}

fn arenas(heap: &Heap, look: &TerminalStyle) -> String {
    let heads = ["arena", "threads", "resident", "live", "cached", "frag", "free pg", "rest"];
    let row = |name: &str, threads: Option<u64>, parts: &Parts| {
        let known = [Part::Live, Part::Cached, Part::Fragmentation, Part::FreePages].map(|part| parts.of(part));
        let other = parts.sum() - known.iter().sum::<u64>();
        let figures = [parts.sum(), known[0], known[1], known[2], known[3], other];
        let threads = threads.map_or_else(|| "-".into(), |count| count.to_string());
        let mebibytes = figures.map(|bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20)));
        [name.to_string(), threads].into_iter().chain(mebibytes).collect::<Vec<String>>()
    };
    let mut table = vec![heads.map(String::from).to_vec()];
    // If only one arena would be left out, it gets a line as well.
    let shown = if heap.arenas.len() <= ARENAS + 1 { heap.arenas.len() } else { ARENAS };
    table.extend(heap.arenas[..shown].iter().map(|arena| row(&arena.name, arena.threads, &arena.parts)));
    if let others @ [_, ..] = &heap.arenas[shown..] {
        let mut sum = Parts::default();
        others.iter().for_each(|arena| sum += arena.parts);
        let threads = others.iter().map(|arena| arena.threads).sum();
        table.push(row(&format!("{} others", others.len()), threads, &sum));
    }
    let title = format!("Arenas of {} {}: {} (MiB)", heap.allocator, heap.version, heap.arenas.len());
    format!("{}\n{}", bold(&title, look), columns(&table, look))
}

/// What was checked, one sentence for each check.
pub fn checked(reading: &Reading) -> Vec<String> {
    let mut all: Vec<String> = reading.heaps.iter().map(answer::how_sure).collect();
    all.extend(reading.problems.iter().map(|problem| harmless(problem).into_owned()));
    for heap in reading.heaps.iter().filter(|heap| heap.swapped > 0) {
        let text = format!("{} of the heap of {} are in swap, and were not read", bytes(heap.swapped), heap.allocator);
        all.push(text);
    }
    for area in reading.areas.iter().filter(|area| !area.how.is_empty()) {
        all.push(format!("{}, {}: found by its mappings: {}", area.name, bytes(area.resident), area.how));
    }
    if let Some(micros) = reading.stopped {
        let pause = show_duration(Duration::from_micros(micros));
        all.push(format!("the process was stopped for {pause} while it was read"));
    }
    all.push(shares(reading));
    let counted = reading.kernel.resident;
    let apart = match counted.abs_diff(reading.resident) {
        0 => format!("the parts add up to what the kernel counts, {}", bytes(counted)),
        more => {
            let by = percent(more, counted);
            format!("the kernel counts {}, at another moment: the parts differ by {by:.1} %", bytes(counted))
        }
    };
    all.push(apart);
    all
}

/// A sentence about how many processes share its pages, as far as this is known.
fn shares(reading: &Reading) -> String {
    match (reading.kernel.share, reading.kernel.lazy) {
        (None, _) => {
            "how many processes have its pages (PSS), and what is lazily freed, was not read: --exact-shares reads it"
                .into()
        }
        (Some(share), Some(_)) => format!("its share of its pages (PSS) is {}", bytes(share)),
        (Some(share), None) => {
            format!(
                "its share of its pages (PSS) is {}; what is lazily freed was not read: --exact-shares reads it",
                bytes(share)
            )
        }
    }
}
