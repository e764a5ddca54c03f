//! Many nodes in one table, and as a page with a tree map. In: a fleet. Out: text of 80 columns, or HTML that fetches nothing.

use std::time::Duration;

use allocanary_rows::fleet::{Fleet, Machine, Part, ReplicaSet};
use allocanary_text::outside::{TerminalStyle, harmless};
use allocanary_text::units::{Bytes, show_time};
use maud::{Markup, html};

use crate::draw::HtmlPage;
use crate::draw::wrapped;
use crate::views::contents::tree_map;

/// The style rules of this page, added to those of all pages.
const OWN: &str = include_str!("contents/page.css");
/// The number of rectangles with a frame in the map.
const FRAMED: usize = 40;
/// The figures of a workload.
const HEADS: [&str; 6] = ["resident", "live", "overhead", "outside", "unknown", "can go"];
/// The width of a figure's column.
const WIDTH: usize = 11;

const NOTE: &str = "resident: the sum over processes; what two of them share counts twice. overhead: what allocators have beyond live blocks. \
                    outside: no allocator's, such as stacks and files. unknown: not read yet, changed since, or not to be analysed; it is \
                    not zero. can go: the most that one remedy would give back, all replicas together; without `<` each page was counted.";

/// A sum that cannot overflow: the figures may come from a file that somebody else wrote.
fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// The figures of a workload's columns.
fn figures(one: &ReplicaSet) -> [String; 6] {
    let gives = match &one.bound {
        Some(bound) => format!("{}{}", if bound.exact { "" } else { "<" }, Bytes(bound.bytes)),
        None if one.read.is_none() => "?".into(),
        None => "-".into(),
    };
    let parts = &one.parts;
    let [resident, live, overhead, outside, unknown] =
        [parts.sum(), parts.of(Part::Live), parts.overhead(), parts.outside(), parts.of(Part::Unknown)]
            .map(|bytes| Bytes(bytes).to_string());
    [resident, live, overhead, outside, unknown, gives]
}

/// A line about a workload: its name, replicas, allocator, settings.
fn about(one: &ReplicaSet, kinds: usize) -> String {
    let mut text = format!("{}: {} x {}", one.name(), one.replicas, one.allocator);
    match &one.settings {
        Some(settings) if settings.is_empty() => {}
        Some(settings) => text.push_str(&format!(", {}", settings.join(" "))),
        None => text.push_str(", with unlike settings"),
    }
    if kinds > 1 {
        text.push_str(&format!(", on {}", host(&one.host)));
    }
    if one.by_host > 0 {
        text.push_str(&format!(", arenas of {} follow the host and not the quota", one.by_host));
    }
    if one.unread > 0 {
        text.push_str(&format!(", {} not read", one.unread));
    }
    if one.unbounded > 0 && one.bound.is_some() {
        text.push_str(&format!(", the gain of {} is not known", one.unbounded));
    }
    text
}

fn host(host: &Machine) -> String {
    let page = if host.page == 4096 { String::new() } else { format!(", pages of {}", Bytes(host.page)) };
    format!("{} cores, {}, huge pages {}{page}", host.cores, host.arch, host.thp)
}

/// Where the figures come from, and what they include.
fn answer(fleet: &Fleet, price: Option<f64>) -> String {
    let sum = |of: &dyn Fn(&ReplicaSet) -> u64| sum(fleet.workloads.iter().map(of));
    let (all, live) = (sum(&|one| one.parts.sum()), sum(&|one| one.parts.of(Part::Live)));
    let (overhead, unknown) = (sum(&|one| one.parts.overhead()), sum(&|one| one.parts.of(Part::Unknown)));
    let gives = sum(&|one| one.bound.as_ref().map_or(0, |bound| bound.bytes));
    let nodes = if fleet.nodes == 1 { "node".to_string() } else { format!("{} nodes", fleet.nodes) };
    let money =
        price.map_or_else(String::new, |price| format!(", {:.2} a month", gives as f64 / f64::from(1 << 30) * price));
    format!(
        "Of {} on this {nodes} {} are live, {} are overhead of allocators, and {} are not known. The best remedy of each workload \
         gives {} together at most{money}.",
        Bytes(all),
        Bytes(live),
        Bytes(overhead),
        Bytes(unknown),
        Bytes(gives)
    )
    .replace("this ", if fleet.nodes == 1 { "this " } else { "" })
}

/// The table.
pub fn table(fleet: &Fleet, price: Option<f64>, look: &TerminalStyle) -> String {
    let width = usize::from(look.width);
    let mut out = format!("{}\n\n", wrapped(&answer(fleet, price), width));
    let line = |cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!(" {:>WIDTH$}", harmless(cell))).collect();
        cells.trim_end().to_string() + "\n"
    };
    out.push_str(&line(&HEADS.map(String::from)));
    for one in &fleet.workloads {
        out.push_str(&format!("{}\n", wrapped(&harmless(&about(one, fleet.hosts.len())), width)));
        out.push_str(&line(&figures(one)));
    }
    if fleet.hosts.len() > 1 {
        out.push_str("\nThe nodes are not alike. Replicas on unlike nodes are rows of their own:\n");
        fleet.hosts.iter().for_each(|(kind, count)| out.push_str(&format!("  {count} x {}\n", harmless(&host(kind)))));
    }
    for problem in &fleet.problems {
        out.push_str(&format!("\n{}\n", wrapped(&harmless(problem), width)));
    }
    out.push_str(&format!("\n{}\n", wrapped(NOTE, width)));
    out
}

/// The page.
pub fn page(fleet: &Fleet, price: Option<f64>) -> String {
    let largest = largest(fleet);
    let number = |one: &ReplicaSet| largest.iter().take(FRAMED).position(|other| std::ptr::eq(*other, one));
    let head = html! { section #answer { p.answer { (answer(fleet, price)) } } };
    let main = html! {
        (map(&largest))
        section {
            h2 { "Workloads" }
            div.scroll { table {
                thead { tr {
                    th scope="col" { "in the map" } th scope="col" { "workload" } th scope="col" { "replicas" } th scope="col" { "allocator" }
                    @for head in HEADS { th scope="col" { (head) } }
                    th scope="col" { "read" } th scope="col" { "on" }
                } }
                tbody { @for one in &fleet.workloads { (row(one, number(one))) } }
            } }
            p { (NOTE) }
        }
        @if !fleet.problems.is_empty() {
            section { h2 { "What could not be read" } ul { @for one in &fleet.problems { li { (harmless(one)) } } } }
        }
    };
    let title = if fleet.nodes == 1 { "What allocators keep on a node" } else { "What allocators keep on every node" };
    HtmlPage { title, heading: title, style: OWN, head, main, foot: html! {} }.document()
}

/// A row of the table. `number` is the number of the workload's frame in the map, if it has one.
fn row(one: &ReplicaSet, number: Option<usize>) -> Markup {
    let read = one.read.map_or("never all".into(), |read| format!("{} UTC", show_time(Duration::from_millis(read))));
    let settings = match &one.settings {
        Some(settings) => settings.join(" "),
        None => "unlike settings".into(),
    };
    html! {
        tr {
            td { @if let Some(number) = number { (number + 1) } }
            th scope="row" { (harmless(&one.name())) }
            td { (one.replicas) }
            td { (harmless(&format!("{} {settings}", one.allocator))) }
            @for figure in figures(one) { td { (figure) } }
            td { (read) }
            td { (harmless(&host(&one.host))) }
        }
    }
}

/// The workloads that have memory, in the order of their numbers in the map.
fn largest(fleet: &Fleet) -> Vec<&ReplicaSet> {
    let mut largest: Vec<&ReplicaSet> = fleet.workloads.iter().filter(|one| one.parts.sum() > 0).collect();
    largest.sort_by_key(|one| std::cmp::Reverse(one.parts.sum()));
    largest
}

fn map(largest: &[&ReplicaSet]) -> Markup {
    let kinds = |all: &[&ReplicaSet]| {
        let parts = allocanary_rows::fleet::PARTS.into_iter();
        let sum = |part: Part| sum(all.iter().map(|one| one.parts.of(part)));
        parts.map(|part| (part.name().to_string(), sum(part), 0)).filter(|kind| kind.1 > 0).collect::<Vec<_>>()
    };
    let part = |name: String, all: &[&ReplicaSet]| {
        let kinds = kinds(all);
        tree_map::MapRect { name, bytes: sum(kinds.iter().map(|kind| kind.1)), blocks: 0, kinds }
    };
    let (framed, rest) = largest.split_at(largest.len().min(FRAMED));
    let mut parts: Vec<tree_map::MapRect> = framed.iter().map(|one| part(one.name(), &[one])).collect();
    if !rest.is_empty() {
        parts.push(part(format!("{} more workloads", rest.len()), rest));
    }
    let colors = tree_map::colored(&parts);
    let caption =
        "Each framed rectangle is a workload, with its number by size; within it are the parts of its resident memory.";
    html! {
        section {
            div.pictures { (tree_map::map(&parts, &colors, "Resident memory of each workload, by part", caption).figure()) }
            p {
                @for kind in &colors {
                    svg.key viewBox="0 0 12 12" aria-hidden="true" {
                        rect fill=(tree_map::fill(kind, &colors)) width="12" height="12" {}
                    }
                    (kind) " "
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::fleet::{Bound, ContainerState, NodeReport, Parts, SCHEMA};

    fn row(pod: &str, workload: &str, live: u64, kept: u64) -> ContainerState {
        let mut parts = Parts::default();
        [(Part::Live, live), (Part::FreePages, kept), (Part::Files, 9 << 20), (Part::Unknown, 3 << 20)]
            .into_iter()
            .for_each(|(part, bytes)| parts.add(part, bytes));
        ContainerState {
            namespace: "shop".into(),
            pod: pod.into(),
            container: "web".into(),
            workload: workload.into(),
            allocator: "glibc".into(),
            settings: vec!["MALLOC_ARENA_MAX=2".into()],
            parts,
            read: Some(1_700_000_000_000),
            bounds: vec![Bound { remedy: "arena_max".into(), bytes: kept, exact: false }],
            ..ContainerState::default()
        }
    }

    fn fleet(cores: &[u32]) -> Fleet {
        let report = |(at, cores): (usize, &u32)| NodeReport {
            schema: SCHEMA,
            node: format!("n{at}"),
            host: Machine { cores: *cores, thp: "madvise".into(), page: 4096, arch: "x86_64".into() },
            rows: vec![
                row(&format!("web-{at}"), "deployment/web", 700 << 20, 300 << 20),
                ContainerState {
                    read: None,
                    unread: 1,
                    bounds: vec![],
                    ..row("db-0", "statefulset/a-database-with-a-rather-long-name", 1 << 33, 1 << 20)
                },
                ContainerState { namespace: "<script>\u{1b}[31m".into(), ..row("x", "", 1, 0) },
            ],
            problems: vec!["2 processes may not be read".into()],
            ..NodeReport::default()
        };
        Fleet::of(cores.iter().enumerate().map(report).collect())
    }

    #[test]
    fn the_table_fits_and_unlike_nodes_are_told() {
        let look = TerminalStyle { color: false, width: 80 };
        let text = table(&fleet(&[8, 8, 64]), Some(4.0), &look);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("2 x 8 cores, x86_64") && text.contains("1 x 64 cores"), "{text}");
        assert!(text.contains("shop/deployment/web/web: 2 x glibc, MALLOC_ARENA_MAX=2, on 8 cores"), "{text}");
        assert!(text.contains("<600 MiB") && text.contains("<300 MiB"), "they are not added up: {text}");
        assert!(text.contains("        ?\n"), "what was not read gives nothing that is known: {text}");
        assert!(text.contains("a month") && !text.contains('\u{1b}'), "{text}");
        let alike = table(&fleet(&[8, 8]), None, &look);
        assert!(!alike.contains("not alike") && !alike.contains("a month"), "{alike}");
        assert!(table(&Fleet::default(), None, &look).contains("0 B"));
    }

    #[test]
    fn the_page_has_a_map_and_no_text_of_a_process_is_markup() {
        let page = page(&fleet(&[8]), None);
        assert!(page.contains("<svg class=\"treemap\"") && page.contains("shop/deployment/web/web"));
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
        assert!(page.contains("<title>free pages: ") && page.contains("2 processes may not be read"), "{page}");
        assert!(!super::page(&Fleet::default(), None).contains("<title>free pages: "));
    }

    #[test]
    fn a_workload_has_the_number_of_its_frame() {
        let page = page(&fleet(&[8]), None);
        // The table begins with the workload that keeps the most. The map begins with the largest.
        let row = |name: &str, number: u32| page.contains(&format!("<td>{number}</td><th scope=\"row\">{name}"));
        assert!(row("shop/deployment/web/web", 2) && row("shop/statefulset/a-database", 1), "{page}");
        assert!(page.contains("2  shop/deployment/web/web</text>"), "{page}");
    }

    #[test]
    fn figures_of_a_file_may_be_anything() {
        let mut fleet = fleet(&[8, 8]);
        for one in &mut fleet.workloads {
            allocanary_rows::fleet::PARTS.iter().for_each(|part| one.parts.add(*part, u64::MAX));
            one.bound = Some(Bound { remedy: "x".into(), bytes: u64::MAX, exact: true });
        }
        let whole = Bytes(u64::MAX).to_string();
        let text = table(&fleet, Some(1.0), &TerminalStyle { color: false, width: 80 });
        assert!(text.starts_with(&format!("Of {whole} on 2 nodes {whole} are live")), "{text}");
        assert!(super::page(&fleet, None).contains(&whole));
    }
}
