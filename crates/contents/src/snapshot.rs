//! One reading at one moment: the blocks, the roots and the types in a copy. From these it finds what is reached, and makes [`Contents`].

use allocanary_heap::{Memory, MemoryCopy, PageState};
use allocanary_process::HandedBack;

use crate::blocks::Blocks;
use crate::budget::{self, Budget};
use crate::buffers;
use crate::contents::Contents;
use crate::count::{self, HolderNames};
use crate::dominators::Tree;
use crate::found::HeapGraph;
use crate::holders::Holders;
use crate::kinds::Kinds;
use crate::leaks;
use crate::links::Links;
use crate::modules::Open;
use crate::pointed::Search;
use crate::python::{self, PythonVariable};
use crate::reach::Reach;
use crate::roots::{KernelHolder, Root, RootKind};
use crate::texts;
use crate::threads::ThreadSnapshot;
use crate::wanted::ContentsRequest;

/// The bytes of a block's header in glibc.
const HEADER: u64 = 16;

/// One reading of a copy.
pub struct Snapshot<'a> {
    copy: &'a MemoryCopy<'a>,
    threads: Vec<ThreadSnapshot>,
    found: HeapGraph,
    /// Words that hold nothing.
    pub links: Links,
    variables: Vec<PythonVariable>,
    pipes: u64,
}

impl<'a> Snapshot<'a> {
    /// Walks the heaps of a copy, and finds the roots.
    pub fn of(copy: &'a MemoryCopy<'a>, threads: Vec<ThreadSnapshot>, open: &Open) -> Snapshot<'a> {
        let mut found = HeapGraph::of(copy, &threads, open);
        for (index, thread) in (0..).zip(&threads) {
            // A thread that is stopped inside glibc's `malloc` or `free` may have only the address of the block's header.
            let words = thread.registers.iter().flat_map(|word| [*word, word.wrapping_add(HEADER)]);
            found.roots.extend(words.map(|word| Root::of_word(RootKind::Registers(index), word)));
        }
        let swapped = |from, to| {
            let runs = copy.pages().within(from, to).filter(|run| run.state == PageState::Swapped);
            runs.map(|run| run.to - run.from).sum::<u64>()
        };
        let writable = copy.mappings().iter().filter(|one| one.writable);
        let unread = copy.missing + writable.map(|one| swapped(one.from, one.to)).sum::<u64>();
        if unread > 0 {
            found.doubts.push(format!(
                "{} pages are in swap or could not be read: what points from there is not known",
                unread.div_ceil(copy.machine().page)
            ));
        }
        let (types, blocks) = (found.types.as_ref(), &found.blocks);
        let mut links = types.map(|types| python::links(copy, blocks, types)).unwrap_or_default();
        links.add_buffers(blocks.len(), buffers::find(copy, blocks, &found.roots));
        let variables = types.map(|types| python::variables(copy, blocks, types, &links)).unwrap_or_default();
        let of_python = (0..).zip(&variables).map(|(index, one)| Root::of_word(RootKind::Python(index), one.object));
        found.roots.splice(0..0, of_python);
        if copy.is_late() {
            found.doubts.push("the time was over before all was read: --timeout gives it more".into());
        }
        Snapshot { copy, threads, found, links, variables, pipes: 0 }
    }

    /// Adds the words that the kernel has for the process: they are roots.
    pub fn add_kernel(&mut self, kernel: &HandedBack) {
        for (what, words) in [(KernelHolder::Epoll, &kernel.epoll), (KernelHolder::Timer, &kernel.timers)] {
            self.found.roots.extend(words.iter().map(|word| Root::of_word(RootKind::Kernel(what), *word)));
        }
        self.pipes = kernel.pipes;
    }

    /// The live blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.found.blocks
    }

    /// Reasons why leaks cannot be found with this reading.
    pub fn doubts(&self) -> &Vec<String> {
        &self.found.doubts
    }

    /// Adds a reason why leaks cannot be found.
    pub fn doubt(&mut self, reason: String) {
        self.found.doubts.push(reason);
    }

    fn names(&self) -> HolderNames<'_> {
        HolderNames { threads: &self.threads, variables: &self.variables }
    }

    /// The blocks to which the roots lead.
    pub fn reach(&self) -> Reach {
        Reach::of(self.copy, &self.found.blocks, &self.found.roots, &self.links)
    }

    /// Makes the contents, as far as there is time.
    pub fn contents(mut self, mut reach: Reach, wanted: &ContentsRequest, budget: &Budget, open: &Open) -> Contents {
        let mut links = std::mem::take(&mut self.links);
        let heap = self.found.heap(self.copy, None, open);
        let (mut contents, mut late) = (self.found.contents(), Vec::new());
        let mut has_time = |part: f64, what: &'static str| {
            let has_time = late.is_empty() && !budget.is_past(part);
            late.extend((!has_time).then_some(what));
            has_time
        };
        let is_told = has_time(budget::KINDS, "kinds");
        let kinds = match is_told {
            true => Kinds::of(&heap, self.found.types.as_ref()),
            false => Kinds::unknown(heap.blocks.len()),
        };
        if kinds.add_data(&heap, &mut links.data) {
            reach = reach.again(self.copy, heap.blocks, heap.roots, &links);
        }
        let leaks = leaks::of(self.copy, heap.blocks, &reach, &links);
        contents.pipes = self.pipes;
        contents.kinds = count::kinds(&heap, &kinds);
        if is_told {
            (contents.copies, contents.texts) = texts::copies(&heap, &kinds, wanted.texts);
        }
        if self.found.doubts.is_empty() {
            contents.leaked = Some(count::leaked(&heap, &kinds, &leaks, &self.found.profile, wanted));
        }
        if wanted.holders && has_time(budget::HOLDERS, "holders") {
            let (found, paths) = Holders::of(&heap, &reach, open, &links, &|block| kinds.number(block));
            // Only the search for pointers to a block needs the walk later. Otherwise its memory is freed now.
            let reach = (wanted.target.is_some() || wanted.largest).then_some(reach);
            let names = self.names();
            contents.holders = count::holders(&heap, &kinds, &found, &paths, &names, open);
            contents.alike = count::alike(&found);
            if has_time(budget::RETAINED, "what single blocks retain") {
                let tree = Tree::of(&heap, &links, &found.entries);
                if let Some(tree) = &tree {
                    contents.retained = count::retained(&heap, &kinds, &found, &paths, tree, &names, open);
                }
                if let Some(reach) = &reach {
                    let (heap, kinds, links, tree, names) = (&heap, &kinds, &links, tree.as_ref(), &names);
                    let search = Search { heap, kinds, reach, links, tree, names, open, shows_texts: wanted.texts };
                    contents.pointed = wanted.target.as_ref().map(|target| search.find(target));
                    contents.largest = if wanted.largest { search.largest() } else { Vec::new() };
                }
            }
        }
        contents.problems = self.found.take_problems();
        if !late.is_empty() {
            contents.problems.push(format!("there was no time for {}: --timeout gives it more", late.join(" and ")));
        }
        contents
    }
}
