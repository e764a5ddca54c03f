//! Reads what the heap of a live process contains. In: its number. Out: [`Contents`].
//!
//! It runs on, unless it shall be stopped. Then the leaks of several readings have to agree: one more is made until it takes none away.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allocanary_heap::{
    Frozen, How, Live, Mapping, Memory, PAGE, Parts, State, Subject, Trouble, Walk, file_of, walk_all,
};

use crate::blocks::Blocks;
use crate::contents::{Contents, SCHEMA};
use crate::copy::{Copy, Room, bytes_of};
use crate::count::{self, Names};
use crate::holders::Holders;
use crate::kinds::{Heap, Kinds};
use crate::leaks::{self, Candidate};
use crate::links::Links;
use crate::modules::{Modules, Open};
use crate::python::{self, Types, Variable};
use crate::reach::Reach;
use crate::roots::{self, Place, Root};
use crate::threads::{self, Thread};

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Whether the process is stopped.
    pub how: How,
    /// The most bytes that are copied.
    pub limit: u64,
    /// Whether to tell who holds the blocks.
    pub holders: bool,
}

/// The most readings. In a process whose blocks move fast, each one leaves a hundredth of what is false in the one before.
const READINGS: u32 = 8;

/// Reads a process, at most for a time.
pub fn take(pid: u32, wanted: &Wanted, time: Duration) -> Result<Contents, Trouble> {
    let until = Instant::now().checked_add(time);
    let subject = Subject::of(pid).ok_or(Trouble::Gone(pid))?;
    let open = |mapping: &Mapping| file_of(pid, mapping).ok();
    let mut earlier: Option<Vec<Candidate>> = None;
    let mut room: Option<Room> = None;
    let mut doubtful = 0;
    for number in 1.. {
        let live = Live::open_until(pid, until)?;
        let bytes = bytes_of(&live);
        if bytes > wanted.limit {
            return Err(Trouble::Told(format!(
                "process {pid}: {bytes} bytes would have to be copied, and the limit is {}: --limit allows more",
                wanted.limit
            )));
        }
        let space = room.take().unwrap_or_else(|| Room::for_all_of(&live));
        let (live, threads, copy, stopped) = match wanted.how {
            How::Running => (live, None, None, None),
            How::Stopped => {
                let begun = Instant::now();
                let frozen = Frozen::stop(pid)?;
                let live = Live::open_until(pid, until)?;
                let threads = threads::of(&live, Some(pid), true);
                (live, Some(threads), Some((begun, frozen)), Some(0))
            }
        };
        let threads = threads.unwrap_or_else(|| threads::of(&live, Some(pid), false));
        let copied = Copy::of(&live, space);
        let stopped = stopped.and(copy).map(|(begun, frozen)| {
            drop(frozen);
            begun.elapsed().as_micros() as u64
        });
        if !Subject::of(pid).ok_or(Trouble::Gone(pid))?.is_same(&subject) {
            return Err(Trouble::Changed(pid));
        }
        let reading = Reading::of(&copied, threads, &open);
        if reading.is_doubtful() && stopped.is_none() && doubtful < DOUBTFUL {
            doubtful += 1;
            drop(reading);
            room = Some(copied.into_room());
            continue;
        }
        let mut reach = reading.reach();
        let before = earlier.as_ref().map(Vec::len);
        if let Some(earlier) = &earlier {
            leaks::agree(&copied, &reading.blocks, &mut reach, earlier, &reading.links);
        }
        let found = leaks::candidates(&copied, &reading.blocks, &reach);
        let agreed = stopped.is_some() || found.is_empty() || before == Some(found.len());
        if agreed || number == READINGS || live.is_late() {
            let mut contents = reading.contents(&reach, wanted.holders, &open);
            contents.taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            (contents.process, contents.stopped, contents.readings) = (subject, stopped, number);
            if !agreed {
                contents.problems.push(format!("the heap moves: {number} readings do not agree on what is leaked; --freeze stops the process for one"));
            }
            return Ok(contents);
        }
        earlier = Some(found);
        drop(reading);
        room = Some(copied.into_room());
    }
    unreachable!("the last reading returns")
}

/// The readings that are made again because the heap changed under the walk.
const DOUBTFUL: u32 = 3;

/// What was read at one moment.
struct Reading<'a> {
    copy: &'a Copy<'a>,
    threads: Vec<Thread>,
    modules: Modules,
    types: Option<Types>,
    links: Links,
    walks: Vec<Walk>,
    blocks: Blocks,
    roots: Vec<Root>,
    variables: Vec<Variable>,
    problems: Vec<String>,
    /// Why leaks cannot be told.
    doubts: Vec<String>,
}

impl<'a> Reading<'a> {
    fn of(copy: &'a Copy<'a>, threads: Vec<Thread>, open: &Open) -> Reading<'a> {
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
        let variables = types.as_ref().map(|types| python::variables(copy, &blocks, types, &links)).unwrap_or_default();
        let of_python = (0..).zip(&variables).map(|(index, one)| Root::of_word(Place::Python(index), one.object));
        roots.splice(0..0, of_python);
        Reading { copy, threads, modules, types, links, variables, walks, blocks, roots, problems, doubts }
    }

    /// Whether another reading could be better.
    fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty()
    }

    fn names(&self) -> Names<'_> {
        Names { threads: &self.threads, variables: &self.variables }
    }

    fn reach(&self) -> Reach {
        Reach::of(self.copy, &self.blocks, &self.roots, &self.links)
    }

    fn contents(mut self, reach: &Reach, holders: bool, open: &Open) -> Contents {
        let heap = Heap { copy: self.copy, blocks: &self.blocks, modules: &self.modules, roots: &self.roots };
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
