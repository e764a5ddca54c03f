//! Changes words, and remembers their previous values. In: functions, each with its replacement. Out: changed words,
//! and later the words as they were.
//!
//! A word is changed by one store of eight bytes, so another thread reads either the old function or the new one. If
//! the loader has made the word's page read-only, the page is made writable for this store.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr::with_exposed_provenance;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::got::module::{self, GotWord, PatchedModule, RelocationKind};
use crate::memory::{errno, page};

/// The most words that can be changed.
const MOST: usize = 8192;

/// A function, and the function that replaces it.
#[derive(Clone, Copy, Debug)]
pub struct Replacement {
    /// The function's name.
    pub name: &'static CStr,
    /// The function's addresses: see [`Definition`](crate::got::Definition).
    pub real: [usize; 2],
    /// The function that is called instead.
    pub ours: usize,
}

/// A changed word.
#[derive(Clone, Copy)]
struct Slot {
    at: usize,
    before: usize,
    ours: usize,
}

/// The words that are changed.
pub struct GotSlots {
    count: AtomicUsize,
    slots: UnsafeCell<[Slot; MOST]>,
}

// SAFETY: only the functions below use the words. By their contract, one thread at a time does.
unsafe impl Sync for GotSlots {}

/// The result of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The number of modules with changed words.
    pub modules: u32,
    /// The number of changed words.
    pub words: u32,
    /// The number of modules that were not changed.
    pub left: u32,
}

/// The result of putting back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// The number of words that were put back.
    pub words: u32,
    /// The number of words that other code has changed after us. They stay as they are.
    pub others: u32,
    /// The number of changed words whose modules are no longer mapped.
    pub gone: u32,
}

/// The present value of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    /// The address of the function, or of the code that looks it up at the first call.
    Real,
    /// The address of our function.
    Ours,
    /// The address of the program's own jump to the function. The program uses this address as the function's.
    Program,
    /// Any other value.
    Other,
}

impl Default for GotSlots {
    fn default() -> Self {
        Self::new()
    }
}

impl GotSlots {
    /// No words.
    pub const fn new() -> GotSlots {
        let none = Slot { at: 0, before: 0, ours: 0 };
        GotSlots { count: AtomicUsize::new(0), slots: UnsafeCell::new([none; MOST]) }
    }

    /// Changes the words of all modules except the module with the address `own` and modules with an address in
    /// `skipped`. Words that are already changed stay. The error is the system's error number. After an error some
    /// words may be changed: call [`put_back`](Self::put_back).
    ///
    /// # Safety
    ///
    /// Only one thread at a time may call this and `put_back`, and no other thread may open or close a library at this
    /// time. Each function and its replacement must be callable in place of each other.
    pub unsafe fn change(&self, functions: &[Replacement], own: usize, skipped: &[usize]) -> Result<Changed, i32> {
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
        module: &PatchedModule,
        functions: &[Replacement],
        program: (usize, usize),
        changed: &mut Changed,
    ) -> Result<(), i32> {
        let of = |word: &GotWord| functions.iter().find(|one| one.name == word.name);
        // Either all words of a module are changed, or none: a block of one allocator must not be passed to the free of
        // another one.
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

    fn change_word(&self, module: &PatchedModule, at: usize, ours: usize) -> Result<(), i32> {
        let before = word(at).load(SeqCst);
        // SAFETY: one thread at a time, by the contract.
        let slots = unsafe { &mut *self.slots.get() };
        let count = self.count.load(SeqCst);
        // The table may already have the word: its module was closed and another one is at this address, or another
        // thread has looked up the function since.
        let number = slots[..count].iter().position(|slot| slot.at == at).unwrap_or(count);
        let slot = slots.get_mut(number).ok_or(libc::ENOSPC)?;
        *slot = Slot { at, before, ours };
        self.count.store(count.max(number + 1), SeqCst);
        store(module, at, ours)
    }

    /// Restores the words of modules that are still mapped. A word that other code has changed after us stays as it is.
    ///
    /// # Safety
    ///
    /// The same as for [`change`](Self::change).
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
    // SAFETY: an aligned word of a module that the loader has mapped. The loader's list is locked, so the module stays
    // mapped.
    unsafe { &*with_exposed_provenance::<AtomicUsize>(at) }
}

fn has(module: &PatchedModule, place: &GotWord, function: &Replacement, program: (usize, usize)) -> Has {
    let now = word(place.at).load(SeqCst);
    if now == function.ours {
        Has::Ours
    } else if function.real.contains(&now) && now != 0 || place.kind == RelocationKind::Call && module.has_code(now) {
        Has::Real
    } else if (program.0..program.1).contains(&now) {
        Has::Program
    } else {
        Has::Other
    }
}

/// Whether the page of a word is writable, or can be made writable for a store.
fn can_be_written(module: &PatchedModule, at: usize) -> bool {
    const POPULATE_WRITE: libc::c_int = 23;
    if module.is_protected(at) {
        return true;
    }
    // SAFETY: the page of a mapped word. Its content does not change.
    let made = unsafe { libc::madvise(page_of(at), page(), POPULATE_WRITE) };
    // A kernel before 5.14 does not know this request.
    made == 0 || errno() == libc::EINVAL
}

fn page_of(at: usize) -> *mut libc::c_void {
    std::ptr::with_exposed_provenance_mut(at & !(page() - 1))
}

fn store(module: &PatchedModule, at: usize, value: usize) -> Result<(), i32> {
    let is_protected = module.is_protected(at);
    let protect = |access| {
        // SAFETY: a page of a module's own data. It can be read before and after the call.
        let done = unsafe { libc::mprotect(page_of(at), page(), access) };
        if done == 0 { Ok(()) } else { Err(errno()) }
    };
    if is_protected {
        protect(libc::PROT_READ | libc::PROT_WRITE)?;
    }
    word(at).store(value, SeqCst);
    if is_protected { protect(libc::PROT_READ) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
