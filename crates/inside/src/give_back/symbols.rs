//! Finds the addresses of functions in a process, by the symbol tables of the files that it has mapped.
//!
//! The files may be hostile, so the command has a child search them ([`search_by`]).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use allocanary_heap::{Mapping, PAGE, parse_maps};
use allocanary_process::elf::{self, Elf, SymbolKind, SymbolSection};
use allocanary_process::{ProcFile, ProcessFiles, text};

pub use crate::give_back::functions::{CodeFunction, CodeFunctions, FunctionSearch};
use crate::give_back::{Refusal, is_for_borrowing, name_space};

/// Whether a function is wanted, in a file with these prefixes. To borrow a thread, all code of an allocator must be found.
fn is_wanted(search: &FunctionSearch, name: &str, prefixes: &BTreeSet<&str>) -> bool {
    let is_of_it = || prefixes.iter().any(|prefix| name.starts_with(prefix));
    search.has(name, prefixes) || search.to_borrow && (is_for_borrowing(name) || is_of_it())
}

/// Searches the files of a process.
pub type Search = fn(u32, &FunctionSearch) -> Result<CodeFunctions, String>;

static SEARCH: OnceLock<Search> = OnceLock::new();

/// From now on, functions are searched by this function, and not in this process.
pub fn search_by(search: Search) {
    let _ = SEARCH.set(search);
}

/// The most functions of a process that are taken. A name may be in each of its files.
const MOST: usize = 100_000;
/// The most functions of one file.
const MOST_OF_FILE: usize = 20_000;

impl CodeFunctions {
    /// The wanted functions of a process.
    pub fn find(pid: u32, wanted: &FunctionSearch) -> Result<CodeFunctions, Refusal> {
        let found = SEARCH.get().map_or_else(|| Ok(CodeFunctions::here(pid, wanted)), |search| search(pid, wanted));
        found.map_err(|why| Refusal::of(pid, "searching its functions", std::io::Error::other(why)))
    }

    /// Searches in this process: functions that the program and its libraries export, and those in the full symbol tables, if the files are
    /// not stripped. A function may have several names.
    pub fn here(pid: u32, wanted: &FunctionSearch) -> CodeFunctions {
        let text = text(pid, ProcFile::Maps).unwrap_or_default();
        let mappings = parse_maps(text);
        let files = ProcessFiles::of(pid);
        let mut functions = CodeFunctions::default();
        // The load address of each function's file.
        let mut bases = Vec::new();
        for mapping in mappings.iter().filter(|one| one.inode != 0 && one.offset == 0 && !one.shared) {
            let is_code = |one: &Mapping| one.executable && one.inode == mapping.inode && one.name == mapping.name;
            if !mappings.iter().any(is_code) {
                continue;
            }
            let Ok(file) = files.get(mapping.from, mapping.to, mapping.inode) else { continue };
            functions.looked.push(mapping.name.clone());
            let cache = elf::cache(&file);
            let Some(elf) = Elf::of(&cache) else { continue };
            let lowest = elf.lowest().unwrap_or(0) / PAGE * PAGE;
            let symbols = || {
                let tables = [SymbolSection::Dynamic, SymbolSection::Full].into_iter();
                let all = tables.flat_map(|table| elf.symbols(table).into_iter().flatten());
                all.filter(|symbol| symbol.kind == SymbolKind::Function && symbol.is_defined)
            };
            let names: Vec<&str> = match wanted.endings.is_empty() {
                true => Vec::new(),
                false => symbols().map(|symbol| symbol.name).filter(|name| wanted.ends_alike(name)).collect(),
            };
            let prefixes = wanted.prefixes(names.iter().copied());
            let mut left = MOST_OF_FILE;
            for symbol in symbols().filter(|symbol| is_wanted(wanted, symbol.name, &prefixes)) {
                if left == 0 {
                    break;
                }
                left -= 1;
                let base = mapping.from.wrapping_sub(lowest);
                let at = base.wrapping_add(symbol.address);
                let inside = |one: &Mapping| is_code(one) && (one.from..one.to).contains(&at);
                if mappings.iter().any(inside) && functions.all.len() < MOST {
                    bases.push(base);
                    functions.all.push(CodeFunction {
                        name: symbol.name.into(),
                        at,
                        bytes: symbol.bytes,
                        file: mapping.name.clone(),
                        inode: mapping.inode,
                    });
                }
            }
        }
        // A file is listed several times if it was loaded into several name spaces (`dlmopen`, LD_AUDIT). The program's own copy comes
        // first.
        let is_twice = |(at, file): (usize, &String)| functions.looked[..at].contains(file);
        if functions.looked.iter().enumerate().any(is_twice) {
            let own = name_space::own(pid, &mappings, &files);
            let mut all: Vec<_> = functions.all.into_iter().zip(bases).collect();
            all.sort_by_key(|(_, base)| !own.contains(base));
            functions.all = all.into_iter().map(|(function, _)| function).collect();
        }
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::{LiveProcess, Memory};

    #[test]
    fn a_function_of_the_c_library_is_found_where_it_is() {
        let pid = std::process::id();
        let live = LiveProcess::open(pid).unwrap();
        let trim = crate::give_back::remedy::of("glibc").unwrap();
        let wanted = FunctionSearch::of(trim, false);
        let functions = CodeFunctions::find(pid, &wanted).unwrap().within(live.mappings());
        let found = functions.of(trim);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [libc::malloc_trim as *const () as u64]);
        assert!(found[0].bytes > 16);
        assert!(functions.looked.iter().any(|file| file.contains("libc.so")), "{:?}", functions.looked);
        // A second C library, which is loaded below the first one, is not the program's own.
        // SAFETY: the library is the C library, which runs nothing of this program.
        let second = unsafe { libc::dlmopen(libc::LM_ID_NEWLM, c"libc.so.6".as_ptr(), libc::RTLD_NOW) };
        assert!(!second.is_null());
        let functions = CodeFunctions::find(pid, &wanted).unwrap();
        let found: Vec<u64> = functions.of(trim).iter().map(|one| one.at).collect();
        assert_eq!((found.len(), found[0]), (2, libc::malloc_trim as *const () as u64), "{found:x?}");
    }
}
