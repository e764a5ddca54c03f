//! The call sites of a trace: for each site its live and short-lived blocks, its growth, and the pages that it pins.

use allocanary_trace::error::{Error, Result};
use allocanary_trace::merge::{Merged, merge};
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::{NoRoom, Resident, StackId, Stacks};

use crate::course::GrowthSpan;
use crate::fold::{By, Folding};
use crate::groups::StackGroups;
use crate::moment::{MomentChoice, Peak, TracePoint};
use crate::named;
use crate::pages::{Divided, Division, Share, divide};
use crate::slope::{Slope, growth};
use crate::tally::{BlockTally, EventTally, TraceTotals};
use allocanary_names::FrameNames;
use allocanary_names::NamedFrame;

/// A site: its blocks in the whole trace, and the bytes that it holds at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationSite {
    /// Its name: see [`label`](crate::fold::label).
    pub name: String,
    /// Its function, file, line and module; a group by module or thread has none of these.
    pub frame: NamedFrame,
    /// The number of blocks that it made in the whole trace.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that lived for a millisecond at most.
    pub short: u64,
    /// Their bytes.
    pub short_bytes: u64,
    /// The number of its live blocks at the moment.
    pub blocks: u64,
    /// Their bytes.
    pub live: u64,
    /// How fast its live bytes grow; `None` if this is not known.
    pub slope: Option<Slope>,
    /// Whether it is marked as growing: see [`growth`].
    pub grows: bool,
    /// The number of its blocks whose stack ends in the site, because its code has no unwinding tables: the callers are not known.
    pub ended: u64,
    /// How its blocks share pages with others.
    pub share: Share,
}

/// The result for all sites.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteReport {
    /// The name of the program.
    pub program: String,
    /// The moment at which live blocks are examined.
    pub moment: TracePoint,
    /// The time of this moment, in nanoseconds after the start.
    pub nanos: u64,
    /// How allocations are grouped.
    pub by: By,
    /// The sites, the one that pins most first.
    pub sites: Vec<AllocationSite>,
    /// All pages of the heap.
    pub pages: Divided,
    /// The part of the trace in which growth was measured; `None` if it was not measured.
    pub span: Option<GrowthSpan>,
    /// For a trace with a window: how many older blocks were freed in it. Older blocks that were not freed may be in any page, so the
    /// figures for pinned and empty are upper bounds.
    pub freed_from_before: Option<u64>,
    /// If stacks were sampled: one block in this many has a stack, and the figures of sites are multiplied by this
    /// number.
    pub one_in: Option<f64>,
    /// Functions that only call malloc for their caller, and so are not sites. For each, the number of functions that call it.
    pub wrappers: Vec<(String, usize)>,
    /// The limits of the figures, a sentence each.
    pub notes: Vec<String>,
}

impl SiteReport {
    /// For a trace with a window: resident bytes of the pages that had no block of the window. Older blocks are in them, or they are empty,
    /// or not part of the heap. `None` for other traces, and if the resident pages are not known.
    pub fn before_window(&self) -> Option<u64> {
        self.pages.outside.filter(|_| self.freed_from_before.is_some())
    }
}

impl AllocationSite {
    /// Whether the stacks of most of its blocks end in the site.
    pub fn is_without_callers(&self) -> bool {
        self.ended * 2 > self.allocations
    }
}

/// The wanted moment of a trace. A trace with only some of the blocks (`--sample`) is refused.
pub fn moment(trace: &Trace, wanted: Option<MomentChoice>) -> Result<TracePoint> {
    Ok(match known(trace, wanted)? {
        Some(moment) => moment,
        None => {
            let mut peak = Peak::until(&trace.header.marks);
            merge(trace, &mut peak)?;
            peak.moment()
        }
    })
}

/// The wanted moment, if it is known without reading the events. `None` for the moment with the most live bytes.
fn known(trace: &Trace, wanted: Option<MomentChoice>) -> Result<Option<TracePoint>> {
    if trace.header.rate > 1 {
        return Err(Error::new(format!(
            "{}: wanted a trace of all blocks, found one of one block in {}: blocks that it lacks hold pages too. Record without --sample; \
             --stack-sample 1/10 takes fewer stacks, and keeps all blocks",
            trace.path().display(),
            trace.header.rate
        )));
    }
    let residents = trace.residents()?;
    let is_end = wanted == Some(MomentChoice::End) || wanted.is_none() && trace.header.marks.idle.is_none();
    if is_end && let Some(end) = TracePoint::at_end(trace.header.end, &residents) {
        return Ok(Some(end));
    }
    TracePoint::of(wanted, &trace.header.marks, &residents)
}

/// The data that are read from a trace: the blocks at a moment, the pages that were resident then, and the counts of
/// the merge.
pub type TraceData = (BlockTally, Option<Resident>, Merged);

/// Reads a trace at a moment.
pub fn take(trace: &Trace, moment: TracePoint, by_thread: bool) -> Result<TraceData> {
    read(trace, EventTally::new(moment, by_thread, GrowthSpan::of(trace)))
}

/// Reads a trace at the wanted moment, as [`moment`] and [`take`] do. It reads the trace once; these two read it twice to find
/// the most live bytes.
pub fn take_wanted(trace: &Trace, wanted: Option<MomentChoice>, by_thread: bool) -> Result<TraceData> {
    match known(trace, wanted)? {
        Some(moment) => take(trace, moment, by_thread),
        None => read(trace, EventTally::at_peak(&trace.header.marks, by_thread, GrowthSpan::of(trace))),
    }
}

fn read(trace: &Trace, mut tally: EventTally) -> Result<TraceData> {
    let merged = merge(trace, &mut tally)?;
    let freed_from_before = trace.lacks_begin().then_some(merged.before);
    let (page, one_stack_in) = (trace.header.page, trace.header.stacks.max(1));
    let mut taken = BlockTally { one_stack_in, page, freed_from_before, ..tally.taken() };
    let resident = taken.moment.resident(&trace.residents()?).cloned();
    taken.moment = taken.moment.of_recording(trace.header.state);
    // A time after the end is the end.
    taken.moment.nanos = taken.moment.nanos.min(merged.nanos);
    Ok((taken, resident, merged))
}

/// The number of blocks for each block with a stack, if stacks were sampled.
pub fn one_in(taken: &BlockTally) -> Option<f64> {
    let share = share_with_stack(taken);
    (!taken.by_thread && taken.one_stack_in > 1 && share > 0.0).then(|| 1.0 / share)
}

/// The share of allocations that have a stack. It is only near the requested share, because addresses are sampled, and some addresses are
/// used often.
fn share_with_stack(taken: &BlockTally) -> f64 {
    let all: u64 = taken.totals.iter().map(|totals| totals.allocations).sum();
    let with: u64 = taken.totals.iter().filter(|totals| totals.key != 0).map(|totals| totals.allocations).sum();
    with as f64 / all.max(1) as f64
}

/// How the free bytes of a page are divided.
fn division(one_in: Option<f64>) -> Division {
    if one_in.is_some() { Division::Blocks } else { Division::Sites }
}

/// Finds the sites.
pub fn find(
    program: &str,
    taken: &BlockTally,
    resident: Option<&Resident>,
    names: &mut FrameNames<'_>,
    by: By,
    folding: &Folding,
) -> SiteReport {
    let groups = StackGroups::of(taken, one_in(taken).is_some(), names, by, folding);
    of_groups(program, taken, resident, by, &groups, names.notes())
}

/// Finds the sites of stacks that are already grouped.
pub fn of_groups(
    program: &str,
    taken: &BlockTally,
    resident: Option<&Resident>,
    by: By,
    groups: &StackGroups,
    notes: Vec<String>,
) -> SiteReport {
    let one_in = one_in(taken);
    let site_of = |of_totals: u32| groups.site_of(of_totals);
    let site = |(name, frame): &(String, NamedFrame)| AllocationSite {
        name: name.clone(),
        frame: frame.clone(),
        ..AllocationSite::default()
    };
    let mut sites: Vec<AllocationSite> = groups.sites.iter().map(site).collect();
    let pages = divide(
        &taken.blocks,
        |block| site_of(block.of),
        sites.len(),
        &taken.ever,
        resident,
        division(one_in),
        taken.page,
    );
    for (site, share) in sites.iter_mut().zip(&pages.shares) {
        site.share = *share;
    }
    for ((totals, site), is_ended) in taken.totals.iter().zip(&groups.of).zip(&groups.ended) {
        if let Some(site) = *site {
            add(&mut sites[site], totals);
            sites[site].ended += if *is_ended { totals.allocations } else { 0 };
        }
    }
    for block in &taken.blocks {
        if let Some(site) = site_of(block.of) {
            sites[site].blocks += 1;
            sites[site].live = sites[site].live.saturating_add(block.size);
        }
    }
    grow(&mut sites, taken, site_of, one_in.map_or(1.0, |one_in| live_one_in(taken, one_in)));
    if let Some(one_in) = one_in {
        scale(&mut sites, one_in, live_one_in(taken, one_in));
    }
    sites.sort_by(|a, b| (b.share.pinned, b.live, b.bytes, &a.name).cmp(&(a.share.pinned, a.live, a.bytes, &b.name)));
    let mut found = SiteReport {
        program: program.into(),
        moment: taken.moment.clone(),
        nanos: taken.moment.nanos,
        by,
        sites,
        pages,
        span: taken.course.span,
        freed_from_before: taken.freed_from_before,
        one_in,
        wrappers: groups.folding.wrappers.iter().map(|((_, name), callers)| (name.clone(), *callers)).collect(),
        notes,
    };
    found.notes.extend(named::note(found.sites.iter().map(|site| (&site.frame, site.bytes as f64))));
    let share = share_with_stack(taken);
    if !taken.by_thread && taken.one_stack_in == 1 && share < 0.99 {
        found.notes.push(format!(
            "{:.0} % of the allocations have no stack, although all were asked for: it could not be walked, or there were too many.",
            100.0 * (1.0 - share)
        ));
    }
    found
}

fn add(site: &mut AllocationSite, totals: &TraceTotals) {
    site.allocations += totals.allocations;
    site.bytes = site.bytes.saturating_add(totals.bytes);
    site.short += totals.short;
    site.short_bytes = site.short_bytes.saturating_add(totals.short_bytes);
}

/// Computes how fast each site grows. `factor` is the number of live blocks for each one with a stack.
fn grow(sites: &mut [AllocationSite], taken: &BlockTally, site_of: impl Fn(u32) -> Option<usize>, factor: f64) {
    let Some(span) = taken.course.span else { return };
    let all = taken.course.sums(1, |_| Some(0)).concat();
    let most = all.into_iter().fold(0.0, f64::max);
    let courses = taken.course.sums(sites.len(), site_of);
    for (site, values) in sites.iter_mut().zip(courses) {
        let block = site.bytes as f64 / site.allocations.max(1) as f64;
        let (slope, grows) = growth(&values, span.seconds(), block, most / factor);
        (site.slope, site.grows) = (Some(slope.times(factor)), grows);
    }
}

/// The number of live blocks for each one with a stack. It is computed from live blocks only, because addresses are sampled and some
/// are used often.
pub(crate) fn live_one_in(taken: &BlockTally, one_in: f64) -> f64 {
    let is_with = |of: u32| taken.totals.get(of as usize).is_some_and(|totals| totals.key != 0);
    let with = taken.blocks.iter().filter(|block| is_with(block.of)).count();
    if with == 0 { one_in } else { taken.blocks.len() as f64 / with as f64 }
}

/// Estimates the figures of all blocks from those with a stack. In a sample it is not known which pages a site pins alone, so these figures
/// are 0.
fn scale(sites: &mut [AllocationSite], all: f64, live: f64) {
    let times = |figure: &mut u64, factor: f64| *figure = (*figure as f64 * factor).round() as u64;
    for site in sites {
        let of_all = [&mut site.allocations, &mut site.bytes, &mut site.short, &mut site.short_bytes, &mut site.ended];
        of_all.into_iter().for_each(|figure| times(figure, all));
        let share = &mut site.share;
        let of_live = [&mut site.blocks, &mut site.live, &mut share.live, &mut share.untouched, &mut share.pinned];
        of_live.into_iter().for_each(|figure| times(figure, live));
        (share.alone, share.with_holes) = (0, 0);
    }
}

/// The figures of one stack, for the formats of other tools. They contain only blocks with a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfStack {
    /// The stack; 0 if none could be walked.
    pub stack: StackId,
    /// Blocks that were made, and their bytes.
    pub allocated: (u64, u64),
    /// Live blocks, and their bytes.
    pub live: (u64, u64),
    /// Bytes that it pins.
    pub pinned: u64,
}

/// The figures of each single stack.
pub fn stacks(taken: &BlockTally, resident: Option<&Resident>) -> Vec<OfStack> {
    let one_in = one_in(taken);
    let is_counted = |of: u32| one_in.is_none() || taken.totals.get(of as usize).is_some_and(|totals| totals.key != 0);
    let site_of = |block: &crate::LiveBlock| Some(block.of as usize).filter(|_| is_counted(block.of));
    let pages = divide(&taken.blocks, site_of, taken.totals.len(), &taken.ever, resident, division(one_in), taken.page);
    let (all, live) = one_in.map_or((1.0, 1.0), |one_in| (one_in, live_one_in(taken, one_in)));
    let times = |figure: u64, factor: f64| if factor == 1.0 { figure } else { (figure as f64 * factor).round() as u64 };
    let mut out: Vec<OfStack> = taken
        .totals
        .iter()
        .zip(&pages.shares)
        .map(|(totals, share)| OfStack {
            stack: totals.key,
            allocated: (times(totals.allocations, all), times(totals.bytes, all)),
            live: (0, 0),
            pinned: times(share.pinned, live),
        })
        .collect();
    for block in &taken.blocks {
        let of = &mut out[block.of as usize].live;
        *of = (of.0 + 1, of.1.saturating_add(block.size));
    }
    out.iter_mut().for_each(|of| of.live = (times(of.live.0, live), times(of.live.1, live)));
    out.retain(|of| one_in.is_none() || of.stack != 0);
    out
}

/// The limits of the figures that follow from the trace, a sentence each.
pub fn limits(trace: &Trace, found: &SiteReport, merged: &Merged, stacks: &Stacks) -> Vec<String> {
    let mut notes = Vec::new();
    if found.pages.empty.is_none() {
        notes.push(
            "Which pages were resident at this moment is not in the trace: only pages that hold blocks are counted, and empty \
             pages that the allocator keeps are not."
                .into(),
        );
    }
    if let Some(one_in) = found.one_in {
        notes.push(format!(
            "One block in {one_in:.0} has a stack: figures of sites are estimates from those. The figures of the whole heap are exact."
        ));
    }
    if trace.header.state.is_early() {
        let end = trace.header.state.words();
        notes.push(format!("The recording {end}. What the program did later is not in the trace."));
    }
    if trace.header.attached {
        notes.push("The recorder was put into the running process: \"the window\" is the time from then on.".into());
    }
    if trace.lacks_begin() {
        notes.push(format!(
            "Blocks from before the window are not in the trace; {} of them were freed in it. Bytes of the others count as free: what is pinned and \
             what is empty is at most what is said. A replay has none of them.",
            merged.before
        ));
    }
    if trace.header.no_room > 0 {
        let why = match NoRoom::of(trace.header.state, stacks.nodes.len()) {
            NoRoom::Disk => "the disk was full",
            NoRoom::Format => {
                "it has at most some 4 million different frames: record fewer stacks (--stack-sample 1/10)"
            }
            NoRoom::Limit => "record with a larger --max-size",
        };
        notes.push(format!("{} stacks had no room in the trace: {why}.", trace.header.no_room));
    }
    if is_python(&trace.header.program, stacks) && !trace.header.python_malloc {
        notes.push(
            "Python keeps small objects in memory of its own, which malloc does not see: record with PYTHONMALLOC=malloc.".into(),
        );
    }
    if merged.strays + merged.lost_frees > 0 {
        notes.push(format!(
            "{} frees are of unknown blocks, and of {} blocks the free is not in the trace.",
            merged.strays, merged.lost_frees
        ));
    }
    notes.extend(merged.damage.iter().map(|damage| format!("The trace is damaged: {damage}; it is read up to there.")));
    notes
}

fn is_python(program: &str, stacks: &Stacks) -> bool {
    let name = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("python"));
    name(program) || stacks.modules.iter().any(|module| module.path.contains("/libpython"))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests;
