//! Many processes in one table. In: readings. Out: a line for each process, or the sum of a tree.

use super::columns::columns;
use super::{bold, bytes, percent};
use crate::draw::wrapped;
use allocanary_heap::{Part, PartRow, Reading, together};
use allocanary_text::outside::{TerminalStyle, harmless};

/// The head of the lines of many processes.
const HEADS: [&str; 8] = ["process", "pid", "resident", "live", "overhead", "outside", "unknown", "malloc"];

const NOTE: &str = "overhead: what the allocator has beyond live blocks. outside: no allocator's, such as stacks, files and runtimes. Pages that \
                    several processes have count in each.";

/// A process as a row.
fn row(reading: &Reading) -> Vec<String> {
    let parts = reading.parts();
    let figures = [reading.resident, parts.of(Part::Live), parts.overhead(), parts.outside(), parts.of(Part::Unknown)];
    let mut row = vec![reading.process.name.harmless().into_owned(), reading.process.pid.to_string()];
    row.extend(figures.map(bytes));
    row.push(allocators(reading));
    row
}

/// Lines of processes. Each line is shown as soon as its process is read, so the columns' widths cannot depend on the rows.
#[derive(Default)]
pub struct ProcessLines {
    /// The rows with the most overhead.
    most: Vec<(u64, Vec<String>)>,
    count: usize,
}

/// The widths fit the kernel's longest name, the longest process ID, and figures such as `1023 KiB`.
const WIDTHS: [usize; 7] = [15, 7, 8, 8, 8, 8, 8];
/// The number of parts that the answer about a tree names.
const LARGEST: usize = 3;
/// The number of rows that are shown again at the end.
const MOST: usize = 5;

impl ProcessLines {
    /// A process as a line, below the head if it is the first.
    pub fn line(&mut self, reading: &Reading, look: &TerminalStyle) -> String {
        let row = row(reading);
        let mut line = fixed(&row);
        if self.count == 0 {
            let head = fixed(&HEADS.map(String::from));
            line.insert_str(0, &if look.color { format!("\x1b[2m{}\x1b[0m\n", head.trim_end()) } else { head });
        }
        self.count += 1;
        self.most.push((reading.parts().overhead(), row));
        self.most.sort_by_key(|(overhead, _)| std::cmp::Reverse(*overhead));
        self.most.truncate(MOST);
        line
    }

    /// The text below the last line: the processes with the most overhead, if there are many, and what the columns mean.
    pub fn end(&self, look: &TerminalStyle) -> String {
        let most: String = self.most.iter().map(|(_, row)| fixed(row)).collect();
        let most = if self.count > MOST {
            format!("\nOf {} processes these have the most overhead:\n{most}", self.count)
        } else {
            String::new()
        };
        format!("{most}\n{}\n", wrapped(NOTE, look.width.into()))
    }
}

/// A row in columns of known widths.
fn fixed(row: &[String]) -> String {
    let mut line = String::from(" ");
    for (at, cell) in row.iter().enumerate() {
        let (cell, width) = (harmless(cell), WIDTHS.get(at).copied().unwrap_or_default());
        match at {
            0 => line.push_str(&format!(" {cell:<width$}")),
            _ => line.push_str(&format!(" {cell:>width$}")),
        }
    }
    line.trim_end().to_string() + "\n"
}

/// Every process, the one with the most overhead first.
pub(super) fn all(readings: &[Reading], look: &TerminalStyle) -> String {
    let mut lines: Vec<&Reading> = readings.iter().collect();
    lines.sort_by_key(|reading| std::cmp::Reverse((reading.parts().overhead(), reading.resident)));
    let table: Vec<Vec<String>> =
        std::iter::once(HEADS.map(String::from).to_vec()).chain(lines.into_iter().map(row)).collect();
    format!("{}\n{}\n", columns(&table, look), wrapped(NOTE, look.width.into()))
}

/// A process and its children: their sum, by shares if these were read, and then each process.
pub fn tree(readings: &[Reading], look: &TerminalStyle) -> String {
    let rows = together(readings);
    let once: Option<u64> = rows.iter().map(|row| row.share).sum();
    let (answer, table, note) = match once {
        Some(sum) => once_each(readings, &rows, sum),
        None => in_each(readings, &rows),
    };
    format!(
        "{}\n\n{}\n{}\n\n{}",
        bold(&wrapped(&answer, look.width.into()), look),
        columns(&table, look),
        wrapped(note, look.width.into()),
        all(readings, look)
    )
}

type Together = (String, Vec<Vec<String>>, &'static str);

/// The texts for a tree whose shared pages count once.
fn once_each(readings: &[Reading], rows: &[PartRow], sum: u64) -> Together {
    let added: u64 = readings.iter().map(|reading| reading.resident).sum();
    let share = |row: &PartRow| row.share.unwrap_or(0);
    let answer = format!(
        "{} in {}, shared pages counted once: {}; counted in each process it would be {}",
        bytes(sum),
        processes(readings),
        largest(rows, share),
        bytes(added)
    );
    let mut table = vec![["part", "counted once", "of all", "in each"].map(String::from).to_vec()];
    for row in rows {
        let part = format!("{:.1} %", percent(share(row), sum));
        table.push(vec![row.full_name(), bytes(share(row)), part, bytes(row.resident)]);
    }
    table.push(vec!["all that is resident".into(), bytes(sum), "100.0 %".into(), bytes(added)]);
    let note = "Counted once: a page counts for each process by its share of it (PSS), in proportion within a heap or an area. A \
                page that a process outside of the tree has as well counts in part.";
    (answer, table, note)
}

/// The texts for a tree whose shared pages count in each process, because the kernel did not say how many processes share a page.
fn in_each(readings: &[Reading], rows: &[PartRow]) -> Together {
    let added: u64 = readings.iter().map(|reading| reading.resident).sum();
    let answer = format!(
        "{} in {}, shared pages counted in each: {}",
        bytes(added),
        processes(readings),
        largest(rows, |row| row.resident)
    );
    let mut table = vec![["part", "in each", "of all"].map(String::from).to_vec()];
    for row in rows {
        let part = format!("{:.1} %", percent(row.resident, added));
        table.push(vec![row.full_name(), bytes(row.resident), part]);
    }
    table.push(vec!["all that is resident".into(), bytes(added), "100.0 %".into()]);
    let note = "Together it is less: a page that several processes have counts in each. The kernel tells only root how many have it. As \
                root, or with --exact-shares, it counts once.";
    (answer, table, note)
}

/// `1 process`, `4 processes`.
fn processes(readings: &[Reading]) -> String {
    if readings.len() == 1 { "1 process".into() } else { format!("{} processes", readings.len()) }
}

/// The largest rows. They need not belong to a heap: workers of PHP have chunks that PHP keeps.
fn largest(rows: &[PartRow], bytes_of: impl Fn(&PartRow) -> u64) -> String {
    let mut rows: Vec<&PartRow> = rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(bytes_of(row)));
    let texts = rows.iter().take(LARGEST).map(|row| format!("{} {}", bytes(bytes_of(row)), harmless(&row.full_name())));
    texts.collect::<Vec<_>>().join(", ")
}

/// The allocators that were found. One whose memory could not be divided into parts is marked.
fn allocators(reading: &Reading) -> String {
    let name = |(name, divided): (&str, bool)| if divided { name.to_string() } else { format!("{name}, not analysed") };
    let names: Vec<String> = reading.allocators().map(name).collect();
    match names.is_empty() {
        true if !reading.problems.is_empty() => "not analysed".into(),
        true => "-".into(),
        false => harmless(&names.join("; ")).into_owned(),
    }
}
