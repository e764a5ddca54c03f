use super::*;
use allocanary_contents::{InnerBlocks, LeakSite, Lost, Retained, SampledPages};
use allocanary_heap::ProcessSubject;

const LOOK: TerminalStyle = TerminalStyle { color: false, width: 80 };

fn contents(leaked: u64) -> Contents {
    let row = |kind: &str, blocks: u64, bytes: u64| KindRow { kind: kind.into(), blocks, bytes, ..KindRow::default() };
    let lost = Lost {
        kind: "app::Peer".into(),
        each: 72,
        first: 0x1000,
        blocks: leaked,
        direct: leaked / 2,
        bytes: 72 * leaked,
        ..Lost::default()
    };
    let inside = InnerBlocks {
        depth: 0,
        offset: 16,
        kind: "app::Circle".into(),
        blocks: 20_000,
        bytes: 800_000,
        with_all: 900_000,
    };
    Contents {
        contents: 1,
        process: ProcessSubject { pid: 42, name: "server".into(), ..ProcessSubject::default() },
        readings: 2,
        allocators: vec!["glibc 2.36".into()],
        blocks: 30_000 + leaked,
        bytes: 2 << 20,
        kinds: vec![
            row("app::Circle", 20_000, 800_000),
            KindRow { likely: true, ..row("std::list node", 10_000, 240_000) },
        ],
        holders: vec![Holder {
            name: "`g_cache` in server".into(),
            blocks: 20_000,
            bytes: 900_000,
            alone_blocks: 20_000,
            alone_bytes: 900_000,
            inside: vec![inside],
        }],
        leaked: Some(Leaked {
            blocks: leaked,
            bytes: 72 * leaked,
            direct_blocks: leaked / 2,
            direct_bytes: 36 * leaked,
            rows: vec![lost],
            ..Leaked::default()
        }),
        ..Contents::default()
    }
}

#[test]
fn the_answer_comes_first_and_all_fits_the_width() {
    let text = text(&contents(6000), &LOOK);
    let first = "422 KiB in 6,000 blocks are leaked, 6,000 of them app::Peer. Of 2.00 MiB of\nobjects, `g_cache` in server holds";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("std::list node (likely)") && text.contains("    +0x10 app::Circle"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("combined with another by XOR"), "{text}");
}

#[test]
fn without_leaks_that_is_told_and_what_is_not_known_is_not_called_none() {
    let none = Contents { leaked: Some(Leaked::default()), ..contents(0) };
    assert!(answer(&none).starts_with("Nothing is leaked: something leads to each of 30,000 objects."));
    let unknown = Contents { leaked: None, problems: vec!["leaks are not told: why".into()], ..contents(0) };
    assert!(answer(&unknown).starts_with("What is leaked is not known"));
    assert!(text(&unknown, &LOOK).contains("leaks are not told: why"));
}

#[test]
fn what_only_looks_like_a_pointer_is_no_holder() {
    use allocanary_contents::{Alike, LIKENESS};
    let mut found = contents(0);
    let row = Holder { name: LIKENESS.into(), blocks: 29_000, bytes: 1 << 20, ..Holder::default() };
    found.holders.insert(0, row);
    found.alike = Alike { blocks: 29_000, bytes: 1 << 20 };
    let said = answer(&found);
    assert!(said.contains("Of 2.00 MiB of objects, `g_cache` in server holds"), "{said}");
    assert!(
        said.ends_with("1.00 MiB in 29,000 blocks are reachable only through bytes that look like a pointer."),
        "{said}"
    );
    found.alike.bytes = 1024;
    assert!(!answer(&found).contains("look like"), "a small part is told below");
    let text = text(&found, &LOOK).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("29,000 blocks, 1.00 KiB in all, are reachable only through bytes"), "{text}");
}

#[test]
fn pipes_and_slabs_are_named_where_leaks_are() {
    let said = |contents: &Contents| text(contents, &LOOK).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = contents(10);
    found.pipes = 2;
    let slab = KindRow { kind: allocanary_contents::SLAB.into(), blocks: 3, bytes: 12_264, ..KindRow::default() };
    found.kinds.push(slab);
    let text = said(&found);
    assert!(text.contains("in one of the 2 pipes that the process has to itself, known to the kernel only"), "{text}");
    assert!(text.contains("divides 3 blocks, 12.0 KiB in all: what is lost inside of them is not seen"), "{text}");
    found.leaked = Some(Leaked::default());
    assert!(!said(&found).contains("pipes"), "nothing is leaked");
}

#[test]
fn who_points_to_a_block_is_told_with_places_and_the_path() {
    use allocanary_contents::{Pointed, PointedBlock, Pointer};
    let word = |from: &str, at, offset| Pointer { from: from.into(), at, offset, looks_alike: false };
    let block = PointedBlock {
        kind: "app::Circle".into(),
        at: 0x5000,
        each: 40,
        blocks: 3,
        bytes: 120,
        pointers: vec![word("app::Peer", 0x6000, 16), Pointer { looks_alike: true, ..word("text", 0x7000, 8) }],
        more: 1200,
        path: vec![word("`g_cache` in server", 0x4000, 0), word("app::Peer", 0x6000, 16)],
        first: vec!["other bytes".into(), "pointer to std::list node at 0x7000".into(), "17".into()],
        text: None,
    };
    let alone = PointedBlock { blocks: 1, path: vec![], pointers: vec![], more: 0, ..block.clone() };
    // On a page the kinds lead to their blocks.
    let largest = vec![Pointed { wanted: "app::Circle".into(), found: 7, blocks: vec![block.clone()] }];
    let page = page(&Contents { largest, ..contents(0) });
    for wanted in [
        r##"<a href="#blocks-of-kind-0">app::Circle</a>"##,
        r#"<summary>app::Circle, 7 blocks</summary><div id="blocks-of-kind-0">"#,
        "<li>+0x10 of app::Peer at 0x6000</li>",
        "<li>+0x8: pointer to std::list node at 0x7000</li>",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let pointed = Some(Pointed { wanted: "Circle".into(), found: 7, blocks: vec![block, alone] });
    let text = text(&Contents { pointed, ..contents(0) }, &LOOK);
    let wanted = "There are 7 such blocks. Shown are the 2 that retain most.\n\napp::Circle at 0x5000, 40 B. It retains 120 B in 3 blocks, with itself.\n  \
                  held by\n    +0x0 of `g_cache` in server at 0x4000\n    +0x10 of app::Peer at 0x6000\n  pointed to by\n    \
                  +0x10 of app::Peer at 0x6000\n    +0x8 of text at 0x7000, a word that looks like a pointer\n    1,200 more\n";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("It retains no other block.\n  held by: nothing leads to it\n"), "{text}");
}

/// One reading of a core finds what is leaked.
#[test]
fn a_core_says_what_it_is_and_what_it_lacks() {
    let said = |contents: &Contents| text(contents, &LOOK).split_whitespace().collect::<Vec<_>>().join(" ");
    let core = |missing, absent: &[&str]| {
        let absent_files = absent.iter().map(|path| path.to_string()).collect();
        Contents { core: Some(CoreState { missing, absent_files }), readings: 1, ..contents(2500) }
    };
    let whole = said(&core(0, &[]));
    assert!(whole.contains("in 2,500 blocks are leaked") && whole.contains("The core file is one reading"), "{whole}");
    assert!(!whole.contains("did not stop") && !whole.contains("found nothing that is leaked"), "{whole}");
    let cut = said(&Contents { leaked: None, ..core(1 << 20, &[]) });
    assert!(cut.contains("The core file is truncated: 1.00 MiB of it are missing."), "{cut}");
    assert!(!cut.contains("counts as leaked"), "{cut}");
    let bare = said(&core(0, &["/srv/app", "/lib/a.so", "/lib/b.so", "/lib/c.so", "/lib/d.so"]));
    let wanted = "not known to be of the same build: /srv/app, /lib/a.so, /lib/b.so and 2 more.";
    assert!(bare.contains(wanted), "{bare}");
    // A process that was read once: only without a leak did that one find nothing.
    let once = |leaked| said(&Contents { readings: 1, ..contents(leaked) });
    assert!(once(0).contains("One reading found nothing that is leaked."), "{}", once(0));
    assert!(
        once(7).contains("did not stop the process, and read it once.") && !once(7).contains("found nothing"),
        "{}",
        once(7)
    );
}

#[test]
fn a_difference_names_what_grew() {
    let (before, mut after) = (contents(6000), contents(7000));
    after.taken = 600_000;
    after.bytes += 72_000;
    after.kinds.push(KindRow { kind: "app::Peer".into(), blocks: 1000, bytes: 72_000, ..KindRow::default() });
    let lines = difference(&before, &after, &LOOK);
    let text = lines.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
    assert!(text.contains("The kind that grew most: app::Peer (+70.3 KiB)."), "{text}");
    assert!(text.contains("What is leaked changed by +70.3 KiB"), "{text}");
    assert!(text.contains("+1,000"), "{text}");
}

#[test]
fn a_holder_that_has_little_of_what_grew_is_no_answer() {
    let (before, mut after) = (contents(6000), contents(7000));
    after.bytes += 72_000;
    let with = |by: u64| {
        let mut after = after.clone();
        after.holders[0].bytes += by;
        difference(&before, &after, &LOOK).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!with(120).contains("The holder that grew most"), "{}", with(120));
    assert!(with(120).contains("`g_cache` in server"), "its row is there");
    assert!(with(7200).contains("The holder that grew most: `g_cache` in server"), "{}", with(7200));
}

#[test]
fn kinds_of_a_sample_tell_how_far_off_they_can_be() {
    let mut found = Contents { leaked: None, holders: Vec::new(), ..contents(0) };
    assert!(!text(&found, &LOOK).contains("within"));
    found.sampled = Some(SampledPages { pages: 512, of: 25_600 });
    found.kinds[0].within = Some(20_480);
    let text = text(&found, &LOOK);
    assert!(text.contains("± 20.0 KiB"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("512 of 25,600 pages") && words.contains("The command did not stop the process."), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn call_sites_and_texts_are_shown_where_they_are_known() {
    let mut found = contents(6000);
    let leaked = found.leaked.as_mut().unwrap();
    leaked.rows[0].text = Some("a\u{1b}[31m \"b\"".into());
    let site = |name: &str, blocks: u64| LeakSite { name: name.into(), blocks, bytes: 70 * blocks };
    leaked.sites = vec![site("app::connect", 5990), LeakSite { bytes: 0, ..site("", 10) }];
    found.texts = Some(vec![Text { text: "Content-Type\n".into(), blocks: 3, bytes: 96, again: 64 }]);
    let text = text(&found, &LOOK);
    for wanted in ["app::connect", "not in the trace", "Content-Type\\n", "64 B", r#"app::Peer: "a\u{1b}[31m \"b\"""#] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn leaked_blocks_that_were_sampled_have_their_call_site() {
    let mut found = contents(6000);
    assert!(!text(&found, &LOOK).contains("ampled"), "without a profile nothing is said of one");
    let leaked = found.leaked.as_mut().unwrap();
    let site = |name: &str, blocks: u64| LeakSite { name: name.into(), blocks, bytes: 70 * blocks };
    leaked.rows[0].sites =
        vec![site("app::connect", 21), site("app::<retry>", 4), site("a", 2), site("b", 1), site("c", 1)];
    leaked.sampled = Some(29);
    let said = text(&found, &LOOK);
    let wanted = "\
  leaked             each    bytes  blocks  direct  sampled
  app::Peer          72 B  422 KiB   6,000   3,000
    by app::connect                                      21
    by app::<retry>                                       4
    by a                                                  2
    by 2 others                                           2
";
    assert!(said.contains(wanted), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("app::Peer, allocated by `app::connect` (21 of 6,000 sampled)."), "{words}");
    assert!(words.contains("the call sites of 29 of 6,000 leaked blocks"), "{words}");
    let page = page(&found);
    assert!(page.contains("app::&lt;retry&gt; (4 of 6,000 sampled)"), "{page}");
    // None was sampled: no empty column, and the reason.
    let leaked = found.leaked.as_mut().unwrap();
    (leaked.sampled, leaked.rows[0].sites) = (Some(0), Vec::new());
    let said = text(&found, &LOOK);
    assert!(!said.contains("  sampled\n") && said.contains("call sites of 0 of"), "{said}");
}

#[test]
fn blocks_that_retain_others_are_shown_in_levels() {
    let row = |depth: u32, kind: &str, bytes: u64| Retained {
        depth,
        kind: kind.into(),
        holder: "CACHE of module app".into(),
        blocks: 7,
        bytes,
        ..Retained::default()
    };
    let retained = vec![row(0, "py dict", 1 << 20), row(1, "py Session", 1 << 19)];
    let text = text(&Contents { retained, ..contents(0) }, &LOOK);
    assert!(text.contains("  py dict of CACHE of module app  1.00 MiB  50.0 %       7\n    py Session "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn the_page_has_a_map_in_which_all_holders_are() {
    let mut found = contents(6000);
    found.holders.extend((0..30).map(|at| Holder {
        name: format!("<g_{at}>"),
        bytes: 1000,
        blocks: 1,
        ..Holder::default()
    }));
    let page = page(&found);
    assert!(
        page.contains("<title>app::Circle: 781 KiB in 20,000 blocks, held by `g_cache` in server</title>"),
        "{page}"
    );
    assert!(page.contains("&lt;g_3&gt;") && !page.contains("<g_3>"), "{page}");
    assert!(page.contains("20 more holders") && page.contains("What is leaked"), "{page}");
}
