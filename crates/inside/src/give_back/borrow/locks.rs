//! Counts the mutexes that threads hold, from the memory of the process.
//!
//! A mutex of the C library contains the thread ID of its owner. The locks of glibc's own malloc do not. For those,
//! [`places`](crate::give_back::borrow::places) finds threads inside of malloc.

use std::collections::BTreeMap;

use allocanary_heap::{Mapping, Memory};
use allocanary_sys::proc::pids::tids;

use crate::give_back::borrow::reader::ThreadReader;
use crate::give_back::name_space;

/// The maximum of memory that is examined. An allocator's locks are in its library's data, and in the memory that it mapped
/// first.
const MOST: u64 = 512 << 20;

/// The number of bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// The size of a mutex's beginning: the lock, the count, the owner, the users, the kind.
const HEAD: usize = 20;

/// How many mutexes each of these threads holds.
pub fn held(memory: &dyn Memory, tids: &[u32]) -> BTreeMap<u32, usize> {
    let mut held = BTreeMap::new();
    let mut left = MOST;
    // The data of files comes first, then memory without a file.
    let is_looked_at = |one: &&Mapping| one.writable && !one.shared && !one.name.starts_with("[stack");
    let mut mappings: Vec<&Mapping> = memory.mappings().iter().filter(is_looked_at).collect();
    mappings.sort_by_key(|one| one.inode == 0);
    for mapping in mappings {
        for run in memory.pages().within(mapping.from, mapping.to).filter(|run| run.state.is_resident()) {
            for from in (run.from..run.to).step_by(PIECE as usize) {
                let to = (from + PIECE).min(run.to);
                if left < to - from || memory.is_late() {
                    return held;
                }
                left -= to - from;
                let mut bytes = vec![0; (to - from) as usize];
                if memory.read(from, &mut bytes) {
                    count(&bytes, tids, &mut held);
                }
            }
        }
    }
    held
}

/// A thread of the process that has locked a mutex of the dynamic loader.
pub fn holder_of_loader(reader: &ThreadReader, pid: u32) -> Option<u32> {
    holders_of_loader(reader, &tids(pid).unwrap_or_default()).into_iter().next()
}

/// Which of these threads have locked a mutex of the dynamic loader. The loader's data has few pages.
pub fn holders_of_loader(reader: &ThreadReader, tids: &[u32]) -> Vec<u32> {
    let mut held = BTreeMap::new();
    let is_loader = |one: &&Mapping| one.writable && !one.shared && name_space::is_loader(&one.name);
    for mapping in Memory::mappings(reader).iter().filter(is_loader) {
        if let Ok(bytes) = reader.bytes(mapping.from, mapping.bytes() as usize) {
            count(&bytes, tids, &mut held);
        }
    }
    held.into_keys().collect()
}

fn count(bytes: &[u8], tids: &[u32], held: &mut BTreeMap<u32, usize>) {
    for at in (0..bytes.len().saturating_sub(HEAD - 1)).step_by(8) {
        let number = |from: usize| u32::from_le_bytes(bytes[at + from..at + from + 4].try_into().unwrap_or_default());
        let owner = number(8);
        if owner != 0 && tids.contains(&owner) && is_held(number(0), number(4), number(12), number(16)) {
            *held.entry(owner).or_default() += 1;
        }
    }
}

/// Whether a mutex with this lock, count, users and kind is held. Robust mutexes, and those that inherit priority, also have the owner in
/// the lock. They are not recognized: no allocator uses them.
fn is_held(lock: u32, count: u32, users: u32, kind: u32) -> bool {
    // 0x100 and 0x200 say whether lock elision is allowed; 0x80 says that processes share the mutex.
    let sort = kind & !0x380;
    let is_counted = if sort == 1 { count >= 1 } else { count == 0 };
    (1..=2).contains(&lock) && users == 1 && sort <= 3 && is_counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_is_held_while_it_is_locked() {
        // SAFETY: all zeroes are a mutex of the usual kind; it lives in a box until the end of the test.
        let mut mutex: Box<libc::pthread_mutex_t> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: a system call without arguments.
        let tid = unsafe { libc::gettid() } as u32;
        let is_held = |mutex: &libc::pthread_mutex_t| {
            // SAFETY: a copy of the numbers of a mutex, which is not used as one.
            let bytes: [u8; size_of::<libc::pthread_mutex_t>()] = unsafe { std::mem::transmute_copy(mutex) };
            let mut held = BTreeMap::new();
            count(&[[0; 8].as_slice(), &bytes].concat(), &[tid], &mut held);
            held == BTreeMap::from([(tid, 1)])
        };
        assert!(!is_held(&mutex));
        // SAFETY: the mutex is initialized, and only this thread uses it.
        unsafe { libc::pthread_mutex_lock(&raw mut *mutex) };
        assert!(is_held(&mutex));
        // SAFETY: it is locked by this thread.
        unsafe { libc::pthread_mutex_unlock(&raw mut *mutex) };
        assert!(!is_held(&mutex));
    }

    #[test]
    fn numbers_that_are_no_mutex_are_none() {
        assert!(is_held(1, 0, 1, 0) && is_held(2, 3, 1, 1) && is_held(1, 0, 1, 0x200));
        assert!(!is_held(1, 5, 1, 0) && !is_held(0, 0, 1, 0) && !is_held(1, 0, 1, 7) && !is_held(1, 0, 9, 0));
    }
}
