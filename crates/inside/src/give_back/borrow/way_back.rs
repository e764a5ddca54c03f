//! Finds the code by which a borrowed thread returns by itself, and the place of its error number. This is existing code in the files that
//! the process has mapped, so nothing is mapped and no memory is made executable. Each machine needs other code.

use allocanary_heap::{Mapping, Memory};

use crate::give_back::borrow::walker::Seen;

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// The most bytes of the code of one file that are searched: the C library, which comes first, has 2 MiB.
const MOST: u64 = 32 << 20;

/// The mappings of files with code. The C library, which is in the file `first`, comes first, because it is never unmapped.
fn code_of_files<'a>(memory: &'a Seen, first: &str) -> Vec<&'a Mapping> {
    let is_code = |one: &&Mapping| one.executable && one.inode != 0 && !one.shared;
    let mut code: Vec<&Mapping> = memory.mappings().iter().filter(is_code).collect();
    code.sort_by_key(|one| one.name != first);
    code
}

/// Whether the process has these bytes at an address. The bytes in the process count, because they may differ from those in the file.
fn has(memory: &dyn Memory, at: u64, pattern: &[u8]) -> bool {
    let mut bytes = vec![0; pattern.len()];
    memory.read(at, &mut bytes) && bytes == pattern
}
