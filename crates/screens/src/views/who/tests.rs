use allocanary_names::{NameSource, NamedFrame};
use allocanary_trace::stacks::Resident;
use allocanary_who::course::GrowthSpan;
use allocanary_who::moment::Peak;
use allocanary_who::pages::{Divided, Share};
use allocanary_who::slope::Slope;
use allocanary_who::{By, MomentChoice, TracePoint};

use super::*;

const MIB: u64 = 1 << 20;

fn site(name: &str, pinned: u64, alone: u64, live: u64, short: u64, grows: bool) -> AllocationSite {
    AllocationSite {
        name: name.into(),
        frame: NamedFrame {
            function: name.into(),
            source: NameSource::Debug,
            file: "/src/dict.c".into(),
            line: 41,
            module: "redis-server".into(),
            ..NamedFrame::default()
        },
        allocations: 1000,
        bytes: 4 * live,
        short,
        short_bytes: short * 100,
        blocks: 500,
        live,
        ended: 0,
        slope: Some(if grows { GROWS } else { Slope { per_second: 0.0, low: -100.0, high: 100.0 } }),
        grows,
        share: Share { live, untouched: 0, pinned, alone, with_holes: 2 * alone },
    }
}

/// 1.2 MiB a minute.
const GROWS: Slope = Slope { per_second: 20_971.52, low: 20_097.71, high: 22_020.1 };

/// A service whose heap has 107 MiB, of which 40 are pinned by two sites, and 20 are empty.
pub fn found() -> SiteReport {
    let marks = allocanary_trace::format::Marks { ready: None, peak: None, idle: Some(12_300_000_000) };
    let residents = [Resident { mark: 2, ranges: Vec::new() }];
    let sites = vec![
        site("dictAddRaw", 24 * MIB, 4 * MIB, 20 * MIB, 10, true),
        site("_sdsnewlen", 16 * MIB, MIB / 2, 24 * MIB, 900, false),
        site("(no stack)", 0, 0, 3 * MIB, 0, false),
        AllocationSite {
            frame: NamedFrame::default(),
            ..site("a_function_with_a_name_that_is_longer_than_the_line", 0, 0, 0, 5, false)
        },
    ];
    SiteReport {
        program: "redis-server".into(),
        moment: TracePoint::of(Some(MomentChoice::Idle), &marks, &residents).unwrap().unwrap(),
        nanos: 12_300_000_000,
        by: By::Function,
        pages: Divided {
            shares: sites.iter().map(|site| site.share).collect(),
            holding: 87 * MIB,
            empty: Some(20 * MIB),
            outside: Some(3 * MIB),
        },
        sites,
        span: Some(GrowthSpan {
            from: 1_000_000_000,
            to: 9_000_000_000,
            words: "from ready until the end of the load",
        }),
        freed_from_before: None,
        one_in: None,
        wrappers: Vec::new(),
        notes: vec!["/usr/bin/redis-server is not the file that was recorded: its names are not used".into()],
    }
}

const TABLE: &str = "\
redis-server, when idle: 40.0 MiB of 107 MiB of the heap's resident pages are
pinned by survivors of `dictAddRaw`. Another 20.0 MiB are empty pages that
nobody pins: the allocator keeps them.

Pages of the heap, when idle (12.3 s after the start)
  part                                         bytes   of all
  requested: live blocks                    47.0 MiB   43.9 %
  pinned: free, in pages with a live block  40.0 MiB   37.4 %
  empty pages: nobody pins them             20.0 MiB   18.7 %
  all                                        107 MiB  100.0 %

Sites by function: 4, those that pin most first
  site                      pinned     alone  requested  allocated  short
  dictAddRaw              24.0 MiB  4.00 MiB   20.0 MiB   80.0 MiB    1 %  grows
  _sdsnewlen              16.0 MiB   512 KiB   24.0 MiB   96.0 MiB   90 %
  (no stack)                   0 B       0 B   3.00 MiB   12.0 MiB    0 %
  a_function_with_a_n...       0 B       0 B        0 B        0 B    0 %

`dictAddRaw` grows by 1.20 MiB a minute [1.15, 1.26], from ready until the end
of the load.

What limits these figures
  - /usr/bin/redis-server is not the file that was recorded: its names are not
    used
";

/// Shows this many sites, those that pin most first.
fn top(top: usize) -> SiteDisplay {
    SiteDisplay { top: Some(top), order: Some(SiteOrder::Pinned) }
}

#[test]
fn a_terminal_of_80_columns_has_the_answer_first() {
    let said = text(&found(), None, top(15), &TerminalStyle { color: false, width: 80 });
    assert_eq!(said, TABLE, "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn the_sites_below_the_top_are_added_up_and_a_wide_terminal_has_all_columns() {
    let said = text(&found(), None, top(1), &TerminalStyle { color: false, width: 120 });
    let line = |name: &str| {
        let line = said.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(line("site ").join(" "), "site pinned alone with holes requested blocks allocated short a minute");
    assert_eq!(
        line("dictAddRaw").join(" "),
        "dictAddRaw 24.0 MiB 4.00 MiB 8.00 MiB 20.0 MiB 500 80.0 MiB 1 % 1.20 MiB grows"
    );
    assert_eq!(line("3 others").join(" "), "3 others 16.0 MiB 512 KiB 1.00 MiB 27.0 MiB 1.50 k 108 MiB 30 % 0 B");
}

#[test]
fn what_is_not_known_is_not_shown_as_nothing() {
    let mut found = found();
    found.one_in = Some(10.0);
    found.pages.empty = None;
    found.sites[0].slope = None;
    let said = text(&found, None, top(15), &TerminalStyle { color: false, width: 80 });
    assert!(said.contains("dictAddRaw                 24.0 MiB      -   20.0 MiB"), "{said}");
    assert!(!said.contains("empty") && said.contains("all pages that hold blocks"), "{said}");
    let value: Value = serde_json::from_str(&json(&found, None, top(1))).unwrap();
    assert_eq!((&value["sites"][0]["alone_bytes"], &value["answers"][0]["empty_bytes"]), (&Value::Null, &Value::Null));
    assert_eq!(value["sites"][0]["bytes_per_second"], Value::Null);
    assert_eq!(value["sites"].as_array().unwrap().len(), 1);
}

/// In a trace of a window, only the blocks that were allocated in it are known.
#[test]
fn of_a_window_there_is_a_row_of_what_is_older() {
    let found = SiteReport { freed_from_before: Some(1234), ..found() };
    let said = text(&found, None, top(1), &TerminalStyle { color: false, width: 80 });
    let wanted = "\
  part                                            bytes   of all
  requested: live blocks of the window         47.0 MiB   43.9 %
  pinned at most: the rest of their pages      40.0 MiB   37.4 %
  empty at most: pages that it has used        20.0 MiB   18.7 %
  all                                           107 MiB  100.0 %
  before the window: no block of it was there  3.00 MiB
";
    assert!(said.contains(wanted) && said.contains("when idle (12.3 s after the begin of the window)"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let value: Value = serde_json::from_str(&json(&found, None, SiteDisplay::default())).unwrap();
    let answer = &value["answers"][0];
    assert_eq!((&answer["before_window_bytes"], &answer["freed_from_before"]), (&json!(3 * MIB), &json!(1234)));
    assert_eq!(answer["outside_bytes"], Value::Null, "what of it is no heap is not known");
}

/// A heading is no wider than the terminal.
#[test]
fn a_long_heading_has_two_lines() {
    let moment = TracePoint::at_end(Some(1), &[Resident { mark: 3, ranges: Vec::new() }]).unwrap();
    let window = SiteReport { moment, freed_from_before: Some(5), ..found() };
    let candidate = "jemalloc:narenas=1,dirty_decay_ms=0,muzzy_decay_ms=0,tcache=false".into();
    let under = Under { candidate, found: found() };
    let said = text(&window, Some(&under), top(3), &TerminalStyle { color: false, width: 80 });
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let wanted = "Pages of the heap, at the end of the recording (12.3 s after the begin of the\nwindow)\n  part ";
    assert!(said.contains(wanted), "{said}");
    assert!(said.contains("tcache=false, by a replay\nuntil there\n  part "), "{said}");
}

/// Scripts rely on this: keys are only ever added.
#[test]
fn a_script_gets_the_same_in_plain_numbers() {
    let wanted = include_str!("golden.json");
    let said = json(&found(), None, top(2));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/views/who/golden.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, &said).unwrap();
    }
    assert_eq!(said, wanted);
}

#[test]
fn the_peak_of_a_trace_without_an_allocation_has_nothing() {
    let marks = allocanary_trace::format::Marks { ready: None, peak: None, idle: None };
    let found = SiteReport {
        moment: Peak::until(&marks).moment(),
        sites: Vec::new(),
        pages: Divided::default(),
        notes: Vec::new(),
        ..found()
    };
    let said = text(&found, None, top(15), &TerminalStyle { color: false, width: 80 });
    assert!(said.starts_with("redis-server, at the peak of live bytes: no block was alive"), "{said}");
}

/// Under the other allocator another site pins pages.
#[test]
fn another_allocator_has_its_own_pages_and_sites() {
    let mut other = found();
    other.sites.swap(0, 1);
    other.pages = Divided { holding: 50 * MIB, empty: Some(MIB), ..other.pages };
    let under = Under { candidate: "jemalloc:narenas=1".into(), found: other };
    let said = text(&found(), Some(&under), top(1), &TerminalStyle { color: false, width: 80 });
    let (own, there) =
        said.split_once("\nPages of the heap under jemalloc:narenas=1, by a replay until there\n").unwrap();
    assert!(own.contains("107 MiB  100.0 %") && there.contains("51.0 MiB  100.0 %"), "{said}");
    let (_, sites) =
        there.split_once("\nSites by function under jemalloc:narenas=1: 4, those that pin most first\n").unwrap();
    assert!(sites.lines().nth(1).is_some_and(|line| line.starts_with("  _sdsnewlen")), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let value: Value = serde_json::from_str(&json(&found(), Some(&under), SiteDisplay::default())).unwrap();
    let there = &value["answers"][0]["under"];
    assert_eq!((&there["candidate"], &there["pages_bytes"]), (&json!("jemalloc:narenas=1"), &json!(51 * MIB)));
    assert_eq!(
        (&value["under"]["sites"][0]["name"], &value["sites"][0]["name"]),
        (&json!("_sdsnewlen"), &json!("dictAddRaw"))
    );
}

#[test]
fn each_order_has_its_largest_first_and_the_default_follows_from_what_is_pinned() {
    let mut found = found();
    found.sites[2].slope = Some(Slope { per_second: 9e9, low: 0.0, high: 1e10 });
    let first = |found: &SiteReport, order| {
        let value: Value = serde_json::from_str(&json(found, None, SiteDisplay { order, top: Some(1) })).unwrap();
        (value["sort"].as_str().unwrap().to_string(), value["sites"][0]["name"].as_str().unwrap().to_string())
    };
    let wanted =
        [("pinned", "dictAddRaw"), ("requested", "_sdsnewlen"), ("allocated", "_sdsnewlen"), ("grows", "(no stack)")];
    for ((name, order), (sort, site)) in allocanary_who::order::ORDERS.iter().zip(wanted) {
        assert_eq!((*name, first(&found, Some(*order))), (sort, (sort.into(), site.into())));
    }
    assert_eq!(first(&found, None).0, "pinned");
    // Little is pinned, so the question is which site holds the heap.
    found.pages.shares.iter_mut().for_each(|share| (share.live, share.pinned) = (share.live + share.pinned, 0));
    assert_eq!(first(&found, None), ("requested".into(), "_sdsnewlen".into()));
    let said = text(&found, None, SiteDisplay::default(), &TerminalStyle { color: false, width: 80 });
    assert!(said.contains("Sites by function: 4, those that hold most first"), "{said}");
}

#[test]
fn a_site_without_callers_and_a_wrapper_are_told() {
    let mut found = found();
    found.sites[1].ended = 501;
    found.wrappers = vec![("Perl_safesysmalloc".into(), 20), ("Perl_safesyscalloc".into(), 30)];
    let said = text(&found, None, top(15), &TerminalStyle { color: false, width: 80 });
    for wanted in [
        "  _sdsnewlen         16.0 MiB   512 KiB   24.0 MiB   96.0 MiB   90 %  no callers\n",
        "\nNo callers: this code has no unwinding tables, so its stacks end there",
        "\nPassed over as wrappers around malloc: `Perl_safesyscalloc` (30 callers),\n`Perl_safesysmalloc` (20 callers). Their",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}
