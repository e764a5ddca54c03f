//! The name space of a program: where the dynamic loader has loaded the files that the program itself uses. Other name spaces may have
//! further copies of the same files, each with a heap of its own. In: a process. Out: the addresses of its files.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use allocanary_heap::{Mapping, PAGE};
use allocanary_process::elf::{self, Elf, SymbolSection};
use allocanary_process::{ProcFile, ProcessFiles, open};

/// The structure by which the loader tells debuggers what it has loaded. The word after its first one leads to the list.
const TOLD: &str = "_r_debug";
/// From an entry of the list to the next one. The first word of an entry is where the file is loaded.
const NEXT: u64 = 24;
/// The most entries that are followed: a list may be a circle.
const MOST: usize = 10_000;

/// Where the files of the program's own name space are loaded. Empty if the loader does not tell.
pub(crate) fn own(pid: u32, mappings: &[Mapping], files: &ProcessFiles) -> BTreeSet<u64> {
    let mut own = BTreeSet::new();
    let (Some(told), Ok(memory)) = (told(mappings, files), open(pid, ProcFile::Mem)) else { return own };
    // The process decides which addresses are in the list: a shared mapping may be one that answers whenever its maker likes.
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

/// The address of that structure.
fn told(mappings: &[Mapping], files: &ProcessFiles) -> Option<u64> {
    let loader = mappings.iter().find(|one| one.inode != 0 && one.offset == 0 && is_loader(&one.name))?;
    let file = files.get(loader.from, loader.to, loader.inode).ok()?;
    let cache = elf::cache(&file);
    let elf = Elf::of(&cache)?;
    let symbol = elf.symbols(SymbolSection::Dynamic).ok()?.find(|symbol| symbol.name == TOLD && symbol.is_defined)?;
    let lowest = elf.lowest().unwrap_or(0) / PAGE * PAGE;
    Some(loader.from.wrapping_sub(lowest).wrapping_add(symbol.address))
}
