//! Finds the name space of a program: the addresses where the dynamic loader has loaded the files that the program itself uses. Other name
//! spaces may have further copies of the same files, each with its own heap.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use allocanary_heap::{Mapping, PAGE};
use allocanary_process::elf::{self, Elf, SymbolSection};
use allocanary_process::{ProcFile, ProcessFiles, open};

/// The structure by which the loader tells debuggers what it has loaded. Its second word is the address of the list.
const TOLD: &str = "_r_debug";
/// The offset of the next entry's address in an entry of the list. The first word of an entry is the load address of the file.
const NEXT: u64 = 24;
/// The most entries that are followed, because the list may be a circle.
const MOST: usize = 10_000;

/// The load addresses of the files in the program's own name space. Empty if the loader does not have the structure.
pub(crate) fn own(pid: u32, mappings: &[Mapping], files: &ProcessFiles) -> BTreeSet<u64> {
    let mut own = BTreeSet::new();
    let (Some(told), Ok(memory)) = (told(mappings, files), open(pid, ProcFile::Mem)) else { return own };
    // The list comes from the process and may have any address. Reading a shared mapping could wait for a long time, so only private memory
    // is read.
    let is_own = |at: u64| {
        let next = mappings.partition_point(|one| one.from <= at);
        let holds = |one: &&Mapping| at < one.to.saturating_sub(7);
        mappings[..next].last().filter(holds).is_some_and(|one| !one.shared && one.writable)
    };
    let word = |at: u64| {
        if !is_own(at) {
            return None;
        }
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, at).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let mut entry = told.checked_add(8).and_then(word);
    for _ in 0..MOST {
        let Some(at) = entry.filter(|at| *at != 0) else { break };
        own.extend(word(at));
        entry = at.checked_add(NEXT).and_then(word);
    }
    own
}

/// Whether a mapping's file is the dynamic loader.
pub fn is_loader(path: &str) -> bool {
    let name = path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
    ["ld-linux", "ld-2", "ld.so", "ld64"].iter().any(|begin| name.starts_with(begin))
}

/// The address of `_r_debug`.
fn told(mappings: &[Mapping], files: &ProcessFiles) -> Option<u64> {
    let loader = mappings.iter().find(|one| one.inode != 0 && one.offset == 0 && is_loader(&one.name))?;
    let file = files.get(loader.from, loader.to, loader.inode).ok()?;
    let cache = elf::cache(&file);
    let elf = Elf::of(&cache)?;
    let symbol = elf.symbols(SymbolSection::Dynamic).ok()?.find(|symbol| symbol.name == TOLD && symbol.is_defined)?;
    let lowest = elf.lowest().unwrap_or(0) / PAGE * PAGE;
    Some(loader.from.wrapping_sub(lowest).wrapping_add(symbol.address))
}
