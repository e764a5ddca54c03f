//! Whether a waiting thread is at a place where it can be borrowed. In: its registers, and the process. Out: the reason why it cannot,
//! as words that follow "1 waiting in poll".

use std::cell::RefCell;

use allocanary_heap::{Mapping, Memory};
use allocanary_stacks::epilogue::{self, BEFORE};
use allocanary_stacks::outside::{End, Stack};
use allocanary_stacks::walk::Registers;

use crate::handlers;
use crate::places::{Place, Places};
use crate::reader::Reader;
use crate::walks::Walks;
use crate::{Refusal, waits};

/// The longest part of a stack that is searched if it cannot be walked, in bytes.
const LONGEST: u64 = 8 << 20;

/// The maximum of frames between a wait and the function that the thread has called: these frames are the C library's.
const NEAR: usize = 5;

/// The code of a process, and the stacks of its threads.
pub struct Ground {
    places: Places,
    walks: RefCell<Walks>,
}

impl Ground {
    /// Makes it from the places in the process's code.
    pub fn new(places: Places, walks: Walks) -> Ground {
        Ground { places, walks: RefCell::new(walks) }
    }

    /// Walks the stacks of threads that wait, without a stop.
    pub fn round<'a>(&self, waiting: impl Iterator<Item = &'a waits::Told>) -> Result<(), Refusal> {
        let from: Vec<Registers> = waiting.map(registers).collect();
        self.walks.borrow_mut().round(&from)
    }

    /// Why a stopped thread with these registers cannot be borrowed; `None` if it can. `for_lock` says that it waits in
    /// futex, which is harmless only if it waits for a condition.
    pub fn unfit(&self, reader: &Reader, registers: Registers, for_lock: bool) -> Result<Option<String>, Refusal> {
        let stack = self.walks.borrow_mut().walk(registers)?;
        Ok(self.unfit_by(reader, registers, for_lock, &stack))
    }

    fn unfit_by(&self, reader: &Reader, registers: Registers, for_lock: bool, stack: &Stack) -> Option<String> {
        if let Some(place) = self.place(stack) {
            return Some(format!("inside of {}", place.words()));
        }
        if stack.frames[1..].iter().any(|frame| frame.is_exact) {
            return Some("in a signal's handler, or in a call of this command whose end nobody saw".into());
        }
        let read = |at: u64, into: &mut [u8]| Memory::read(reader, at, into);
        if stack.frames[1..].iter().any(|frame| handlers::ends_one(frame.at.pc, &read)) {
            return Some("in a signal's handler, or in a call of this command whose end nobody saw".into());
        }
        // A walk that reaches the first frame has passed the end of each handler. A search is less certain: words of a handler that has ended may
        // still be between live frames, as in each idle process of PostgreSQL.
        if stack.end != End::Outermost {
            if handlers::may_be_in_one(reader, registers.sp, read) {
                return Some("in a signal's handler, or in a call of this command whose end nobody saw".into());
            }
            let from = stack.frames.last().map_or(registers.sp, |frame| frame.at.sp);
            match self.searched(reader, from) {
                None => return Some("on a stack that cannot be read".into()),
                Some(Some(place)) => return Some(format!("perhaps inside of {}", place.words())),
                Some(None) => {}
            }
        }
        let near = stack.frames.iter().take(NEAR).filter_map(|frame| self.places.at(frame.inside()));
        if for_lock && !{ near }.any(|place| place == Place::Condition) {
            return Some("for another thread".into());
        }
        None
    }

    /// The place of [`Place`] that a thread of this round is inside of.
    pub fn inside(&self, waiting: &waits::Told) -> Option<Place> {
        self.walks.borrow().known(registers(waiting)).and_then(|stack| self.place(stack))
    }

    /// The first frame in code where no thread may be borrowed. `fork` takes precedence over the others, because it is the reason
    /// why they are on a stack.
    fn place(&self, stack: &Stack) -> Option<Place> {
        let places = || stack.frames.iter().filter_map(|frame| self.places.at(frame.inside()));
        places().find(|place| *place == Place::Fork).or_else(|| places().find(|place| *place != Place::Condition))
    }

    /// Searches return addresses in such code, from an address to the end of the stack. `None` if the stack cannot be
    /// read.
    fn searched(&self, reader: &Reader, from: u64) -> Option<Option<Place>> {
        let mapping: &Mapping = reader.mapping(from)?;
        let to = mapping.to.min(from.saturating_add(LONGEST));
        let from = from.next_multiple_of(8);
        let mut bytes = vec![0; to.saturating_sub(from) as usize / 8 * 8];
        if !Memory::read(reader, from, &mut bytes) {
            return None;
        }
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let place = |word: u64| self.places.at(word.wrapping_sub(1)).filter(|place| *place != Place::Condition);
        let is_return = |word: u64| {
            let mut before = [0; BEFORE];
            Memory::read(reader, word.wrapping_sub(BEFORE as u64), &mut before) && epilogue::is_call(&before)
        };
        Some({ words }.find_map(|word| place(word).filter(|_| is_return(word))))
    }
}

/// The kernel does not tell the frame pointer of a thread that runs. Without it a walk may end early.
fn registers(told: &waits::Told) -> Registers {
    Registers { pc: told.pc, sp: told.sp, bp: 0 }
}
