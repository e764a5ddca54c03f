use allocanary_who::AllocationSite;
use allocanary_who::By;
use allocanary_who::pages::Share;

use super::super::tests::found;
use super::*;

const MIB: u64 = 1 << 20;

/// Replays of redis-server, of which `_sdsnewlen` pins 16 MiB.
pub fn what_if(as_it_is: Vec<ReplayHeap>, survivors: Vec<ReplayHeap>, whole: Vec<ReplayHeap>) -> WhatIf {
    let found = found();
    WhatIf {
        program: found.program.clone(),
        moment: found.moment.clone(),
        nanos: found.nanos,
        by: By::Function,
        site: AllocationSite {
            name: "_sdsnewlen".into(),
            allocations: 1000,
            short: 100,
            blocks: 500,
            ..AllocationSite::default()
        },
        share: Share { pinned: 16 * MIB, alone: 14 * MIB, with_holes: 18 * MIB, ..Share::default() },
        replays: Ok(("jemalloc:dirty_decay_ms=0".into(), Ways { as_it_is, survivors, whole })),
        notes: vec!["one note".into()],
    }
}

/// Five heaps that differ a little. Bytes in KiB.
fn heaps(holding: u64, resident: u64, pool: u64, cpu: f64) -> Vec<ReplayHeap> {
    let heap = |at: u64| ReplayHeap {
        holding: (holding + at) << 10,
        resident: (resident + 16 * at) << 10,
        pool: pool << 10,
        blocks: 9,
        cpu: cpu * (1.0 + at as f64 / 100.0),
    };
    [2, 0, 4, 1, 3].map(heap).to_vec()
}

fn example() -> WhatIf {
    what_if(
        heaps(26_000, 28_000, 0, 1_700_000.0),
        heaps(6_000, 8_000, 2_100, 1_720_000.0),
        heaps(26_000, 30_000, 25_000, 1_900_000.0),
    )
}

const TABLE: &str = "\
redis-server, when idle, under jemalloc:dirty_decay_ms=0: 27.4 MiB are resident.
With the survivors of `_sdsnewlen` elsewhere the heap keeps 19.5 MiB less (19.5
to 19.6); with the whole site elsewhere it keeps 2.0 MiB more (1.9 to 2.0).

The heap under jemalloc:dirty_decay_ms=0, when idle (12.3 s): medians of 5
replays (MiB)
  blocks               with blocks  resident         saved  pool          CPU
  as it is                    25.4      27.4                           1.73 s
  survivors elsewhere          5.9       7.8  19.5 to 19.6   2.1   -2 to +4 %
  site elsewhere              25.4      29.3  -2.0 to -1.9  24.4  +9 to +15 %

By the addresses alone: `_sdsnewlen` pins 16.0 MiB, and its survivors elsewhere
would free 14.0 MiB (pages that are its alone) to 18.0 MiB (with the empty pages
beside them).

What to do
Separate the long-lived blocks of `_sdsnewlen` from its short-lived ones:
allocate them first, or from a pool of their own. A pool for all blocks of the
site is not enough.

What limits these figures
  - one note
";

#[test]
fn a_terminal_of_80_columns_has_the_answer_first_and_what_to_do_last() {
    let said = WhatIfView::of(&example()).text(&TerminalStyle { color: false, width: 80 });
    assert_eq!(said, TABLE, "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn a_site_without_a_survivor_has_no_figure_of_them() {
    let mut one = example();
    if let Ok((_, ways)) = &mut one.replays {
        ways.survivors = Vec::new();
    }
    let said = WhatIfView::of(&one).text(&TerminalStyle { color: false, width: 80 });
    let line = said.replace('\n', " ");
    assert!(
        line.contains("and no block of `_sdsnewlen` lives. With the whole site elsewhere the heap keeps"),
        "{said}"
    );
    let row = said.lines().find(|line| line.contains("survivors elsewhere")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), "survivors elsewhere - - - - -");
}

#[test]
fn without_a_replay_there_is_what_follows_from_the_trace_and_the_reason() {
    let one = WhatIf { replays: Err("--what-if: name one".into()), ..example() };
    let report = WhatIfView::of(&one);
    let said = report.text(&TerminalStyle { color: false, width: 80 });
    let line = said.replace('\n', " ");
    assert!(
        line.contains("14.0 MiB to 18.0 MiB") && line.contains("There was no replay: --what-if: name one."),
        "{said}"
    );
    assert!(!said.contains("What to do") && !said.contains("resident"), "{said}");
    let value: Value = serde_json::from_str(&report.json()).unwrap();
    let answer = &value["answers"][0];
    assert_eq!((&answer["choice"], &answer["candidate"]), (&json!("unmeasured"), &Value::Null));
    let null = Some(&Value::Null);
    assert_eq!(["as_it_is", "survivors", "whole", "repeats", "advice"].map(|key| answer.get(key)), [null; 5]);
    assert_eq!((&value["by"], &value["notes"], value.get("sites")), (&json!("function"), &json!(["one note"]), None));
}

/// Scripts rely on this: keys are only ever added.
#[test]
fn a_script_gets_the_same_in_plain_numbers() {
    let wanted = include_str!("golden.json");
    let said = WhatIfView::of(&example()).json();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/views/who/what_if/golden.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, &said).unwrap();
    }
    assert_eq!(said, wanted);
}
