//! Decides by a thread's registers and stack whether the thread can be borrowed where it waits. If not, gives the reason.
//!
//! All of this is read from files and memory that may be hostile, so a child without rights does it ([`walks`](crate::give_back::borrow::walks)).

use allocanary_heap::{Mapping, Memory};
use allocanary_stacks::epilogue::{self, BEFORE};
use allocanary_stacks::outside::{End, OutsideProcess, OutsideStack};
use allocanary_stacks::walk::WalkRegisters;
use serde::{Deserialize, Serialize};

use crate::give_back::borrow::handlers;
use crate::give_back::borrow::places::{CodeOwner, Places};
use crate::give_back::borrow::walker::ProcessWalker;
use crate::give_back::functions::CodeFunctions;

/// The longest part of a stack that is searched if it cannot be walked, in bytes.
const LONGEST: u64 = 8 << 20;

/// The maximum of frames between a wait and the function that the thread has called: these frames are the C library's.
const NEAR: usize = 5;

/// Why a stopped thread cannot be borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unfit {
    /// It is inside of code of this owner.
    Inside(CodeOwner),
    /// Its stack has addresses of code of this owner.
    Perhaps(CodeOwner),
    /// It is in a signal's handler, or in a call of this command whose end nobody saw.
    InHandler,
    /// Its stack cannot be read.
    Unreadable,
    /// It waits for another thread.
    ForAnother,
}

impl Unfit {
    /// The reason, as words that follow `1 waiting in poll`.
    pub fn words(self) -> String {
        match self {
            Unfit::Inside(place) => format!("inside of {}", place.words()),
            Unfit::Perhaps(place) => format!("perhaps inside of {}", place.words()),
            Unfit::InHandler => "in a signal's handler, or in a call of this command whose end nobody saw".into(),
            Unfit::Unreadable => "on a stack that cannot be read".into(),
            Unfit::ForAnother => "for another thread".into(),
        }
    }
}

/// The code of a process, and the stacks of its threads.
#[derive(Debug)]
pub struct Ground {
    places: Places,
    walker: ProcessWalker,
}

impl Ground {
    /// Makes it from the functions of the process's code.
    pub fn new(functions: &CodeFunctions, walker: ProcessWalker) -> Ground {
        Ground { places: Places::of(functions, walker.seen.mappings()), walker }
    }

    /// Reads the mappings again: a stack grows, and its mapping with it.
    pub fn read_mappings(&mut self) -> std::io::Result<()> {
        self.walker.read_mappings()
    }

    /// Why a stopped thread with these registers cannot be borrowed; `None` if it can. `back` is the value of the register of return addresses,
    /// if the machine has one. `for_lock` says that it waits in futex, which is harmless only if it waits for a condition.
    pub fn unfit(&mut self, registers: WalkRegisters, back: Option<u64>, for_lock: bool) -> Option<Unfit> {
        let stack = self.walker.walk(registers, back);
        let memory = &self.walker.seen;
        let bits = memory.address_bits();
        if let Some(place) = self.place(&stack) {
            return Some(Unfit::Inside(place));
        }
        if stack.frames[1..].iter().any(|frame| frame.is_exact) {
            return Some(Unfit::InHandler);
        }
        let read = |at: u64, into: &mut [u8]| Memory::read(memory, at, into);
        if stack.frames[1..].iter().any(|frame| handlers::ends_one(frame.at.pc, &read)) {
            return Some(Unfit::InHandler);
        }
        // A walk that reaches the first frame has passed the end of each handler. A search is less certain: words of a handler that has ended may
        // still be between live frames, as in each idle process of PostgreSQL.
        if stack.end != End::Outermost {
            let back = back.map(|back| back & bits);
            if back.is_some_and(|back| handlers::ends_one(back, &read))
                || handlers::may_be_in_one(memory, registers.sp, bits, read)
            {
                return Some(Unfit::InHandler);
            }
            // A function without a frame has its return address nowhere else.
            if let Some(place) = back.and_then(|back| self.place_of_return(back)) {
                return Some(Unfit::Perhaps(place));
            }
            let from = stack.frames.last().map_or(registers.sp, |frame| frame.at.sp);
            match self.searched(from) {
                None => return Some(Unfit::Unreadable),
                Some(Some(place)) => return Some(Unfit::Perhaps(place)),
                Some(None) => {}
            }
        }
        let near = stack.frames.iter().take(NEAR).filter_map(|frame| self.places.at(frame.inside()));
        let is_for_another = for_lock && !{ near }.any(|place| place == CodeOwner::Condition);
        is_for_another.then_some(Unfit::ForAnother)
    }

    /// The code that a running thread is inside of, found by a walk of its stack only.
    pub fn inside(&mut self, registers: WalkRegisters) -> Option<CodeOwner> {
        let stack = self.walker.walk(registers, None);
        self.place(&stack)
    }

    /// The first frame in code where no thread may be borrowed. `fork` takes precedence over the others, because it is the reason
    /// why they are on a stack.
    fn place(&self, stack: &OutsideStack) -> Option<CodeOwner> {
        let places = || stack.frames.iter().filter_map(|frame| self.places.at(frame.inside()));
        places()
            .find(|place| *place == CodeOwner::Fork)
            .or_else(|| places().find(|place| *place != CodeOwner::Condition))
    }

    /// Searches the stack for return addresses in code where no thread may be borrowed, from an address to the end of the stack. `None` if
    /// the stack cannot be read.
    fn searched(&self, from: u64) -> Option<Option<CodeOwner>> {
        let memory = &self.walker.seen;
        let mapping: &Mapping = memory.mapping(from)?;
        let to = mapping.to.min(from.saturating_add(LONGEST));
        let from = from.next_multiple_of(8);
        let mut bytes = vec![0; to.saturating_sub(from) as usize / 8 * 8];
        if !Memory::read(memory, from, &mut bytes) {
            return None;
        }
        let bits = memory.address_bits();
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word) & bits);
        Some(words.find_map(|word| self.place_of_return(word)))
    }

    /// The code where no thread may be borrowed, if this is a return address in such code.
    fn place_of_return(&self, at: u64) -> Option<CodeOwner> {
        let place = self.places.at(at.wrapping_sub(1)).filter(|place| *place != CodeOwner::Condition)?;
        let is_call = if cfg!(target_arch = "aarch64") { epilogue::is_call_of_aarch64 } else { epilogue::is_call };
        let mut before = [0; BEFORE];
        let is_read = Memory::read(&self.walker.seen, at.wrapping_sub(BEFORE as u64), &mut before);
        (is_read && is_call(&before)).then_some(place)
    }
}
