//! The way back of x86-64.

use allocanary_heap::{Mapping, Memory};
use serde::{Deserialize, Serialize};

use super::{MOST, code_of_files, has};
use crate::give_back::borrow::walker::Seen;
use crate::give_back::functions::CodeFunctions;

/// `mov $15, %rax; syscall`: the end of a handler, in each C library.
const RESTORE: &[&[u8]] = &[&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];
/// `pop %rdi; ret`. Without its first byte it only returns.
const POP: &[&[u8]] = &[&[0x5f, 0xc3]];

/// Code that stores a result: `mov %rax, distance(%rbx)`, then instructions that take words from the stack, then `ret`. Without its first
/// byte it stores four bytes of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCode {
    /// Its address.
    pub at: u64,
    /// The number that is added to the register.
    pub distance: i8,
    /// How many words it takes from the stack before it returns.
    pub words: usize,
}

/// All pieces of code that a thread needs to return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayBack {
    /// The address of code that ends a handler.
    pub restore: u64,
    /// The code that stores a result.
    pub store: StoreCode,
    /// The address of code that loads an argument.
    pub pop: u64,
    /// The address of the function `raise`.
    pub raise: u64,
    /// The offset of the error number from the thread pointer.
    pub errno: u64,
}

/// Whether [`WayBack::find`] needs a function of this name among the `CodeFunctions`.
pub fn is_wanted(name: &str) -> bool {
    ["raise", "__errno_location"].contains(&name)
}

impl WayBack {
    /// Whether its code is in these mappings and takes few words from the stack. This is checked, because the child that has found it reads
    /// hostile files.
    pub fn is_in(&self, mappings: &[Mapping]) -> bool {
        let is_code = |at: u64| mappings.iter().any(|one| one.executable && (one.from..one.to).contains(&at));
        [self.restore, self.store.at, self.pop, self.raise].into_iter().all(is_code) && self.store.words <= MOST_WORDS
    }

    /// Finds the code. The error names what is missing.
    pub(crate) fn find(memory: &Seen, functions: &CodeFunctions) -> Result<WayBack, &'static str> {
        let function = |name: &str| functions.all.iter().find(|one| one.name == name);
        let raise = function("raise").ok_or("the function `raise`")?;
        let errno = function("__errno_location").and_then(|one| error_number(memory, one.at));
        let errno = errno.ok_or("the place of a thread's error number")?;
        let (mut restore, mut pop, mut store) = (None, None, None);
        for mapping in code_of_files(memory, &raise.file) {
            let mut bytes = vec![0; mapping.bytes().min(MOST) as usize];
            let read = memory.read_of_file(mapping, mapping.offset, &mut bytes);
            let bytes = &bytes[..read.unwrap_or(0)];
            let place = |patterns: &[&[u8]]| {
                let at = patterns.iter().filter_map(|pattern| place_of(bytes, pattern)).min()?;
                // The bytes in the process count, because they may differ from those in the file.
                let at = mapping.from + at as u64;
                patterns.iter().any(|pattern| has(memory, at, pattern)).then_some(at)
            };
            restore = restore.or_else(|| place(RESTORE));
            pop = pop.or_else(|| place(POP));
            store = store.or_else(|| {
                let store = store_of(bytes)?;
                let length = (store.at as usize + LONGEST).min(bytes.len());
                let is_there = has(memory, mapping.from + store.at, &bytes[store.at as usize..length]);
                is_there.then_some(StoreCode { at: mapping.from + store.at, ..store })
            });
            if let (Some(restore), Some(store), Some(pop)) = (restore, store, pop) {
                return Ok(WayBack { restore, store, pop, raise: raise.at, errno });
            }
        }
        Err(if restore.is_none() { "the code that ends a signal's handler" } else { "code that stores a result" })
    }
}

/// The maximum size of the code of a [`StoreCode`], and the maximum of words that it may take.
const LONGEST: usize = 24;
const MOST_WORDS: usize = 16;

/// The shortest such code in these bytes. Its address is its offset in them.
fn store_of(bytes: &[u8]) -> Option<StoreCode> {
    let all = bytes.windows(2).enumerate().filter(|(_, begin)| *begin == [0x48, 0x89]);
    all.filter_map(|(at, _)| store_at(&bytes[at..]).map(|store| StoreCode { at: at as u64, ..store }))
        .min_by_key(|one| one.words)
}

fn store_at(code: &[u8]) -> Option<StoreCode> {
    let (distance, mut at) = match code.get(2..4)? {
        [0x03, _] => (0, 3),
        [0x43, distance] => (*distance as i8, 4),
        _ => return None,
    };
    let mut words = 0;
    loop {
        match code.get(at..)? {
            [0xc3, ..] => return (words <= MOST_WORDS && at < LONGEST).then_some(StoreCode { at: 0, distance, words }),
            // add $bytes, %rsp
            [0x48, 0x83, 0xc4, bytes, ..] if bytes % 8 == 0 && *bytes < 0x80 => {
                (words, at) = (words + usize::from(bytes / 8), at + 4)
            }
            // pop %rbx, %rbp, %rsi, %rdi
            [0x5b | 0x5d..=0x5f, ..] => (words, at) = (words + 1, at + 1),
            // pop %r12 to %r15
            [0x41, 0x5c..=0x5f, ..] => (words, at) = (words + 1, at + 2),
            _ => return None,
        }
    }
}

fn place_of(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let first = *pattern.first()?;
    let may_begin = bytes.iter().enumerate().filter(|(_, byte)| **byte == first);
    may_begin.map(|(at, _)| at).find(|at| bytes[*at..].starts_with(pattern))
}

/// The offset of the error number from the thread pointer, read from the code of the function that returns its address.
fn error_number(memory: &dyn Memory, function: u64) -> Option<u64> {
    let mut code = [0; 24];
    memory.read(function, &mut code).then_some(())?;
    // An instruction that marks where a jump may lead: endbr64.
    let (code, begin) = match code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        Some(code) => (code, function + 4),
        None => (&code[..], function),
    };
    // add %fs:0, %rax; ret
    const ADD: &[u8] = &[0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3];
    match code {
        // mov distance(%rip), %rax
        [0x48, 0x8b, 0x05, a, b, c, d, rest @ ..] if rest.starts_with(ADD) => {
            let distance = i32::from_le_bytes([*a, *b, *c, *d]);
            memory.word((begin + 7).wrapping_add(i64::from(distance) as u64))
        }
        // mov $distance, %rax
        [0x48, 0xc7, 0xc0, a, b, c, d, rest @ ..] if rest.starts_with(ADD) => {
            Some(i64::from(i32::from_le_bytes([*a, *b, *c, *d])) as u64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::give_back::symbols::FunctionSearch;

    #[test]
    fn it_is_found_in_this_process() {
        let pid = std::process::id();
        let walker = crate::give_back::borrow::walker::ProcessWalker::open(pid).unwrap();
        let live = &walker.seen;
        let functions =
            CodeFunctions::find(pid, &FunctionSearch { to_borrow: true, ..FunctionSearch::default() }).unwrap();
        let found = WayBack::find(live, &functions).unwrap();
        assert_eq!(found.raise, libc::raise as *const () as u64);
        assert!(found.is_in(live.mappings()));
        let (far, long) = (WayBack { pop: 8, ..found.clone() }, StoreCode { words: MOST_WORDS + 1, ..found.store });
        assert!(!far.is_in(live.mappings()) && !WayBack { store: long, ..found.clone() }.is_in(live.mappings()));
        assert!(has(live, found.store.at, &[0x48, 0x89]) && has(live, found.pop, POP[0]));
        let pointer: u64;
        // SAFETY: the first word of a thread's structure is its address.
        unsafe { std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly)) };
        // SAFETY: the function has no conditions.
        let errno = unsafe { libc::__errno_location() }.addr() as u64;
        assert_eq!(pointer.wrapping_add(found.errno), errno);
    }

    #[test]
    fn code_that_stores_is_understood_or_left() {
        let words = |code: &[u8]| store_at(code).map(|one| (one.distance, one.words));
        assert_eq!(words(&[0x48, 0x89, 0x03, 0x5b, 0xc3]), Some((0, 1)));
        assert_eq!(words(&[0x48, 0x89, 0x43, 0xf8, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0x41, 0x5c, 0xc3]), Some((-8, 4)));
        assert_eq!(words(&[0x48, 0x89, 0x03, 0xe8, 0xc3]), None, "a call");
        assert_eq!(words(&[0x48, 0x89, 0x03, 0x5b]), None, "it ends");
        assert_eq!(words(&[0x48, 0x89, 0x06, 0x5b, 0xc3]), None, "another register");
    }
}
