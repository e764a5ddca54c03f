//! Writes the doctor's diagnosis as a page, from facts and judgements.

use super::advice::advice;
use super::arenas::arena_limit;
use super::defaults::defaults;
use super::environment::{PRELOAD, Remark, examine};
use super::flavour::Flavour;
use super::host::Surroundings;
use super::identity::{Certainty, PROFILER, ProcessAllocator, RECORDER, file_name, preload_of};
use super::judgement::{Advice, ArenaLimit};
use super::notice::Notice;
use super::page::{TextPage, Tone};
use super::process::ProcessFacts;
use super::remedies::{CallChecks, conclusion, remedies};
use super::seen::{Libraries, ProcessTraits};
use super::variables::{VariableEffect, Variables};
use allocanary_heap::{Reading, answer};
use allocanary_sys::proc::kinds::Mappings;
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::{Bytes, OneDecimal, Unit};

/// The diagnosis of this host, and of any program that is started from this environment.
pub fn of_host(at: &Surroundings, variables: &Variables, look: TerminalStyle) -> String {
    let mut page = TextPage::new(look);
    surroundings(&mut page, at);
    page.heading("What allocators make of it, if nobody sets anything");
    for default in defaults(at) {
        page.item(default.allocator, &default.text, if default.oversized { Tone::Doubt } else { Tone::Plain });
    }
    page.heading("Environment and links");
    environment(&mut page, &examine(variables, None, &Libraries::default()), None);
    changes(&mut page, &advice(at, variables, None, &ProcessTraits::default()));
    page.finish()
}

/// The diagnosis of a running process, with the parts of its memory if it was read.
pub fn of_process(
    process: &ProcessFacts,
    reading: Option<&Reading>,
    checks: &CallChecks,
    look: TerminalStyle,
) -> String {
    let mut page = TextPage::new(look);
    let flavours = process.identity.flavours();
    page.heading(&format!("Process {}: {}", process.pid, process.program));
    if !process.command.is_empty() {
        page.item("command", &process.command, Tone::Plain);
    }
    allocators(&mut page, process, reading);
    page.heading("Memory");
    memory(&mut page, process, reading);
    surroundings(&mut page, &process.surroundings);
    page.heading("Environment that it was started with, and links");
    let seen = &process.seen;
    let remarks = examine(&process.variables, Some(&flavours), &seen.libraries);
    if seen.overwritten {
        page.item("overwritten", OVERWRITTEN, Tone::Doubt);
    }
    if !seen.overwritten || !remarks.is_empty() {
        environment(&mut page, &remarks, Some(&flavours));
    }
    page.heading("What to do");
    match reading {
        Some(reading) => to_do(&mut page, process, reading, checks),
        None => page.item("", "not known: the memory of the process could not be read", Tone::Doubt),
    }
    page.finish()
}

/// The remedies, and at the end what to do first.
fn to_do(page: &mut TextPage, process: &ProcessFacts, reading: &Reading, checks: &CallChecks) {
    let remedies = remedies(reading, Some(process), checks);
    for remedy in &remedies {
        page.item("", &format!("{}. {}", remedy.title(), remedy.details()), Tone::Plain);
        remedy.first_lines().for_each(|line| page.verbatim(line));
    }
    let by_variable = remedies.iter().any(|one| one.lines.iter().any(|line| line.place == "environment"));
    if process.seen.overwritten && by_variable {
        let text =
            "Whether it has these variables already cannot be seen. A value that you set replaces the one it has.";
        page.item("note", text, Tone::Doubt);
    }
    if !remedies.is_empty() {
        page.blank();
    }
    page.below(&conclusion(reading, &remedies), Tone::Good);
}

const OVERWRITTEN: &str = "unknown: the program has written over its environment, as setproctitle does, and what it was \
                           started with is gone from there; look where it is started (service, container, script)";

fn surroundings(page: &mut TextPage, at: &Surroundings) {
    page.heading("Host and container");
    for (label, text) in at.lines() {
        let doubt = label == "CPU quota" && at.cpus.trouble.is_some();
        page.item(label, &text, if doubt { Tone::Doubt } else { Tone::Plain });
    }
}

/// The heap that holds most of the memory, if it is not that of the allocator which `malloc` is.
fn holds_most(reading: &Reading, main: Flavour) -> Option<String> {
    let largest = reading.heaps.iter().max_by_key(|heap| heap.resident)?;
    let all: u64 = reading.heaps.iter().map(|heap| heap.resident).sum();
    let is_main = main.allocator().is_some_and(|allocator| allocator.heap == largest.allocator);
    (!is_main).then(|| {
        format!(
            "{} has {} of the {} in heaps; `malloc` itself is another allocator",
            largest.allocator,
            OneDecimal(largest.resident),
            OneDecimal(all)
        )
    })
}

fn allocators(page: &mut TextPage, process: &ProcessFacts, reading: Option<&Reading>) {
    let identity = &process.identity;
    let mut found = |label: &str, found: &ProcessAllocator| {
        let sure = match found.sure {
            Certainty::Yes => "sure",
            Certainty::Likely => "likely",
        };
        let tone = if found.flavour == Flavour::Unknown { Tone::Doubt } else { Tone::Good };
        page.item(label, &format!("{} ({sure}: {})", found.flavour.name(), found.how), tone);
        if let Flavour::RustJemalloc { installs } = found.flavour {
            page.below(
                match installs {
                    true if preload_of(&found.file).is_some() => {
                        "its names have the prefix _rjem_; the preload hands MALLOC_CONF on to it, so that counts too"
                    }
                    true => {
                        "its names have the prefix _rjem_; the program uses install!, so MALLOC_CONF counts too, and \
                         settings in its code"
                    }
                    false => "its names have the prefix _rjem_: it reads _RJEM_MALLOC_CONF, not MALLOC_CONF",
                },
                Tone::Plain,
            );
        }
    };
    found("allocator", &identity.main);
    if let Some(c) = &identity.c {
        found("C code has", c);
    }
    if let Some(text) = reading.and_then(|reading| holds_most(reading, identity.main.flavour)) {
        page.item("holds most", &text, Tone::Good);
    }
    if let Some(version) = process.seen.libraries.jemalloc.as_ref().filter(|_| has_jemalloc(process)) {
        page.below(&format!("jemalloc {version}, as its file says"), Tone::Plain);
    }
    let limit = arena_limit(&process.surroundings, &process.variables, &process.identity.flavours(), &process.seen);
    if let Some(ArenaLimit::Host(default)) = limit {
        page.item("arenas", &default.text, Tone::Doubt);
    }
    if process.seen.background_threads > 0 {
        let text = match process.seen.background_threads {
            1 => "1 of its threads is jemalloc's: background_thread is on".to_string(),
            count => format!("{count} of its threads are jemalloc's: background_thread is on"),
        };
        page.below(&text, Tone::Plain);
    }
    for notice in process.notices.iter().filter(|notice| !notice.preload) {
        page.item("install!", &format!("sets {} in {}", notice.line(), notice.file), Tone::Good);
    }
    let paths = || process.maps.files.iter().map(|file| &file.path);
    for path in paths().filter(|path| preload_of(path).is_some()) {
        let (settings, tone) = preload_settings(process, path);
        page.item("preload", &format!("{path}, {settings}"), tone);
    }
    if let Some(path) = paths().find(|path| file_name(path) == RECORDER) {
        page.item("recorder", &format!("{path} records each call and hands it on to the allocator"), Tone::Plain);
    }
    if let Some(path) = paths().find(|path| file_name(path) == PROFILER) {
        page.item("profiler", &format!("{path} samples calls and hands each on to the allocator"), Tone::Plain);
    }
    for note in &identity.notes {
        page.item("note", note, Tone::Doubt);
    }
}

/// The settings of a preload, as it left them in the process's memory.
fn preload_settings(process: &ProcessFacts, path: &str) -> (String, Tone) {
    let notice = process.notices.iter().find(|notice| notice.preload && notice.file == path);
    let asked = process.variables.get(PRELOAD).filter(|text| !text.is_empty());
    match (notice, asked) {
        (Some(Notice { refused: Some(refused), .. }), _) => {
            (format!("which refused its settings: {refused}; none of them holds"), Tone::Bad)
        }
        (Some(notice), _) => (format!("sets {}", notice.line()), Tone::Good),
        (None, Some(asked)) => (format!("asked for `{asked}`; whether it holds could not be read"), Tone::Doubt),
        (None, None) if process.seen.overwritten => {
            ("without settings, or none could be read".to_string(), Tone::Doubt)
        }
        (None, None) => (format!("without settings ({PRELOAD} was not set)"), Tone::Good),
    }
}

fn has_jemalloc(process: &ProcessFacts) -> bool {
    process.identity.flavours().into_iter().any(Flavour::is_jemalloc)
}

fn memory(page: &mut TextPage, process: &ProcessFacts, reading: Option<&Reading>) {
    let memory = &process.memory;
    let bytes = |size: Option<u64>| size.map_or_else(|| "unknown".to_string(), |size| Bytes(size).to_string());
    let kinds = format!(
        "{}: {} anonymous (heaps, stacks), {} of files, {} shared memory",
        bytes(memory.rss),
        bytes(memory.anonymous),
        bytes(memory.file),
        bytes(memory.shmem)
    );
    page.item("resident", &kinds, Tone::Plain);
    if let Some(parts) = &process.parts {
        page.item("parts", &parts_of(parts), Tone::Plain);
        let divided = reading.is_some();
        page.below(&most_of(parts, process.identity.main.flavour, memory.threads, divided), Tone::Plain);
    }
    if let Some(reading) = reading {
        divided(page, reading);
    }
    let text = format!(
        "not read: `allocanary heap {} --exact-shares` reads which pages are shared (private, PSS) and lazily freed (MADV_FREE), and its help \
         says at what cost",
        process.pid
    );
    page.item("shares", &text, Tone::Plain);
    let maps = &process.maps;
    let count = |count: usize| Unit::Count.show(count as f64);
    let text = format!(
        "[heap] {}; {} anonymous, {} together; {} kept without access, {}",
        Bytes(maps.heap),
        count(maps.anonymous.0),
        Bytes(maps.anonymous.1),
        count(maps.reserved.0),
        Bytes(maps.reserved.1)
    );
    page.item("mappings", &text, Tone::Plain);
    page.item("threads", &memory.threads.map_or_else(|| "unknown".into(), |count| count.to_string()), Tone::Plain);
}

/// The kinds of mappings. Their sum is the resident memory.
fn parts_of(parts: &Mappings) -> String {
    format!(
        "{} of the program and its libraries, {} stacks, {} [heap], {} other anonymous, {} shared and other; of [heap] and \
         anonymous {} in huge pages; not resident: {} in swap",
        Bytes(parts.program),
        Bytes(parts.stacks),
        Bytes(parts.brk),
        Bytes(parts.heap - parts.brk),
        Bytes(parts.other),
        Bytes(parts.huge),
        Bytes(parts.swap)
    )
}

/// The parts of the heap. If it could not be divided into parts, the reason.
fn divided(page: &mut TextPage, reading: &Reading) {
    page.item("analysed", &answer::answer(reading), Tone::Plain);
    for heap in &reading.heaps {
        page.below(&answer::how_sure(heap), Tone::Plain);
    }
    for problem in &reading.problems {
        page.below(problem, Tone::Doubt);
    }
    page.below(&format!("`allocanary heap {}` shows all parts and arenas", reading.process.pid), Tone::Plain);
}

/// Where most of the memory is, and what that means. `divided` says that the parts of the heap follow.
fn most_of(parts: &Mappings, allocator: Flavour, threads: Option<u64>, divided: bool) -> String {
    let kinds = [parts.program, parts.stacks, parts.heap, parts.other];
    let most = kinds.into_iter().max().unwrap_or(0);
    let said = match kinds.iter().position(|bytes| *bytes == most) {
        Some(0) => "the program and its libraries: no allocator's setting changes that".to_string(),
        Some(1) => {
            let threads = threads.map_or_else(String::new, |threads| format!(" of {threads} threads"));
            format!("stacks{threads}: no allocator's setting changes that, smaller stacks or fewer threads do")
        }
        Some(2) if divided => "heap".to_string(),
        Some(2) => format!(
            "heap; from outside, live blocks and what {} keeps look alike: `allocanary run`, `record` and `replay` show \
             which allocator needs less",
            allocator.name()
        ),
        _ => "shared memory: no allocator's setting changes that".to_string(),
    };
    format!("the most, {} of {}, is {said}", Bytes(most), Bytes(parts.rss()))
}

fn environment(page: &mut TextPage, remarks: &[Remark], subject: Option<&[Flavour]>) {
    if remarks.is_empty() {
        let text = match subject {
            None => "no variable that configures an allocator is set, and jemalloc has no link in /etc",
            Some(_) => "no variable that configures an allocator was set, and jemalloc has no link in /etc",
        };
        page.item("", text, Tone::Plain);
    }
    for remark in remarks {
        let sign = if remark.variable.starts_with('/') { " -> " } else { "=" };
        page.verbatim(&format!("{}{sign}{}", remark.variable, remark.value));
        let (word, tone) = match remark.verdict {
            VariableEffect::Read => ("read", Tone::Good),
            VariableEffect::Depends => ("depends", Tone::Doubt),
            VariableEffect::Ignored => ("ignored", Tone::Bad),
        };
        page.item(word, &remark.text, tone);
        for problem in &remark.problems {
            page.item("wrong", problem, Tone::Bad);
        }
    }
}

/// Settings in general, for programs that are started here.
fn changes(page: &mut TextPage, advice: &[Advice]) {
    page.heading("Settings that follow the processors, ready to paste");
    let text = match advice {
        [] => "nothing: the settings fit",
        _ => "What they give to a program shows in its memory: `allocanary PROCESS` tells it for a running one.",
    };
    page.below(text, Tone::Plain);
    for (number, one) in advice.iter().enumerate() {
        if number > 0 {
            page.blank();
        }
        for (at, reason) in one.reasons.iter().enumerate() {
            page.item(if at == 0 { one.allocator } else { "" }, reason, Tone::Plain);
        }
        if let Some(proven) = one.proven {
            page.item("to try", proven, Tone::Plain);
        }
        page.verbatim(match one.also {
            Some(_) => "# environment: Rust with tikv-jemallocator, then a jemalloc under C's own names",
            None => "# environment",
        });
        one.environment().iter().for_each(|line| page.verbatim(line));
        page.verbatim("# Dockerfile");
        one.dockerfile().iter().for_each(|line| page.verbatim(line));
        page.verbatim("# Kubernetes, below the container's `env:`");
        one.kubernetes().iter().for_each(|line| page.verbatim(line));
        if let Some(install) = &one.install {
            page.verbatim("// Rust, at the root of the program, instead of the above");
            install.lines().for_each(|line| page.verbatim(line));
        }
    }
    if advice.iter().any(|one| one.fewer_arenas) {
        page.blank();
        let text = "Few arenas save memory and may cost speed: `allocanary study` measures both here.";
        page.item("note", text, Tone::Plain);
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::sample;
    use super::*;

    #[test]
    fn the_allocator_that_holds_most_is_named_if_malloc_is_another_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/heap-after.json");
        let mut reading: Reading = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(holds_most(&reading, Flavour::Glibc), None);
        let mut second = reading.heaps[0].clone();
        (second.allocator, second.resident) = ("mimalloc".into(), 9 * second.resident);
        reading.heaps.push(second);
        let said = holds_most(&reading, Flavour::Glibc).unwrap();
        assert!(said.starts_with("mimalloc has 7.5 GiB of the 8.4 GiB in heaps"), "{said}");
    }

    #[test]
    fn a_sentence_says_where_the_most_is() {
        let of = |[program, stacks, heap, other]: [u64; 4]| {
            let parts = Mappings { program, stacks, heap, other, ..Mappings::default() };
            most_of(&parts, Flavour::Glibc, Some(7), false)
        };
        let kib = 1024;
        assert!(of([4 * kib, kib, kib, kib]).starts_with("the most, 4.00 KiB of 7.00 KiB, is the program"));
        assert!(of([kib, 4 * kib, kib, kib]).contains("is stacks of 7 threads"));
        assert!(
            of([kib, kib, 4 * kib, kib]).contains("is heap; from outside, live blocks and what glibc's malloc keeps")
        );
        assert!(of([kib, kib, kib, 4 * kib]).contains("is shared memory"));
        let parts = Mappings { heap: kib, ..Mappings::default() };
        assert_eq!(most_of(&parts, Flavour::Glibc, None, true), "the most, 1.00 KiB of 1.00 KiB, is heap");
        let heap =
            Mappings { program: kib, heap: 3 * kib, brk: 2 * kib, huge: kib, swap: 5 * kib, ..Mappings::default() };
        let said = parts_of(&heap);
        assert!(
            said.contains("2.00 KiB [heap], 1.00 KiB other anonymous") && said.ends_with("5.00 KiB in swap"),
            "{said}"
        );
    }

    /// jemalloc's own table describes a problem with one of its settings.
    #[test]
    fn a_page_for_a_quota_fits_80_columns_and_has_no_colours() {
        let variables =
            [("MALLOC_CONF", "narena:1"), ("MALLOC_ARENA_MAX", "2")].map(|(name, value)| (name.into(), value.into()));
        let text = of_host(&sample(Some(500), "madvise"), &variables.into(), TerminalStyle { color: false, width: 80 });
        for line in [
            "  CPU quota   0.5 CPUs, from /x/cpu.max",
            "  jemalloc    up to 160 arenas: 4 for each of the 40 processors in the affinity",
            "    MALLOC_CONF=narena:1",
            "  wrong       jemalloc has no setting `narena`; perhaps narenas",
            "  to try      narenas:1,tcache:false: in the workload `server` at 40 cores 79 %",
            "    ENV _RJEM_MALLOC_CONF=background_thread:true,narenas:1",
            "    - name: _RJEM_MALLOC_CONF",
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(!text.contains('\x1b') && !text.contains("MALLOC_ARENA_MAX=1"), "{text}");
        let prose = text.lines().filter(|line| !line.starts_with("    ") || line.starts_with("      "));
        assert!(prose.clone().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            of_host(&sample(None, "never"), &Variables::new(), TerminalStyle { color: true, width: 80 })
                .contains("\x1b[1m")
        );
    }
}
