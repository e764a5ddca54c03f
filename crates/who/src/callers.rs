//! Builds a tree of the callers of a site: the functions that call it, their callers, and so on. Its depth is limited, and small branches
//! are added up.

use std::collections::HashMap;
use std::sync::Arc;

use allocanary_trace::stacks::{Resident, StackId};

use crate::fold::{By, is_runtime, label, site};
use crate::groups::StackGroups;
use crate::order::SiteOrder;
use crate::sites::{AllocationSite, OfStack, SiteReport, stacks};
use crate::tally::BlockTally;
use allocanary_names::FrameNames;
use allocanary_names::{FunctionId, NamedFrame};

/// The most functions from the site outwards, including the site.
pub const DEPTH: usize = 12;
/// A branch with a smaller share of the site's figure is not shown separately.
pub const LEAST: f64 = 0.01;

/// The figures of all stacks through a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFigures {
    /// Bytes that they pin: a part of the bytes that the site pins. The parts are in proportion to what each stack would pin if it were a
    /// site.
    pub pinned: u64,
    /// Bytes of live blocks.
    pub live: u64,
    /// Bytes that were allocated.
    pub allocated: u64,
    /// Live blocks.
    pub blocks: u64,
}

impl FunctionFigures {
    fn add(&mut self, other: FunctionFigures) {
        self.pinned = self.pinned.saturating_add(other.pinned);
        self.live = self.live.saturating_add(other.live);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.blocks += other.blocks;
    }

    /// The figure by which sites are sorted.
    fn by(self, order: SiteOrder) -> u64 {
        match order {
            SiteOrder::Pinned => self.pinned,
            SiteOrder::Requested | SiteOrder::Grows => self.live,
            SiteOrder::Allocated => self.allocated,
        }
    }
}

/// A function, and its callers on the way to the site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of the function.
    pub name: String,
    /// Its program or library.
    pub module: String,
    /// The figures of all stacks through it.
    pub figures: FunctionFigures,
    /// Its callers, the largest first.
    pub callers: Vec<Caller>,
    /// The number of smaller callers that are not shown, and their sum.
    pub others: (usize, FunctionFigures),
    /// Whether it has callers beyond the tree's depth.
    pub is_deeper: bool,
}

#[derive(Default)]
struct Node {
    name: String,
    module: String,
    figures: FunctionFigures,
    children: Vec<usize>,
    is_deeper: bool,
}

type Key = (usize, String, Option<Arc<FunctionId>>, String);

/// The callers of the site of this name; `None` if there is no such site.
pub fn of(
    taken: &BlockTally,
    resident: Option<&Resident>,
    groups: &StackGroups,
    names: &mut FrameNames<'_>,
    found: &SiteReport,
    name: &str,
    order: SiteOrder,
) -> Option<Caller> {
    all(taken, resident, groups, names, found, &[name], order).pop()
}

/// The callers of several sites, by their names.
pub fn all(
    taken: &BlockTally,
    resident: Option<&Resident>,
    groups: &StackGroups,
    names: &mut FrameNames<'_>,
    found: &SiteReport,
    wanted: &[&str],
    order: SiteOrder,
) -> Vec<Caller> {
    let of_stack: HashMap<StackId, OfStack> = stacks(taken, resident).into_iter().map(|of| (of.stack, of)).collect();
    let sites = wanted.iter().filter_map(|name| found.sites.iter().find(|site| site.name == *name));
    sites.map(|site| tree(taken, &of_stack, groups, names, found, site, order)).collect()
}

fn tree(
    taken: &BlockTally,
    of_stack: &HashMap<StackId, OfStack>,
    groups: &StackGroups,
    names: &mut FrameNames<'_>,
    found: &SiteReport,
    of: &AllocationSite,
    order: SiteOrder,
) -> Caller {
    let is_site = |group: &Option<usize>| group.is_some_and(|group| groups.sites[group].0 == of.name);
    let keys = taken.totals.iter().zip(&groups.of).filter(|(_, group)| is_site(group)).map(|(totals, _)| totals.key);
    let ours: Vec<OfStack> = keys.filter_map(|key| of_stack.get(&key).copied()).collect();
    let sum: u64 = ours.iter().map(|one| one.pinned).sum();
    let factor = of.share.pinned as f64 / sum.max(1) as f64;
    let mut nodes = vec![Node { name: of.name.clone(), module: of.frame.module.clone(), ..Node::default() }];
    let mut known: HashMap<Key, usize> = HashMap::new();
    for one in ours {
        let figures = FunctionFigures {
            pinned: (one.pinned as f64 * factor).round() as u64,
            live: one.live.1,
            allocated: one.allocated.1,
            blocks: one.live.0,
        };
        let frames = if one.stack == 0 { Vec::new() } else { names.stack(one.stack) };
        let outer = site(&frames, &groups.folding).map_or(0, |at| at + 1);
        // The functions that start the program or the thread are left out.
        let end = frames.iter().rposition(|frame| !is_runtime(frame)).map_or(0, |last| last + 1);
        let (mut at, mut depth) = (0, 1);
        nodes[0].figures.add(figures);
        for frame in frames[..end].iter().skip(outer) {
            if depth == DEPTH {
                nodes[at].is_deeper = true;
                break;
            }
            let key = (at, frame.function.clone(), frame.identity.clone(), frame.module.clone());
            let next = *known.entry(key).or_insert(nodes.len());
            if next == nodes.len() {
                nodes.push(Node { name: name(frame, found), module: frame.module.clone(), ..Node::default() });
                nodes[at].children.push(next);
            }
            nodes[next].figures.add(figures);
            (at, depth) = (next, depth + 1);
        }
    }
    let least = (nodes[0].figures.by(order) as f64 * LEAST).ceil().max(1.0) as u64;
    shown(&nodes, 0, order, least)
}

/// The name of a function. It has the line if sites are lines.
fn name(frame: &NamedFrame, found: &SiteReport) -> String {
    label(frame, if found.by == By::Line { By::Line } else { By::Function })
}

/// A node with its branches. The tree is no deeper than [`DEPTH`].
fn shown(nodes: &[Node], at: usize, order: SiteOrder, least: u64) -> Caller {
    let node = &nodes[at];
    let mut children = node.children.clone();
    children.sort_by(|a, b| {
        let (a, b) = (&nodes[*a], &nodes[*b]);
        (b.figures.by(order), &a.name).cmp(&(a.figures.by(order), &b.name))
    });
    let (large, small): (Vec<usize>, Vec<usize>) =
        children.into_iter().partition(|child| nodes[*child].figures.by(order) >= least);
    let mut sum = FunctionFigures::default();
    small.iter().for_each(|child| sum.add(nodes[*child].figures));
    Caller {
        name: node.name.clone(),
        module: node.module.clone(),
        figures: node.figures,
        callers: large.into_iter().map(|child| shown(nodes, child, order, least)).collect(),
        others: (small.len(), sum),
        is_deeper: node.is_deeper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Folding;
    use crate::invented::{Events, stacks};
    use crate::moment::TracePoint;
    use crate::sites::of_groups;

    /// Blocks of the site `0x9` by stacks, outermost first.
    fn tree(blocks: &[(&[u64], u64)]) -> Caller {
        let (table, ids) = stacks(&blocks.iter().map(|(stack, _)| *stack).collect::<Vec<_>>());
        let mut events = Events::new(TracePoint::at_time(9), 10);
        for (at, (id, (_, size))) in ids.iter().zip(blocks).enumerate() {
            events.new_block(0, *id, (at as u64 + 1) * 0x10_0000, *size);
        }
        let (taken, mut names) = (events.taken(), FrameNames::of(&table));
        let groups = StackGroups::of(&taken, false, &mut names, By::Function, &Folding::default());
        let found = of_groups("x", &taken, None, By::Function, &groups, Vec::new());
        assert_eq!(of(&taken, None, &groups, &mut names, &found, "nothing", SiteOrder::Requested), None);
        of(&taken, None, &groups, &mut names, &found, "0x9", SiteOrder::Requested).unwrap()
    }

    #[test]
    fn each_function_has_what_goes_through_it_and_small_branches_are_added_up() {
        let all: [(&[u64], u64); 5] =
            [(&[1, 2, 9], 4096), (&[1, 3, 9], 8192), (&[4, 3, 9], 4096), (&[1, 5, 9], 7), (&[1, 6, 9], 8)];
        let tree = tree(&all);
        assert_eq!((tree.name.as_str(), tree.figures.live, tree.figures.blocks), ("0x9", 16399, 5));
        let [three, two] = &tree.callers[..] else { panic!("{tree:?}") };
        assert_eq!((three.name.as_str(), three.figures.live), ("0x3", 12288));
        assert_eq!(three.callers.iter().map(|caller| caller.figures.live).collect::<Vec<_>>(), [8192, 4096]);
        assert_eq!((two.name.as_str(), two.callers[0].name.as_str()), ("0x2", "0x1"));
        assert_eq!((tree.others.0, tree.others.1.live), (2, 15));
        // The site's pinned bytes are divided among its stacks.
        assert_eq!(tree.figures.pinned, 2 * 4096 - 15);
    }

    #[test]
    fn a_tree_has_a_last_level() {
        let stack: Vec<u64> = (100..200).chain([9]).collect();
        let mut at = &tree(&[(&stack, 4096)]);
        let mut depth = 1;
        while let [next] = &at.callers[..] {
            (at, depth) = (next, depth + 1);
        }
        assert_eq!((depth, at.is_deeper), (DEPTH, true));
    }
}
