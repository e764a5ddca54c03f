//! The words that were changed, and what was in them. In: functions, each with another one for it. Out: words changed, or put back.
//!
//! A word is changed by one store of eight bytes, so that another thread reads the one function or the other. Where the loader has made
//! its page read-only, the page can be written during that store.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr::with_exposed_provenance;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::module::{self, Kind, Module, Word};

/// The most words.
const MOST: usize = 8192;
/// Bytes of a page.
const PAGE: usize = 4096;

/// A function that others reach through words.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static CStr,
    /// Its addresses: see [`Definition`](crate::Definition).
    pub real: [usize; 2],
    /// The function that is to be called instead.
    pub ours: usize,
}

/// A word.
#[derive(Clone, Copy)]
struct Slot {
    at: usize,
    before: usize,
    ours: usize,
}

/// The words that are changed.
pub struct Slots {
    count: AtomicUsize,
    slots: UnsafeCell<[Slot; MOST]>,
}

// SAFETY: only the functions below reach it, one at a time by their contract.
unsafe impl Sync for Slots {}

/// What was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Modules.
    pub modules: u32,
    /// Words.
    pub words: u32,
    /// Modules that were left as they are.
    pub left: u32,
}

/// What was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Words.
    pub words: u32,
    /// Words that somebody else has changed.
    pub others: u32,
    /// Words of modules that are not there any more.
    pub gone: u32,
}

/// What a word has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    /// The function, or what looks it up at the first call.
    Real,
    /// Ours already.
    Ours,
    /// A way through the program's own word: the program has given its address away as the function's.
    Program,
    /// Something else.
    Other,
}

impl Default for Slots {
    fn default() -> Self {
        Self::new()
    }
}

impl Slots {
    /// None.
    pub const fn new() -> Slots {
        let none = Slot { at: 0, before: 0, ours: 0 };
        Slots { count: AtomicUsize::new(0), slots: UnsafeCell::new([none; MOST]) }
    }

    /// Changes the words of all modules but the one with the address `own`, and those that have one of `skipped`. Words that are changed
    /// already stay. The error is the system's number: then some words may be changed, and [`put_back`](Self::put_back) is to be called.
    ///
    /// # Safety
    ///
    /// One thread at a time calls this and `put_back`, while no other one opens or closes a library. Each function can be called in the place of
    /// the other.
    pub unsafe fn change(&self, functions: &[Function], own: usize, skipped: &[usize]) -> Result<Changed, i32> {
        let (mut changed, mut error, mut program) = (Changed::default(), 0, None);
        module::all(|number, module| {
            if number == 0 {
                program = Some(module.code());
            }
            if module.has(own) || skipped.iter().any(|at| module.has(*at)) {
                return true;
            }
            let program = program.unwrap_or((0, 0));
            match self.change_one(module, functions, program, &mut changed) {
                Ok(()) => true,
                Err(number) => {
                    error = number;
                    false
                }
            }
        });
        if error == 0 { Ok(changed) } else { Err(error) }
    }

    fn change_one(
        &self,
        module: &Module,
        functions: &[Function],
        program: (usize, usize),
        changed: &mut Changed,
    ) -> Result<(), i32> {
        let of = |word: &Word| functions.iter().find(|one| one.name == word.name);
        // All or none: a block of one allocator must not get to another one's free.
        let mut can = true;
        module.words(|word| {
            if let Some(function) = of(&word) {
                can &= has(module, &word, function, program) != Has::Other && can_be_written(module, word.at);
            }
        });
        if !can {
            changed.left += 1;
            return Ok(());
        }
        let (mut words, mut error) = (0, 0);
        module.words(|word| {
            if let Some(function) = of(&word)
                && error == 0
                && has(module, &word, function, program) == Has::Real
            {
                match self.change_word(module, word.at, function.ours) {
                    Ok(()) => words += 1,
                    Err(number) => error = number,
                }
            }
        });
        changed.words += words;
        changed.modules += u32::from(words > 0);
        if error == 0 { Ok(()) } else { Err(error) }
    }

    fn change_word(&self, module: &Module, at: usize, ours: usize) -> Result<(), i32> {
        let before = word(at).load(SeqCst);
        // SAFETY: one thread at a time, by the contract.
        let slots = unsafe { &mut *self.slots.get() };
        let count = self.count.load(SeqCst);
        // A word whose own module was closed, and another one loaded, or one that was looked up by another thread meanwhile.
        let number = slots[..count].iter().position(|slot| slot.at == at).unwrap_or(count);
        let slot = slots.get_mut(number).ok_or(libc::ENOSPC)?;
        *slot = Slot { at, before, ours };
        self.count.store(count.max(number + 1), SeqCst);
        store(module, at, ours)
    }

    /// Puts back what was in the words of modules that are still there. A word that somebody else has changed meanwhile stays as it is.
    ///
    /// # Safety
    ///
    /// As for [`change`](Self::change).
    pub unsafe fn put_back(&self) -> Result<PutBack, i32> {
        let (mut back, mut error) = (PutBack::default(), 0);
        let count = self.count.load(SeqCst);
        // SAFETY: one thread at a time, by the contract.
        let all: &mut [Slot; MOST] = unsafe { &mut *self.slots.get() };
        let slots = &mut all[..count];
        module::all(|_, module| {
            for slot in slots.iter_mut().filter(|slot| slot.at != 0 && module.has(slot.at)) {
                if word(slot.at).load(SeqCst) != slot.ours {
                    back.others += 1;
                } else if let Err(number) = store(module, slot.at, slot.before) {
                    error = number;
                    continue;
                } else {
                    back.words += 1;
                }
                slot.at = 0;
            }
            true
        });
        if error != 0 {
            return Err(error);
        }
        back.gone = slots.iter().filter(|slot| slot.at != 0).count() as u32;
        self.count.store(0, SeqCst);
        Ok(back)
    }
}

fn word(at: usize) -> &'static AtomicUsize {
    // SAFETY: an aligned word of a module that the loader has mapped; the caller has it while the list is locked.
    unsafe { &*with_exposed_provenance::<AtomicUsize>(at) }
}

fn has(module: &Module, place: &Word, function: &Function, program: (usize, usize)) -> Has {
    let now = word(place.at).load(SeqCst);
    if now == function.ours {
        Has::Ours
    } else if function.real.contains(&now) && now != 0 || place.kind == Kind::Call && module.has_code(now) {
        Has::Real
    } else if (program.0..program.1).contains(&now) {
        Has::Program
    } else {
        Has::Other
    }
}

/// Whether the page of a word can be written, now or during a store.
fn can_be_written(module: &Module, at: usize) -> bool {
    const POPULATE_WRITE: libc::c_int = 23;
    if module.is_protected(at) {
        return true;
    }
    // SAFETY: the page of a mapped word; what is in it stays.
    let made = unsafe { libc::madvise(page_of(at), PAGE, POPULATE_WRITE) };
    // A kernel before 5.14 does not know it.
    made == 0 || errno() == libc::EINVAL
}

fn page_of(at: usize) -> *mut libc::c_void {
    std::ptr::with_exposed_provenance_mut(at & !(PAGE - 1))
}

fn errno() -> i32 {
    // SAFETY: this thread's error number.
    unsafe { *libc::__errno_location() }
}

fn store(module: &Module, at: usize, value: usize) -> Result<(), i32> {
    let is_protected = module.is_protected(at);
    let protect = |access| {
        // SAFETY: a page of a module's own data, which can be read before and after.
        let done = unsafe { libc::mprotect(page_of(at), PAGE, access) };
        if done == 0 { Ok(()) } else { Err(errno()) }
    };
    if is_protected {
        protect(libc::PROT_READ | libc::PROT_WRITE)?;
    }
    word(at).store(value, SeqCst);
    if is_protected { protect(libc::PROT_READ) } else { Ok(()) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
