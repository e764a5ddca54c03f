//! The live blocks, by call site. In: records. Out: the largest sites, the sum of the rest, and a text for both.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::sampler::weight;
use super::stack::{self, Frame};
use super::table::{DEPTH, Record};
use allocanary_text::units::{Bytes, Unit, show_duration};

/// The sum of several blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Sum {
    /// Recorded blocks.
    pub blocks: u64,
    /// Their requested bytes.
    pub bytes: u64,
    /// Estimate of all blocks that the recorded ones represent; equal to `blocks` if every block is recorded.
    pub estimated_blocks: f64,
    /// Estimate of all bytes that the recorded ones represent.
    pub estimated_bytes: f64,
}

impl Sum {
    pub(super) fn add(&mut self, record: &Record, mean: u64) {
        let weight = weight(record.drawn.max(1), mean);
        self.blocks += 1;
        self.bytes += record.size;
        self.estimated_blocks += weight;
        self.estimated_bytes += weight * record.size as f64;
    }

    fn join(&mut self, other: &Sum) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.estimated_blocks += other.estimated_blocks;
        self.estimated_bytes += other.estimated_bytes;
    }
}

/// A call site: one stack, and the blocks that it allocated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Site {
    /// The live blocks of this site.
    pub sum: Sum,
    /// The age of the oldest block.
    pub oldest: Duration,
    /// The age of the youngest block.
    pub youngest: Duration,
    /// The innermost function that belongs neither to an allocator nor to the standard library.
    pub function: String,
    /// Its source file, if the program has line tables.
    pub file: Option<std::path::PathBuf>,
    /// The line that allocated.
    pub line: Option<u32>,
    /// The whole stack, innermost first, without the allocator's own functions.
    pub stack: Vec<Frame>,
}

/// A report of the live blocks; `Display` prints a table 80 columns wide.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The sites with the most estimated bytes, the largest first.
    pub sites: Vec<Site>,
    /// The number of sites that are not listed.
    pub other_sites: u64,
    /// The sum of the live blocks at those sites.
    pub others: Sum,
    /// The sum of the live blocks at all sites.
    pub total: Sum,
    /// One sample per this many bytes; 0 if every block is recorded.
    pub sampling: u64,
    /// Blocks that found no room for a record since the beginning. They may be alive or freed.
    pub unrecorded_blocks: u64,
    /// The bytes of these blocks.
    pub unrecorded_bytes: u64,
}

/// Calls the given function with each record.
type Records<'a> = dyn Fn(&mut dyn FnMut(&Record)) + 'a;

/// A site while its records are added up. There may be a million sites, so it is small, and the stack is looked up
/// again later.
struct Pile {
    sum: Sum,
    oldest: u64,
    youngest: u64,
}

impl Report {
    /// Adds up the records in two passes: first the sums, then the stacks of the `top` sites only.
    pub(super) fn fold(records: &Records, now: u64, sampling: u64, top: usize, unrecorded: (u64, u64)) -> Report {
        let mut piles: HashMap<u64, Pile> = HashMap::new();
        let mut total = Sum::default();
        records(&mut |record| {
            let pile =
                piles.entry(key(&record.frames)).or_insert(Pile { sum: Sum::default(), oldest: u64::MAX, youngest: 0 });
            pile.sum.add(record, sampling);
            pile.oldest = pile.oldest.min(record.born);
            pile.youngest = pile.youngest.max(record.born);
            total.add(record, sampling);
        });
        let mut piles: Vec<(u64, Pile)> = piles.into_iter().collect();
        piles.sort_unstable_by(|(a_key, a), (b_key, b)| {
            b.sum.estimated_bytes.total_cmp(&a.sum.estimated_bytes).then(a_key.cmp(b_key))
        });
        let rest = piles.split_off(top.min(piles.len()));
        let mut others = Sum::default();
        rest.iter().for_each(|(_, pile)| others.join(&pile.sum));

        let mut stacks: HashMap<u64, [usize; DEPTH]> = HashMap::new();
        let wanted: HashMap<u64, ()> = piles.iter().map(|(key, _)| (*key, ())).collect();
        records(&mut |record| {
            let key = key(&record.frames);
            if wanted.contains_key(&key) {
                stacks.entry(key).or_insert(record.frames);
            }
        });
        let age = |born: u64| Duration::from_nanos(now.saturating_sub(born));
        // A site has no stack if its last block was freed between the two passes. It then counts among the others.
        let mut other_sites = rest.len() as u64;
        let mut sites = Vec::new();
        for (key, pile) in piles {
            let Some(addresses) = stacks.get(&key) else {
                others.join(&pile.sum);
                other_sites += 1;
                continue;
            };
            let stack = stack::resolve(addresses);
            let title = stack::title(&stack).cloned();
            let title = title.unwrap_or(Frame { address: 0, function: "?".into(), file: None, line: None });
            sites.push(Site {
                sum: pile.sum,
                oldest: age(pile.oldest),
                youngest: age(pile.youngest),
                function: title.function,
                file: title.file,
                line: title.line,
                stack,
            });
        }
        let (unrecorded_blocks, unrecorded_bytes) = unrecorded;
        Report { sites, other_sites, others, total, sampling, unrecorded_blocks, unrecorded_bytes }
    }
}

/// A hash of a stack, over whole words. Two stacks with the same hash count as one: among a million stacks the chance
/// of this is one in 10^7.
fn key(frames: &[usize; DEPTH]) -> u64 {
    let mix = |key: u64, frame: &usize| {
        let mixed = (key ^ *frame as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    };
    frames.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

const WIDTH: usize = 80;

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sites = self.sites.len() as u64 + self.other_sites;
        writeln!(out, "alive: {} at {} sites", words(&self.total), Unit::Count.show(sites as f64))?;
        if self.sampling > 1 {
            let (recorded, mean) = (Bytes(self.total.bytes), Bytes(self.sampling));
            writeln!(out, "estimated from a sample of one in {mean}: {} blocks, {recorded}", self.total.blocks)?;
        }
        if self.unrecorded_blocks > 0 {
            let (blocks, bytes) = (self.unrecorded_blocks, Bytes(self.unrecorded_bytes));
            writeln!(out, "no room for {blocks} more ({bytes}) since the start, freed or not: raise capacity")?;
        }
        if self.sites.is_empty() && self.other_sites == 0 {
            return Ok(());
        }
        writeln!(out, "{:>9} {:>8} {:>13} {:>13}  function, file:line", "bytes", "blocks", "oldest", "youngest")?;
        for site in &self.sites {
            let (bytes, blocks) = shown(&site.sum);
            let (oldest, youngest) = (show_duration(site.oldest), show_duration(site.youngest));
            writeln!(out, "{bytes:>9} {blocks:>8} {oldest:>13} {youngest:>13}")?;
            writeln!(out, "    {}", head(&site.function, WIDTH - 4))?;
            if let Some(file) = &site.file {
                let line = site.line.map(|line| format!(":{line}")).unwrap_or_default();
                writeln!(out, "    {}", tail(&format!("{}{line}", file.display()), WIDTH - 4))?;
            }
        }
        if self.other_sites > 0 {
            let (bytes, blocks) = shown(&self.others);
            writeln!(out, "{bytes:>9} {blocks:>8} at {} other sites", self.other_sites)?;
        }
        Ok(())
    }
}

fn shown(sum: &Sum) -> (String, String) {
    (Unit::Bytes.show(sum.estimated_bytes.round()), Unit::Count.show(sum.estimated_blocks.round()))
}

fn words(sum: &Sum) -> String {
    let (bytes, blocks) = shown(sum);
    format!("{bytes} in {blocks} blocks")
}

/// The beginning of a text that is too long. For the name of a function with its types, this is the most useful part.
fn head(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    format!("{}..", text.chars().take(width - 2).collect::<String>())
}

/// The end of a text that is too long, such as a path.
fn tail(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    format!("..{}", text.chars().skip(length - (width - 2)).collect::<String>())
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
