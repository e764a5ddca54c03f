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
    /// Its length in bytes; 0 if it is not known.
    pub bytes: u64,
    /// The path of its file.
    pub file: String,
}

/// Functions of a process, in the order of its mappings, and the files that were searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// The functions.
    pub all: Vec<Function>,
    /// The files.
    pub looked: Vec<String>,
}

impl Functions {
    /// The functions whose names are wanted: those that the program and its libraries export, and those in the full symbol tables, if the
    /// files are not stripped. A function may have several names.
    pub fn read(pid: u32, mappings: &[Mapping], wanted: &dyn Fn(&str) -> bool) -> Functions {
        let mut functions = Functions::default();
        for mapping in mappings.iter().filter(|one| one.inode != 0 && one.offset == 0 && !one.shared) {
            let is_code = |one: &Mapping| one.executable && one.inode == mapping.inode && one.name == mapping.name;
            if !mappings.iter().any(is_code) {
                continue;
            }
            let Ok(file) = file_of(pid, mapping) else { continue };
            functions.looked.push(mapping.name.clone());
            let cache = ReadCache::new(file);
            let Ok(elf) = object::File::parse(&cache) else { continue };
            let base = elf.segments().map(|segment| segment.address()).min().unwrap_or(0) / PAGE * PAGE;
            let symbols = elf.dynamic_symbols().chain(elf.symbols());
            for symbol in symbols.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text) {
                let Some(name) = symbol.name().ok().filter(|name| wanted(name)) else { continue };
                let at = mapping.from.wrapping_add(symbol.address()).wrapping_sub(base);
                let inside = |one: &Mapping| is_code(one) && (one.from..one.to).contains(&at);
                if mappings.iter().any(inside) {
                    let file = mapping.name.clone();
                    functions.all.push(Function { name: name.into(), at, bytes: symbol.size(), file });
                }
            }
        }
        functions
    }

    /// The functions with these names, each address once.
    pub fn of(&self, names: &[String]) -> Vec<&Function> {
        let mut found: Vec<&Function> = Vec::new();
        for function in self.all.iter().filter(|one| names.contains(&one.name)) {
            if found.iter().all(|known| known.at != function.at) {
                found.push(function);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::{Live, Memory};

    #[test]
    fn a_function_of_the_c_library_is_found_where_it_is() {
        let pid = std::process::id();
        let live = Live::open(pid).unwrap();
        let names = ["malloc_trim".to_string(), "no_such_function".into()];
        let functions = Functions::read(pid, live.mappings(), &|name| names.iter().any(|wanted| wanted == name));
        let found = functions.of(&names);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [libc::malloc_trim as *const () as u64]);
        assert!(found[0].bytes > 16);
        assert!(functions.looked.iter().any(|file| file.contains("libc.so")), "{:?}", functions.looked);
    }
}
