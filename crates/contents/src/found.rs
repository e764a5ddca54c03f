//! The result of the heap walks: the program and its libraries, the live blocks of all allocators, the roots, and the problems. The blocks'
//! contents were not yet examined.

use allocanary_heap::{Memory, MemoryCopy, Parts, Walk, walk_all};

use crate::blocks::Blocks;
use crate::contents::{Contents, SCHEMA};
use crate::kinds::TypedBlocks;
use crate::languages::Languages;
use crate::modules::{ModuleList, Open};
use crate::profile::ProcessProfile;
use crate::python::{self, Types};
use crate::roots::{self, Root};
use crate::sample::part::PageSample;
use crate::threads::ThreadSnapshot;

/// The blocks and roots of one reading.
pub struct HeapGraph {
    /// The program and its libraries.
    pub modules: ModuleList,
    /// The types of CPython, if the process has an interpreter.
    pub types: Option<Types>,
    walks: Vec<Walk>,
    /// The live blocks.
    pub blocks: Blocks,
    /// The roots that are ranges of memory, without single words such as registers.
    pub roots: Vec<Root>,
    /// The sampled profile of the process, if it has one.
    pub profile: ProcessProfile,
    /// What could not be found out, a sentence each.
    pub problems: Vec<String>,
    /// Reasons why leaks cannot be found, a sentence each.
    pub doubts: Vec<String>,
}

impl HeapGraph {
    /// Walks the heaps, and finds the roots.
    pub fn of(copy: &MemoryCopy, threads: &[ThreadSnapshot], open: &Open) -> HeapGraph {
        let (mut walks, mut problems, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
        for walk in walk_all(copy) {
            match walk {
                Ok(walk) => {
                    let parts = walk.layout.parts(copy.pages(), walk.arenas.len() as u32);
                    if let Err(reason) = walk.trust(parts.iter().map(Parts::sum).sum()) {
                        doubts.push(format!("{} {}: {reason}", walk.name(), walk.version));
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
        let modules = ModuleList::of(copy, open);
        let types = Types::find(copy, &modules).unwrap_or_else(|name| {
            problems.push(format!("{name}: objects of this release are not known here: wanted CPython 3.8 to 3.13; what it leads to counts as held"));
            None
        });
        let mut taken = roots::taken(copy, &walks);
        let pools = types.as_ref().map(|_| python::pools(copy, &taken)).unwrap_or_default();
        taken.extend(pools.ranges);
        let profile = ProcessProfile::of(copy);
        taken.extend(profile.ranges.iter().cloned());
        let roots = roots::of(copy, threads, &modules, &roots::merged(taken));
        let blocks = Blocks::of(&mut walks, pools.blocks, copy.machine().processor);
        HeapGraph { modules, types, walks, blocks, roots, profile, problems, doubts }
    }

    /// The data in which kinds are searched.
    pub fn heap<'a>(&'a self, copy: &'a MemoryCopy, sample: Option<&'a PageSample>, open: &'a Open) -> TypedBlocks<'a> {
        let languages = Languages::of(&self.modules, open);
        let (blocks, modules, roots) = (&self.blocks, &self.modules, &self.roots);
        TypedBlocks { copy, blocks, sample, modules, roots, languages, open }
    }

    /// Contents with only the number of blocks and their allocators.
    pub fn contents(&self) -> Contents {
        let release = |walk: &Walk| format!("{} {}", walk.name(), walk.version);
        let mut allocators: Vec<String> = self.walks.iter().map(release).collect();
        allocators.extend(self.types.as_ref().map(|_| "CPython's pools".to_string()));
        Contents {
            contents: SCHEMA,
            allocators,
            blocks: self.blocks.len() as u64,
            bytes: self.blocks.iter().map(|(_, block)| block.bytes).sum(),
            ..Contents::default()
        }
    }

    /// Takes all problems and doubts out.
    pub fn take_problems(&mut self) -> Vec<String> {
        let doubts = self.doubts.drain(..).map(|doubt| format!("leaks are not told: {doubt}"));
        self.problems.drain(..).chain(doubts).collect()
    }
}
