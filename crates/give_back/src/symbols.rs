//! Where functions are in a process: the symbol tables of the files that it has mapped. In: mappings and names. Out: addresses.

use allocanary_heap::{Mapping, PAGE, file_of};
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its address in the process.
    pub at: u64,
    /// The path of its file.
    pub file: String,
}

/// The functions of these names, in the order of the mappings: what the program and its libraries export, and what their full symbol tables
/// have if they are not stripped. A second value has the files that were searched.
pub fn find(pid: u32, mappings: &[Mapping], names: &[String]) -> (Vec<Function>, Vec<String>) {
    let (mut found, mut looked) = (Vec::new(), Vec::new());
    for mapping in mappings.iter().filter(|one| one.inode != 0 && one.offset == 0 && !one.shared) {
        let is_code = |one: &Mapping| one.executable && one.inode == mapping.inode && one.name == mapping.name;
        if !mappings.iter().any(is_code) {
            continue;
        }
        let Ok(file) = file_of(pid, mapping) else { continue };
        looked.push(mapping.name.clone());
        let cache = ReadCache::new(file);
        let Ok(elf) = object::File::parse(&cache) else { continue };
        let base = elf.segments().map(|segment| segment.address()).min().unwrap_or(0) / PAGE * PAGE;
        let symbols = elf.dynamic_symbols().chain(elf.symbols());
        let functions = symbols.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
        for symbol in functions {
            let Ok(name) = symbol.name() else { continue };
            if !names.iter().any(|wanted| wanted == name) {
                continue;
            }
            let at = mapping.from.wrapping_add(symbol.address()).wrapping_sub(base);
            let inside = |one: &Mapping| is_code(one) && (one.from..one.to).contains(&at);
            if mappings.iter().any(inside) && found.iter().all(|known: &Function| known.at != at) {
                found.push(Function { name: name.into(), at, file: mapping.name.clone() });
            }
        }
    }
    (found, looked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::{Live, Memory};

    #[test]
    fn a_function_of_the_c_library_is_found_where_it_is() {
        let pid = std::process::id();
        let live = Live::open(pid).unwrap();
        let (found, looked) = find(pid, live.mappings(), &["malloc_trim".into(), "no_such_function".into()]);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [libc::malloc_trim as *const () as u64]);
        assert!(looked.iter().any(|file| file.contains("libc.so")), "{looked:?}");
    }
}
