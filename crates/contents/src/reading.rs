//! One reading: the blocks, the roots and the types at one moment. In: a copy. Out: what is reached, and [`Contents`].

use allocanary_heap::{Memory, PAGE, Parts, State, Walk, walk_all};

use crate::blocks::Blocks;
use crate::contents::{Contents, SCHEMA};
use crate::copy::Copy;
use crate::count::{self, Names};
use crate::holders::Holders;
use crate::kinds::{Heap, Kinds};
use crate::leaks;
use crate::links::Links;
use crate::modules::{Modules, Open};
use crate::python::{self, Types, Variable};
use crate::reach::Reach;
use crate::roots::{self, Place, Root};
use crate::threads::Thread;

/// What was read at one moment.
pub struct Reading<'a> {
    copy: &'a Copy<'a>,
    threads: Vec<Thread>,
    modules: Modules,
    types: Option<Types>,
    /// Words that hold nothing.
    pub links: Links,
    walks: Vec<Walk>,
    /// Its live blocks.
    pub blocks: Blocks,
    roots: Vec<Root>,
    variables: Vec<Variable>,
    problems: Vec<String>,
    /// Why leaks cannot be told.
    doubts: Vec<String>,
}

impl<'a> Reading<'a> {
    /// Walks the heaps of a copy, and finds the roots.
    pub fn of(copy: &'a Copy<'a>, threads: Vec<Thread>, open: &Open) -> Reading<'a> {
        let (mut walks, mut problems, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
        for walk in walk_all(copy) {
            match walk {
                Ok(walk) => {
                    let resident =
                        walk.layout.parts(copy.pages(), walk.arenas.len() as u32).iter().map(Parts::sum).sum();
                    if let Err(reason) = walk.trust(resident) {
                        doubts.push(format!("{} {}: {reason}", walk.allocator, walk.version));
                    }
                    walks.push(walk);
                }
                Err(unknown) => problems.push(format!("{unknown}; its blocks are not counted, and count as holders")),
            }
        }
        if walks.is_empty() {
            doubts.push(
                "no heap was found whose blocks are known here: those of glibc, jemalloc and mimalloc are".into(),
            );
        }
        let modules = Modules::of(copy, open);
        let types = Types::find(copy, &modules).unwrap_or_else(|name| {
            problems.push(format!("{name}: objects of this release are not known here: wanted CPython 3.8 to 3.13; what it leads to counts as held"));
            None
        });
        let mut taken = roots::taken(copy, &walks);
        let pools = types.as_ref().map(|_| python::pools(copy, &taken)).unwrap_or_default();
        taken.extend(pools.ranges);
        let mut roots = roots::of(copy, &threads, &modules, &roots::merged(taken));
        for (index, thread) in (0..).zip(&threads) {
            roots.extend(thread.registers.iter().map(|word| Root::of_word(Place::Registers(index), *word)));
        }
        let swapped = |from, to| {
            let runs = copy.pages().within(from, to).filter(|run| run.state == State::Swapped);
            runs.map(|run| run.to - run.from).sum::<u64>()
        };
        let writable = copy.mappings().iter().filter(|one| one.writable);
        let unread = copy.missing + writable.map(|one| swapped(one.from, one.to)).sum::<u64>();
        if unread > 0 {
            doubts.push(format!(
                "{} pages are in swap or could not be read: what points from there is not known",
                unread.div_ceil(PAGE)
            ));
        }
        let blocks = Blocks::of(&mut walks, pools.blocks);
        let links = types.as_ref().map(|types| python::links(copy, &blocks, types)).unwrap_or_default();
        if copy.is_late() {
            doubts.push("the time was over before all was read: --timeout gives it more".into());
        }
        let variables = types.as_ref().map(|types| python::variables(copy, &blocks, types, &links)).unwrap_or_default();
        let of_python = (0..).zip(&variables).map(|(index, one)| Root::of_word(Place::Python(index), one.object));
        roots.splice(0..0, of_python);
        Reading { copy, threads, modules, types, links, variables, walks, blocks, roots, problems, doubts }
    }

    /// Whether another reading could be better.
    pub fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Adds a reason why leaks cannot be told.
    pub fn doubt(&mut self, reason: String) {
        self.doubts.push(reason);
    }

    fn names(&self) -> Names<'_> {
        Names { threads: &self.threads, variables: &self.variables }
    }

    /// What the roots lead to.
    pub fn reach(&self) -> Reach {
        Reach::of(self.copy, &self.blocks, &self.roots, &self.links)
    }

    /// All that is told of it.
    pub fn contents(mut self, reach: &Reach, holders: bool, open: &Open) -> Contents {
        let heap = Heap { copy: self.copy, blocks: &self.blocks, modules: &self.modules, roots: &self.roots, open };
        let kinds = Kinds::of(&heap, self.types.as_ref());
        let found = leaks::of(self.copy, &self.blocks, reach, &self.links);
        let mut allocators: Vec<String> =
            self.walks.iter().map(|walk| format!("{} {}", walk.allocator, walk.version)).collect();
        allocators.extend(self.types.as_ref().map(|_| "CPython's pools".to_string()));
        let mut contents = Contents {
            contents: SCHEMA,
            allocators,
            blocks: self.blocks.len() as u64,
            bytes: self.blocks.iter().map(|(_, block)| block.bytes).sum(),
            kinds: count::kinds(&heap, &kinds),
            copies: count::copies(&heap),
            ..Contents::default()
        };
        if self.doubts.is_empty() {
            contents.leaked = Some(count::leaked(&heap, &kinds, &found));
        }
        self.problems.extend(self.doubts.drain(..).map(|doubt| format!("leaks are not told: {doubt}")));
        if holders {
            let (found, paths) = Holders::of(&heap, reach, open, &self.links, &|block| kinds.number(block));
            contents.holders = count::holders(&heap, &kinds, &found, &paths, &self.names(), open);
        }
        contents.problems = self.problems;
        contents
    }
}
