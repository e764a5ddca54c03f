//! Tests of the texts and the page, from saved readings.

use super::many::all;
use super::*;
use allocanary_doctor::remedies::{CallCheck, CallChecks, remedies};
use allocanary_heap::{Part, Reading};

const LOOK: TerminalStyle = TerminalStyle { color: false, width: 80 };

fn reading(name: &str) -> Reading {
    let path = format!("{}/../../tests/golden/heap-{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// glibc's call can be made.
fn passed() -> CallChecks {
    let mut checks = CallChecks::default();
    checks.add("glibc", CallCheck::Passed);
    checks
}

/// A process without children, read in so many milliseconds.
fn seen(millis: u64) -> crate::views::door::Seen {
    crate::views::door::Seen { took: std::time::Duration::from_millis(millis), ..Default::default() }
}

#[test]
fn children_that_have_more_are_told_of_with_the_line_that_reads_them() {
    use crate::views::door::{Descendants, Seen, screen};
    let reading = reading("after");
    let of = |count, resident| {
        let below = Descendants { count, resident };
        screen(&reading, &[], &Seen { below, ..Seen::default() }, &LOOK)
    };
    let said = of(3, 2 << 30);
    let sentence = "The 3 processes below it have 2.0 GiB, shared pages counted in each. This line reads all of them:";
    assert!(said.replace('\n', " ").contains(sentence), "{said}");
    assert!(said.contains("\n  allocanary 812 --tree\n"), "the line can be pasted: {said}");
    assert!(of(1, 2 << 30).contains("The 1 process below it has 2.0 GiB"));
    assert!(!of(3, 1 << 20).contains("--tree"), "the process itself has more");
}

#[test]
fn a_line_that_no_shell_takes_has_its_place_and_what_is_left_out_has_its_line() {
    use allocanary_doctor::remedies::{Gives, PasteLine, Remedy, Who};
    let remedy = |place: &str| Remedy {
        check: None,
        id: "one".into(),
        what: "end it".into(),
        who: Who::OperatorNow,
        gives: Gives::Exact { bytes: 1 << 20 },
        evidence: "It is old.".into(),
        cost: String::new(),
        lines: vec![PasteLine::new(place, "END")],
    };
    let all = ["SQL", "shell", "environment"].map(remedy);
    let said = crate::views::remedies::list(&all, 2, 812, &LOOK);
    assert!(said.contains("\n   In SQL:\n     END\n") && said.matches("   In ").count() == 1, "{said}");
    assert!(said.ends_with("   and 1 more: `allocanary heap 812` shows all\n"), "{said}");
}

#[test]
fn remedies_are_told_with_their_lines_and_small_parts_are_not() {
    let reading = reading("after");
    let remedies = remedies(&reading, None, &passed());
    let text = text(&reading, &remedies, &LOOK);
    assert!(text.contains(&format!("\n     allocanary give-back {}\n", reading.process.pid)), "{text}");
    assert!(text.contains("1. Now, ") && text.contains("calls `malloc_trim(0)`"), "{text}");
    assert!(!text.contains("  - cached by threads"), "it is less than a twentieth: {text}");
    assert!(text.contains("its share of its pages (PSS) is"), "{text}");
    let mut nothing = reading.clone();
    nothing.heaps[0].remedies[0].bytes = 0;
    let said = super::text(&nothing, &allocanary_doctor::remedies::remedies(&nothing, None, &passed()), &LOOK);
    assert!(!said.contains("give-back"), "what gives nothing back is no remedy: {said}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_page_has_the_parts_the_arenas_and_no_script() {
    let mut readings = [reading("before"), reading("after")];
    readings[1].process.name = "<b>".into();
    let text = page(&readings, &[]);
    assert!(text.contains("The memory of &lt;b&gt;") && !text.contains("<b>&"), "{text}");
    for wanted in
        ["Where it is", "Over time", "Parts over time", "Live bytes in a page of glibc", "thread arena 1", "What to do"]
    {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(!text.contains("<script") && !text.contains("http:") && !text.contains("https:"), "it fetches nothing");
    assert!(!page(&readings[1..], &[]).contains("Over time"), "one reading has no course");
    assert_eq!(page(&[], &[]), "");
}

/// Anybody may have written a saved reading.
#[test]
fn a_saved_reading_cannot_steer_the_terminal() {
    let mut reading = reading("after");
    let evil = "a\u{1b}[31mb";
    reading.heaps[0].version = evil.into();
    reading.heaps[0].remedies[0].name = evil.into();
    reading.process.name = evil.into();
    for area in &mut reading.areas {
        (area.name, area.how, area.tool) = (evil.into(), evil.into(), evil.into());
    }
    let difference = allocanary_heap::Difference::of(&reading, &super::tests::reading("before"));
    for text in [text(&reading, &[], &LOOK), all(&[reading.clone()], &LOOK), super::difference(&difference, &LOOK)] {
        assert!(!text.contains('\u{1b}') && !text.is_empty(), "{text:?}");
    }
}

#[test]
fn a_map_has_a_square_for_each_stretch() {
    let mut reading = reading("after");
    let heap = &mut reading.heaps[0];
    let mut parts = allocanary_heap::Parts::default();
    parts.add(Part::Live, 4096);
    parts.add(Part::FreePages, 12288);
    heap.map.bytes = 16384;
    heap.map.arenas = vec!["main arena".into(), "thread arena 1".into()];
    heap.map.stretches =
        (0..50).map(|at| allocanary_heap::ArenaStretch { from: at << 14, arena: at as u32 % 2, parts }).collect();
    let by_part = map::by_part(heap).unwrap().drawing.into_string();
    assert_eq!((by_part.matches("<g>").count(), by_part.matches("class=\"part-live\"").count()), (50, 50));
    let by_arena = map::by_arena(heap).unwrap().drawing.into_string();
    assert_eq!(by_arena.matches("fill:var(--candidate-0)").count(), 25, "thread arena 1 has the most");
}

#[test]
fn processes_are_in_the_order_of_their_overhead() {
    let (mut before, after) = (reading("before"), reading("after"));
    before.process.name = "smaller".into();
    let text = all(&[before.clone(), after.clone()], &LOOK);
    let at = |name: &str| text.find(name).unwrap();
    assert!(at("service") < at("smaller"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let once = tree(&[before.clone(), after.clone()], &LOOK);
    let sentence = "in 2 processes, shared pages counted once: 645 MiB glibc: free pages, ";
    assert!(once.replace('\n', " ").contains(sentence), "{once}");
    let one = tree(std::slice::from_ref(&after), &LOOK);
    assert!(one.contains("in 1 process, shared pages "), "{one}");
    before.heaps[0].share = None;
    let each = tree(&[before, after], &LOOK);
    assert!(each.contains("in 2 processes, shared pages counted in each") && !each.contains("once:"), "{each}");
    assert!(each.contains("--exact-shares"), "{each}");
}

#[test]
fn lines_of_processes_stand_under_their_head_and_those_with_the_most_overhead_are_named_again() {
    let (small, mut large) = (reading("before"), reading("after"));
    large.process.name = "a-name-of-fifteen\u{1b}".into();
    let mut lines = ProcessLines::default();
    let first = lines.line(&small, &LOOK);
    let columns = |line: &str| line.split_whitespace().count();
    let [head, line] = first.lines().collect::<Vec<_>>()[..] else { panic!("{first}") };
    assert!(head.starts_with("  process ") && columns(head) == 8 && head.find("pid").unwrap() < 30, "{first}");
    assert_eq!(head.find(" malloc").map(|at| line[at..].starts_with(" glibc")), Some(true), "{first}");
    assert!(
        !lines.end(&LOOK).contains("the most overhead")
            && lines.end(&LOOK).contains("overhead: what the allocator has")
    );
    let all: String = (0..6).map(|at| lines.line(if at == 4 { &large } else { &small }, &LOOK)).collect();
    assert_eq!(all.lines().count(), 6, "the head stands once");
    assert!(all.lines().chain(first.lines()).all(|line| line.chars().count() <= 80), "{first}{all}");
    let end = lines.end(&LOOK);
    let (_, most) = end.split_once("Of 7 processes these have the most overhead:\n").unwrap();
    assert!(most.starts_with("  a-name-of-fifteen\u{fffd}") && !all.contains('\u{1b}'), "{end:?}");
    assert!(most.lines().nth(4).unwrap().contains("glibc") && most.lines().nth(5) == Some(""), "{end}");
}

#[test]
fn what_is_not_divided_is_marked_in_every_line() {
    let mut reading = reading("after");
    assert!(!line(&reading).contains("not analysed") && !all(&[reading.clone()], &LOOK).contains("not analysed"));
    reading.undivided = vec!["mimalloc".into()];
    assert!(line(&reading).ends_with("  mimalloc not analysed\n"));
    assert!(all(&[reading.clone()], &LOOK).contains("glibc; mimalloc, not analysed"));
    reading.heaps[0].sure = allocanary_heap::PartsCertainty::NotKnown;
    assert!(line(&reading).ends_with("  glibc, mimalloc not analysed\n"));
    reading.heaps.clear();
    assert!(all(&[reading], &LOOK).contains(" mimalloc, not analysed"));
}

#[test]
fn a_line_over_time_stands_under_its_head() {
    let line = line(&reading("after"));
    assert_eq!(head().trim_end().chars().count(), line.trim_end().chars().count(), "{}{line}", head());
}

#[test]
fn the_door_is_one_screen_with_the_first_remedy() {
    let reading = reading("after");
    let text = crate::views::door::screen(&reading, &remedies(&reading, None, &passed()), &seen(20), &LOOK);
    assert!(text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("\n1. Now, 520.0 MiB: ") && text.contains("read in 20.0 ms"), "{text}");
    assert!(!text.contains("The kernel counts"), "{text}");
    let mut moving = reading.clone();
    moving.kernel.resident += 100 << 20;
    let text = crate::views::door::screen(&moving, &remedies(&moving, None, &passed()), &seen(0), &LOOK);
    assert!(text.contains("memory moved while it was read"), "{text}");
    let mut nothing = reading;
    nothing.heaps[0].remedies.clear();
    let text = crate::views::door::screen(&nothing, &remedies(&nothing, None, &passed()), &seen(0), &LOOK);
    assert!(text.replace('\n', " ").contains("No call can give memory back: the program holds 31 %"), "{text}");
}
