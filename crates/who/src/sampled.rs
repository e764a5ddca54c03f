//! The call sites of a running process, from its sampled profile: for each site an estimate of its live bytes with an interval, and what it
//! has allocated.

mod modules;

use allocanary_profile::interval::{BytesEstimate, SampleSums};
use allocanary_profile::reader::TableProfile;
use allocanary_trace::stacks::{StackId, StackNode, Stacks};

use crate::course::Course;
use crate::ever::{Ever, PAGE};
use crate::fold::{By, Folding};
use crate::groups::StackGroups;
use crate::moment::TracePoint;
use crate::named;
use crate::sites::OfStack;
use crate::tally::{BlockTally, LiveBlock, TraceTotals};
use allocanary_names::FrameNames;
use allocanary_names::NamedFrame;
use allocanary_names::sources::OfProcess;

/// A site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledSite {
    /// Its name: see [`label`](crate::fold::label).
    pub name: String,
    /// Its function, file, line and module.
    pub frame: NamedFrame,
    /// The samples of its live blocks.
    pub sum: SampleSums,
    /// Bytes that it has allocated since the table's begin.
    pub allocated: f64,
    /// Blocks that it has allocated.
    pub allocations: f64,
    /// The age of its oldest sample in seconds; 0 without one.
    pub oldest: u64,
}

impl SampledSite {
    /// Its live bytes.
    pub fn live(&self) -> BytesEstimate {
        self.sum.estimate()
    }
}

/// The result for all sites.
#[derive(Clone, Debug)]
pub struct SampledSites {
    /// The name of the program.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// The mean distance of samples in bytes.
    pub mean: u64,
    /// The age of the profile in seconds.
    pub seconds: f64,
    /// How allocations are grouped.
    pub by: By,
    /// The sites, the one that holds most first.
    pub sites: Vec<SampledSite>,
    /// All live blocks.
    pub all: SampleSums,
    /// Functions that only call malloc for their caller, and so are not sites. For each, the number of functions that call it.
    pub wrappers: Vec<(String, usize)>,
    /// The limits of the figures, a sentence each.
    pub notes: Vec<String>,
}

/// A profile whose stacks can be named.
pub struct NamedProfile {
    profile: TableProfile,
    /// The stacks. Their IDs are the indices of the profile's frames.
    pub stacks: Stacks,
    /// The totals of each stack, and a block for each sample.
    taken: BlockTally,
    /// The process's files.
    sources: OfProcess,
}

impl NamedProfile {
    /// Finds the files of a profile.
    pub fn of(profile: TableProfile) -> NamedProfile {
        let node =
            |frame: &allocanary_profile::reader::RawFrame| StackNode { parent: frame.parent, pc: frame.pc, module: 0 };
        let nodes = profile.frames.iter().map(node).collect();
        let (modules, sources) = modules::of(profile.pid, &profile.mappings);
        let stacks = Stacks { nodes, modules };
        let taken = taken(&profile);
        NamedProfile { profile, stacks, taken, sources }
    }

    /// The path of the program.
    pub fn program(&self) -> String {
        allocanary_process::link(self.profile.pid).unwrap_or_else(|_| "unknown".into())
    }

    /// The names of its stacks, by the files that the process has mapped.
    pub fn names(&self) -> FrameNames<'_> {
        FrameNames::of_process(&self.stacks, &self.sources)
    }

    /// The groups of its stacks.
    pub fn groups(&self, names: &mut FrameNames<'_>, by: By, folding: &Folding) -> StackGroups {
        StackGroups::of(&self.taken, false, names, by, folding)
    }

    /// The sites.
    pub fn sites(&self, program: &str, by: By, groups: &StackGroups, notes: Vec<String>) -> SampledSites {
        let mean = self.profile.mean;
        let site = |(name, frame): &(String, NamedFrame)| SampledSite {
            name: name.clone(),
            frame: frame.clone(),
            sum: SampleSums::none(mean),
            ..SampledSite::default()
        };
        let mut sites: Vec<SampledSite> = groups.sites.iter().map(site).collect();
        let mut all = SampleSums::none(mean);
        for (totals, site) in self.taken.totals.iter().zip(&groups.of) {
            if let Some(site) = site.and_then(|site| sites.get_mut(site)) {
                let frame = self.profile.frames.get(totals.key as usize).copied().unwrap_or_default();
                site.allocated += frame.bytes;
                site.allocations += frame.blocks;
            }
        }
        for (sample, block) in self.profile.samples.iter().zip(&self.taken.blocks) {
            all.add(sample.size, mean);
            if let Some(site) = groups.site_of(block.of).and_then(|site| sites.get_mut(site)) {
                site.sum.add(sample.size, mean);
                site.oldest = site.oldest.max(sample.age);
            }
        }
        let key = |site: &SampledSite| (site.live().bytes, site.allocated);
        sites
            .sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal).then(a.name.cmp(&b.name)));
        let notes = notes.into_iter().chain(named::note(sites.iter().map(|site| (&site.frame, site.allocated))));
        SampledSites {
            program: program.into(),
            pid: self.profile.pid,
            mean,
            seconds: self.profile.seconds,
            by,
            sites,
            all,
            wrappers: groups.folding.wrappers.iter().map(|((_, name), callers)| (name.clone(), *callers)).collect(),
            notes: self.notes(notes.collect()),
        }
    }

    /// The limits of the figures, which follow from the names and from the profile.
    pub fn notes(&self, of_names: Vec<String>) -> Vec<String> {
        let interval = "Live bytes are as wrong as their intervals say, in 95 of 100 cases.".to_string();
        of_names.into_iter().chain(self.profile.limits()).chain([interval]).collect()
    }

    /// The sampled blocks: the address of each, its site's name, and its size in bytes.
    pub fn blocks<'a>(&'a self, groups: &'a StackGroups) -> impl Iterator<Item = (u64, &'a str, u64)> {
        let site = |block: &LiveBlock| groups.site_of(block.of).and_then(|site| groups.sites.get(site));
        self.taken.blocks.iter().filter_map(move |block| Some((block.address, site(block)?.0.as_str(), block.size)))
    }

    /// The figures of each single stack, for the formats of other tools.
    pub fn of_stacks(&self) -> Vec<OfStack> {
        let mut sums = vec![SampleSums::default(); self.taken.totals.len()];
        for block in &self.taken.blocks {
            sums[block.of as usize].add(block.size, self.profile.mean);
        }
        let whole = |number: f64| number.round() as u64;
        let stack = |(totals, sum): (&TraceTotals, &SampleSums)| OfStack {
            stack: totals.key,
            allocated: (totals.allocations, totals.bytes),
            live: (whole(sum.blocks), whole(sum.estimate().bytes)),
            pinned: 0,
        };
        self.taken.totals.iter().zip(&sums).map(stack).collect()
    }

    /// The mean distance of samples in bytes.
    pub fn mean(&self) -> u64 {
        self.profile.mean
    }
}

/// The totals of the stacks, and the samples as blocks.
fn taken(profile: &TableProfile) -> BlockTally {
    let mut of: Vec<Option<u32>> = vec![None; profile.frames.len()];
    let mut totals: Vec<TraceTotals> = Vec::new();
    let mut index = |stack: StackId, totals: &mut Vec<TraceTotals>| {
        let place = of.get_mut(stack as usize)?;
        Some(*place.get_or_insert_with(|| {
            let frame = &profile.frames[stack as usize];
            let (allocations, bytes) = (frame.blocks.round() as u64, frame.bytes.round() as u64);
            totals.push(TraceTotals::known(stack, allocations, bytes));
            totals.len() as u32 - 1
        }))
    };
    for (stack, frame) in profile.frames.iter().enumerate() {
        if frame.bytes > 0.0 {
            index(stack as StackId, &mut totals);
        }
    }
    let mut blocks = Vec::new();
    for sample in &profile.samples {
        let of = index(sample.frame, &mut totals).unwrap_or(0);
        blocks.push(LiveBlock { address: sample.address, size: sample.size, of });
    }
    BlockTally {
        moment: TracePoint::now(),
        by_thread: false,
        totals,
        blocks,
        ever: Ever::default(),
        page: PAGE,
        course: Course::over(None),
        one_stack_in: 1,
        freed_from_before: None,
    }
}

#[cfg(test)]
mod tests;
