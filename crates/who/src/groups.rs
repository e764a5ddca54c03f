//! Groups stacks into sites: finds the site of each stack, and the names of the sites.

use std::collections::HashMap;

use crate::fold::{By, Folding, label, site};
use crate::labels::{FunctionKey, function_key, tell_apart};
use crate::tally::{BlockTally, TraceTotals};
use allocanary_names::FrameNames;
use allocanary_names::NamedFrame;

/// Stacks or threads in groups.
#[derive(Clone, Debug, Default)]
pub struct StackGroups {
    /// The group of each of [`BlockTally::totals`]; `None` for allocations whose stack was not sampled.
    pub of: Vec<Option<usize>>,
    /// For each of the totals, whether the stack ends in the site. Its code has no unwinding tables then, so that its callers are not
    /// known.
    pub ended: Vec<bool>,
    /// The name of each group, and the fields that its frames have in common. No two names are equal.
    pub sites: Vec<(String, NamedFrame)>,
    /// The functions that are passed over, including the wrappers.
    pub folding: Folding,
}

/// The key of a group: stacks with equal keys are one site.
type Key = (FunctionKey, u32);

impl StackGroups {
    /// Groups the totals. Stacks have no group only in a sample.
    pub fn of(
        taken: &BlockTally,
        is_sample: bool,
        names: &mut FrameNames<'_>,
        by: By,
        folding: &Folding,
    ) -> StackGroups {
        let mut folding = folding.clone();
        if by != By::Thread && by != By::Module && !folding.is_off {
            let made = |totals: &TraceTotals| (names.stack(totals.key), totals.allocations, totals.bytes);
            let made: Vec<_> = taken.totals.iter().filter(|totals| totals.key != 0).map(made).collect();
            folding.find_wrappers(&made);
        }
        let mut out = StackGroups { folding, ..StackGroups::default() };
        let mut known: HashMap<Key, usize> = HashMap::new();
        for totals in &taken.totals {
            let mut is_ended = false;
            let (name, frame) = match (by, totals.key) {
                (By::Thread, thread) => (format!("thread {thread}"), NamedFrame::default()),
                (_, 0) if is_sample => {
                    out.of.push(None);
                    out.ended.push(false);
                    continue;
                }
                (_, 0) => ("(no stack)".into(), NamedFrame::default()),
                (_, stack) => {
                    let frames = names.stack(stack);
                    let at = site(&frames, &out.folding);
                    is_ended = at.is_some_and(|at| at + names.ended(stack) >= frames.len()) && names.ended(stack) > 0;
                    let frame = at.map(|at| frames[at].clone()).unwrap_or_default();
                    (label(&frame, by), told(frame, by))
                }
            };
            let at = out.sites.len();
            let site = *known.entry((function_key(&name, &frame), frame.line)).or_insert(at);
            if site == at {
                out.sites.push((name, frame));
            } else if name.len() > out.sites[site].0.len() {
                // A function's name may have its parameters in one place, and lack them where it is inlined.
                out.sites[site].0 = name;
            }
            out.of.push(Some(site));
            out.ended.push(is_ended);
        }
        tell_apart(&mut out.sites);
        out
    }

    /// The group of one of the totals.
    pub fn site_of(&self, totals: u32) -> Option<usize> {
        self.of.get(totals as usize).copied().flatten()
    }
}

/// The fields that all stacks of a group have in common.
fn told(frame: NamedFrame, by: By) -> NamedFrame {
    match by {
        By::Line => frame,
        By::Function => NamedFrame { line: 0, ..frame },
        _ => NamedFrame { module: frame.module, ..NamedFrame::default() },
    }
}
