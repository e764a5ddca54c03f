//! What a heap contains. In: contents, or two of them. Out: a text for a terminal: the answer, the kinds, the holders, the leaks, and how
//! certain these figures are.

mod answer;
mod blocks;
mod difference;
mod page;
mod pointed;
pub(crate) mod tree_map;

use allocanary_contents::{Contents, CoreState, Holder, KindRow, LeakSite, Leaked, Lost, SLAB, Text};
use allocanary_text::outside::{TerminalStyle, harmless};
use allocanary_text::units::{Bytes, show_duration};

use crate::views::heap::{bold, columns, item, percent};
pub use answer::answer;
pub use difference::difference;
pub use page::page;

/// The maximum of lines in each table, and the number of holders that are shown with a tree.
const KINDS: usize = 20;
const HOLDERS: usize = 12;
const TREES: usize = 6;
const LINES: usize = 7;
const LEAKS: usize = 15;
const RETAINED: usize = 12;
const SITES: usize = 12;
/// The number of call sites that are shown below a leaked kind.
const SAMPLED: usize = 3;
const TEXTS: usize = 15;

/// The whole text.
pub fn text(contents: &Contents, look: &TerminalStyle) -> String {
    let answer = crate::draw::wrapped(&answer(contents), look.width.into());
    let mut out = format!("{}\n\n", bold(&answer, look));
    if contents.blocks > 0 {
        out.push_str(&kinds(contents, look));
    }
    if !contents.holders.is_empty() {
        out.push_str(&holders(contents, look));
    }
    if !contents.retained.is_empty() {
        out.push_str(&retained(contents, look));
    }
    if let Some(found) = &contents.pointed {
        out.push_str(&pointed::pointed(found, look));
    }
    if let Some(leaked) = contents.leaked.as_ref().filter(|leaked| leaked.blocks > 0) {
        out.push_str(&leaks(leaked, look));
        if !leaked.sites.is_empty() {
            out.push_str(&sites(leaked, look));
        }
    }
    if let Some(equal) = contents.texts.as_ref().filter(|equal| !equal.is_empty()) {
        out.push_str(&texts(equal, look));
    }
    out.push_str(&format!("{}\n", bold("How sure it is", look)));
    sure(contents).iter().for_each(|sentence| out.push_str(&item(sentence, look)));
    out
}

fn bytes(number: u64) -> String {
    Bytes(number).to_string()
}

/// A number with commas: `11,502`.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn head(names: &[&str]) -> Vec<Vec<String>> {
    vec![names.iter().map(|name| name.to_string()).collect()]
}

fn kinds(contents: &Contents, look: &TerminalStyle) -> String {
    let process = &contents.process;
    let is_sample = contents.sampled.is_some();
    let mut table = head(&["kind", "bytes", "within", "of all", "blocks"]);
    let share = |part: u64| format!("{:.1} %", percent(part, contents.bytes));
    let name = |row: &KindRow| if row.likely { format!("{} (likely)", row.kind) } else { row.kind.clone() };
    let within = |row: &KindRow| row.within.map(|within| format!("± {}", bytes(within))).unwrap_or_default();
    let shown = contents.kinds.iter().take(KINDS);
    table.extend(shown.map(|row| vec![name(row), bytes(row.bytes), within(row), share(row.bytes), count(row.blocks)]));
    if let Some(rest) = contents.kinds.get(KINDS..).filter(|rest| !rest.is_empty()) {
        let (sum, blocks) = rest.iter().fold((0, 0), |sum, row| (sum.0 + row.bytes, sum.1 + row.blocks));
        let name = format!("{} more kinds", rest.len());
        table.push(vec![name, bytes(sum), String::new(), share(sum), count(blocks)]);
    }
    let all = bytes(contents.bytes);
    table.push(vec!["all objects".into(), all, String::new(), "100.0 %".into(), count(contents.blocks)]);
    if !is_sample {
        table.iter_mut().for_each(|row| drop(row.remove(2)));
    }
    let title = format!("Kinds: process {}, {}", process.pid, process.name.harmless());
    format!("{}\n{}\n", bold(&title, look), columns(&table, look))
}

fn holders(contents: &Contents, look: &TerminalStyle) -> String {
    let mut table = head(&["held by", "bytes", "alone", "blocks"]);
    for (at, holder) in contents.holders.iter().take(HOLDERS).enumerate() {
        table.push(vec![holder.name.clone(), bytes(holder.bytes), bytes(holder.alone_bytes), count(holder.blocks)]);
        if at < TREES {
            table.extend(tree(holder));
        }
    }
    if let Some(rest) = contents.holders.get(HOLDERS..).filter(|rest| !rest.is_empty()) {
        let sum =
            rest.iter().fold([0; 3], |sum, one| [sum[0] + one.bytes, sum[1] + one.alone_bytes, sum[2] + one.blocks]);
        table.push(vec![format!("{} more holders", rest.len()), bytes(sum[0]), bytes(sum[1]), count(sum[2])]);
    }
    let note = "Each block counts for the holder with the shortest path to it. Alone: no other variable leads to them. Below a holder: the \
                way to its blocks, with the place of the first pointer, and bytes with all that is below.";
    format!(
        "{}\n{}\n{}\n\n",
        bold("Who holds it", look),
        columns(&table, look),
        crate::draw::wrapped(note, look.width.into())
    )
}

/// What single blocks retain.
fn retained(contents: &Contents, look: &TerminalStyle) -> String {
    let mut table = head(&["what one block retains", "bytes", "of all", "blocks"]);
    table.extend(contents.retained.iter().take(RETAINED).map(|one| {
        let name = match one.depth {
            0 => format!("{} of {}", one.kind, one.holder),
            depth => format!("{}{}", "  ".repeat(depth as usize), one.kind),
        };
        vec![name, bytes(one.bytes), format!("{:.1} %", percent(one.bytes, contents.bytes)), count(one.blocks)]
    }));
    let note = "Without that block nothing but stacks and registers leads to the others. Those below are parts of it.";
    format!("{}\n{}\n\n", columns(&table, look), crate::draw::wrapped(note, look.width.into()))
}

/// The largest parts of the memory that a holder holds.
fn tree(holder: &Holder) -> Vec<Vec<String>> {
    let large = holder.inside.iter().filter(|line| line.with_all.saturating_mul(20) >= holder.bytes && line.depth < 6);
    let line = |line: &allocanary_contents::InnerBlocks| {
        let indent = "  ".repeat(line.depth as usize + 1);
        vec![
            format!("{indent}+{:#x} {}", line.offset, line.kind),
            bytes(line.with_all),
            String::new(),
            count(line.blocks),
        ]
    };
    large.take(LINES).map(line).collect()
}

fn leaks(leaked: &Leaked, look: &TerminalStyle) -> String {
    let is_sampled = leaked.sampled.is_some_and(|sampled| sampled > 0);
    let mut names = vec!["leaked", "each", "bytes", "blocks", "direct"];
    names.extend(is_sampled.then_some("sampled"));
    let mut table = head(&names);
    let name = |row: &Lost| match &row.text {
        Some(text) => format!("{}: \"{}\"", row.kind, text.escape_debug()),
        None => row.kind.clone(),
    };
    for row in leaked.rows.iter().take(LEAKS) {
        table.push(vec![name(row), bytes(row.each), bytes(row.bytes), count(row.blocks), count(row.direct)]);
        let none = String::new;
        let below = |(name, blocks)| vec![format!("  by {name}"), none(), none(), none(), none(), count(blocks)];
        table.extend(sampled(row).into_iter().map(below));
    }
    let (sum, blocks, direct) = leaked
        .rows
        .iter()
        .skip(LEAKS)
        .fold((0, 0, 0), |sum, row| (sum.0 + row.bytes, sum.1 + row.blocks, sum.2 + row.direct));
    if blocks > 0 {
        let more = leaked.rows.len() - LEAKS;
        table.push(vec![
            format!("{more} more kinds and sizes"),
            String::new(),
            bytes(sum),
            count(blocks),
            count(direct),
        ]);
    }
    table.push(vec![
        "all".into(),
        String::new(),
        bytes(leaked.bytes),
        count(leaked.blocks),
        count(leaked.direct_blocks),
    ]);
    let sampled =
        if is_sampled { " Sampled: so many of the blocks above have this call site by the profile." } else { "" };
    let note = format!(
        "Nothing leads to these blocks. Direct: no other leaked block leads to it either; the others go with those.{sampled}"
    );
    format!(
        "{}\n{}\n{}\n\n",
        bold("What is leaked", look),
        columns(&table, look),
        crate::draw::wrapped(&note, look.width.into())
    )
}

/// The call sites of a kind's sampled blocks, each with its number of blocks. If there are many sites, the last entry is the sum of the
/// others.
fn sampled(row: &Lost) -> Vec<(String, u64)> {
    // If only one site would be left out, it gets a line as well.
    let shown = if row.sites.len() <= SAMPLED + 1 { row.sites.len() } else { SAMPLED };
    let mut sites: Vec<(String, u64)> =
        row.sites[..shown].iter().map(|site| (site.name.clone(), site.blocks)).collect();
    if let others @ [_, ..] = &row.sites[shown..] {
        sites.push((format!("{} others", others.len()), others.iter().map(|site| site.blocks).sum()));
    }
    sites
}

/// Where leaked blocks were allocated.
fn sites(leaked: &Leaked, look: &TerminalStyle) -> String {
    let mut table = head(&["allocated by", "bytes", "blocks"]);
    let name = |name: &str| if name.is_empty() { "not in the trace".to_string() } else { name.into() };
    let row = |site: &LeakSite| vec![name(&site.name), bytes(site.bytes), count(site.blocks)];
    table.extend(leaked.sites.iter().take(SITES).map(row));
    if let Some(rest) = leaked.sites.get(SITES..).filter(|rest| !rest.is_empty()) {
        let (sum, blocks) = rest.iter().fold((0, 0), |sum, site| (sum.0 + site.bytes, sum.1 + site.blocks));
        table.push(vec![format!("{} more call sites", rest.len()), bytes(sum), count(blocks)]);
    }
    let note = "Bytes are those that were asked for.";
    format!("{}\n{}\n{note}\n\n", bold("Where what is leaked was allocated", look), columns(&table, look))
}

/// Texts that occur more than once.
fn texts(equal: &[Text], look: &TerminalStyle) -> String {
    let mut table = head(&["text", "blocks", "bytes", "but for one"]);
    table.extend(
        equal.iter().take(TEXTS).map(|one| {
            vec![one.text.escape_debug().to_string(), count(one.blocks), bytes(one.bytes), bytes(one.again)]
        }),
    );
    format!("{}\n{}\n", bold("Equal texts", look), columns(&table, look))
}

/// The number of a core's missing files that a sentence names.
const ABSENT: usize = 3;

/// What a core file lacks, one sentence each.
fn of_core(core: &CoreState) -> Vec<String> {
    let mut all = Vec::new();
    if core.missing > 0 {
        all.push(format!(
            "The core file is truncated: {} of it are missing. The figures are of the part that is there.",
            bytes(core.missing)
        ));
    }
    if !core.absent_files.is_empty() {
        let mut named: Vec<String> =
            core.absent_files.iter().take(ABSENT).map(|path| harmless(path).into_owned()).collect();
        let more = core.absent_files.len().saturating_sub(ABSENT);
        named.extend((more > 0).then(|| format!("{more} more")));
        let named = match named.split_last() {
            Some((last, before @ [_, ..])) => format!("{} and {last}", before.join(", ")),
            _ => named.concat(),
        };
        all.push(format!(
            "These files of the process are not on this host, or are not known to be of the same build: {named}. Their classes and variables have no \
             names here. Put the files of the process at these paths, and read the core again."
        ));
    }
    all
}

fn sure(contents: &Contents) -> Vec<String> {
    let mut all = contents.problems.clone();
    all.extend(contents.core.iter().flat_map(of_core));
    if let Some(sampled) = contents.sampled {
        all.push(format!(
            "Kinds are of a sample: all blocks that begin in {} of {} pages, and all of 1 MiB or more, were looked at. In 95 of 100 such \
             samples the true sizes are within the bounds that are shown. A kind that is on few pages can be missing.",
            count(sampled.pages),
            count(sampled.of)
        ));
    }
    let leaked = contents.leaked.as_ref().map(|leaked| leaked.blocks);
    let how = match (contents.stopped, contents.readings) {
        _ if contents.core.is_some() => match leaked {
            Some(_) => "The core file is one reading of a process that did not move. A block counts as leaked if nothing in it leads to the block."
                .into(),
            None => "The core file is one reading of a process that did not move.".into(),
        },
        (None, _) if contents.sampled.is_some() => "The command did not stop the process.".into(),
        (Some(micros), _) => {
            let time = show_duration(std::time::Duration::from_micros(micros));
            format!("The process was stopped for {time} while its memory was copied.")
        }
        (None, 1) if leaked == Some(0) => "The command did not stop the process. One reading found nothing that is leaked.".into(),
        (None, 0 | 1) => "The command did not stop the process, and read it once.".into(),
        (None, readings) => format!(
            "The command did not stop the process. A block counts as leaked if {readings} readings found nothing that leads to it, at the same address, with the same \
             size and content."
        ),
    };
    all.push(how);
    if !contents.allocators.is_empty() {
        all.push(format!(
            "Objects are the live blocks of {}; sizes are what the program may use.",
            contents.allocators.join(" and ")
        ));
    }
    if contents.alike.blocks > 0 {
        all.push(format!(
            "{} blocks, {} in all, are reachable only through bytes that look like a pointer: in texts, in numbers and in unused memory. No name is \
             given to their holder. They do not count as leaked, and can be.",
            count(contents.alike.blocks),
            bytes(contents.alike.bytes)
        ));
    }
    if contents.leaked.is_some() {
        all.push(hidden(contents));
        all.extend(slabs(contents));
    }
    if let Some(leaked) = contents.leaked.as_ref().filter(|leaked| leaked.blocks > 0)
        && let Some(sampled) = leaked.sampled
    {
        all.push(format!(
            "The process has a profile: the call sites of {} of {} leaked blocks, which it has sampled, are known. The others may have other call \
             sites.",
            count(sampled),
            count(leaked.blocks)
        ));
    }
    if contents.leaked.iter().flat_map(|leaked| &leaked.rows).any(|row| row.kind.starts_with("py ")) {
        all.push(
            "Leaked objects of Python in circles are freed when its collector runs next (gc.collect()). Those that are leaked after that are lost."
                .into(),
        );
    }
    all.push("A type is named where it proves itself; a likely one may be something else with the same shape.".into());
    if contents.copies.blocks > 0 {
        all.push(format!(
            "{} texts are copies of another one: {}.",
            count(contents.copies.blocks),
            bytes(contents.copies.bytes)
        ));
    }
    all
}

/// Where references to a block may be hidden although the block counts as leaked.
fn hidden(contents: &Contents) -> String {
    // A core has the registers, as a stopped process has.
    let is_still = contents.stopped.is_some() || contents.core.is_some();
    let registers = if is_still { "" } else { ", in a register (--freeze reads them)" };
    let is_leaked = contents.leaked.as_ref().is_some_and(|leaked| leaked.blocks > 0);
    let pipes = match contents.pipes {
        0 => String::new(),
        _ if !is_leaked => String::new(),
        1 => ", in the pipe that the process has to itself".into(),
        pipes => format!(", in one of the {} pipes that the process has to itself", count(pipes)),
    };
    let kernel = if is_leaked { ", known to the kernel only (sigaltstack)" } else { "" };
    format!(
        "A block that is held counts as leaked if its only pointer is hidden: combined with another by XOR, shortened to 32 bits, encoded, \
         not at a multiple of 8 bytes{registers}{pipes}{kernel}, or in another process, a device or a file."
    )
}

/// Memory whose inner blocks are not seen, so that leaks in it are missed.
fn slabs(contents: &Contents) -> Option<String> {
    let row = contents.kinds.iter().find(|row| row.kind == SLAB)?;
    Some(format!(
        "GLib's slice allocator divides {} blocks, {} in all: what is lost inside of them is not seen. It takes each object from malloc if the \
         process is started with G_SLICE=always-malloc.",
        count(row.blocks),
        bytes(row.bytes)
    ))
}

#[cfg(test)]
mod tests;
