//! The program and its libraries. In: the mappings and the files behind them. Out: which of them has an address, how much thread-local
//! storage they have, and which global variable an address is in.
//!
//! The files are those of the process, and can say anything: what cannot be read has no names.

use std::cell::OnceCell;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use allocanary_heap::{Mapping, Memory, PAGE};
use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf, SymbolKind, SymbolSection};

/// Opens the file of a mapping.
pub type Open<'a> = dyn Fn(&Mapping) -> Option<Rc<Opened>> + 'a;

/// The symbols that are kept of one file. A program of 100 MB has some 100,000 variables.
const MOST_SYMBOLS: usize = 4_000_000;

/// A program or a library.
pub struct Module {
    /// Its file's name, without folders.
    pub name: String,
    /// Its mappings: from the first address to behind the last one, with what its headers say of memory behind the file.
    from: u64,
    to: u64,
    /// What is added to the addresses in the file.
    bias: u64,
    /// Bytes of thread-local storage.
    tls: u64,
    first: Mapping,
    /// Its segments in the file: address, place, bytes.
    segments: Vec<[u64; 3]>,
    symbols: OnceCell<Vec<Symbol>>,
}

struct Symbol {
    at: u64,
    bytes: u64,
    name: String,
}

/// All of them, in the order of their addresses.
#[derive(Default)]
pub struct ModuleList(Vec<Module>);

impl ModuleList {
    /// Those of a memory. `open` opens the file of a mapping.
    pub fn of(memory: &dyn Memory, open: &Open) -> ModuleList {
        let mut all: Vec<Module> = Vec::new();
        for mapping in memory.mappings().iter().filter(|one| one.inode != 0) {
            match all.last_mut() {
                Some(last)
                    if last.first.name == mapping.name && last.first.inode == mapping.inode && mapping.offset != 0 =>
                {
                    last.to = last.to.max(mapping.to);
                }
                _ => all.push(Module::new(mapping)),
            }
        }
        // Files of data are mapped as well. Their first mapping has no ELF header.
        all.retain_mut(|module| module.read_headers(open).is_some());
        // What a header says must not take another module's addresses.
        for index in 1..all.len() {
            let next = all[index].from;
            all[index - 1].to = all[index - 1].to.min(next);
        }
        ModuleList(all)
    }

    /// The module that has an address: its number.
    pub fn find(&self, at: u64) -> Option<u32> {
        let after = self.0.partition_point(|one| one.from <= at);
        after.checked_sub(1).filter(|index| at < self.0[*index].to).map(|index| index as u32)
    }

    /// Reads what a file has for an address: `gcore` leaves out what cannot be written.
    pub fn read_file(&self, at: u64, into: &mut [u8], open: &Open) -> bool {
        let Some(module) = self.find(at).map(|index| self.get(index)) else { return false };
        let place = module.segments.iter().find_map(|[from, place, bytes]| {
            let within = at.wrapping_sub(module.bias).checked_sub(*from)?;
            let ends = within.checked_add(into.len() as u64).is_some_and(|end| end <= *bytes);
            ends.then(|| place.checked_add(within))?
        });
        let file = place.and_then(|place| Some((place, open(&module.first)?)));
        file.is_some_and(|(place, file)| file.file.read_exact_at(into, place).is_ok())
    }

    /// One of them.
    pub fn get(&self, index: u32) -> &Module {
        &self.0[index as usize]
    }

    /// Those whose file's name begins so.
    pub fn named<'a>(&'a self, prefixes: &'a [&str]) -> impl Iterator<Item = &'a Module> {
        self.0.iter().filter(|one| prefixes.iter().any(|prefix| one.name.starts_with(prefix)))
    }

    /// The thread-local storage below each thread pointer: that of all modules.
    pub fn tls(&self) -> u64 {
        self.0.iter().map(|one| one.tls.next_multiple_of(64)).fold(0, u64::saturating_add).min(1 << 20)
    }

    /// The global variable that has an address, by its symbol; without one the module and the distance from its beginning.
    pub fn variable(&self, at: u64, open: &Open) -> Option<String> {
        let module = self.get(self.find(at)?);
        let symbol = module.symbol(at, open);
        Some(symbol.map_or_else(
            || format!("{}+{:#x}", module.name, at - module.from),
            |name| format!("`{name}` in {}", module.name),
        ))
    }

    /// The bounds of the variable that has an address, in the memory.
    pub fn bounds(&self, at: u64, open: &Open) -> Option<(u64, u64)> {
        let module = self.get(self.find(at)?);
        let found = module.find(at, open)?;
        let from = found.at.wrapping_add(module.bias);
        Some((from, from.wrapping_add(found.bytes)))
    }
}

impl Module {
    fn new(mapping: &Mapping) -> Module {
        let path = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
        Module {
            name: path.rsplit('/').next().unwrap_or_default().to_string(),
            from: mapping.from,
            to: mapping.to,
            bias: 0,
            tls: 0,
            first: mapping.clone(),
            segments: Vec::new(),
            symbols: OnceCell::new(),
        }
    }

    /// Its addresses.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.from..self.to
    }

    fn read_headers(&mut self, open: &Open) -> Option<()> {
        let file = open(&self.first)?;
        let cache = elf::cache(&file);
        let elf = Elf::of(&cache)?;
        let (mut first, mut end) = (u64::MAX, 0);
        for [at, place, stored, bytes] in elf.loaded() {
            first = first.min(at / PAGE * PAGE);
            self.segments.push([at, place, stored]);
            end = end.max(at.checked_add(bytes)?.checked_add(PAGE - 1)? / PAGE * PAGE);
        }
        self.tls = elf.thread_local();
        if first >= end {
            return None;
        }
        self.bias = self.from.wrapping_sub(first);
        self.to = self.to.max(self.from.checked_add(end - first)?);
        Some(())
    }

    fn find(&self, at: u64, open: &Open) -> Option<&Symbol> {
        let all = self.symbols.get_or_init(|| symbols(&self.first, open).unwrap_or_default());
        let at = at.wrapping_sub(self.bias);
        let after = all.partition_point(|one| one.at <= at);
        all[..after].last().filter(|one| at - one.at < one.bytes)
    }

    fn symbol(&self, at: u64, open: &Open) -> Option<String> {
        self.find(at, open).map(|symbol| crate::names::of_symbol(&symbol.name))
    }
}

/// The variables of a file, in the order of their addresses: of its table of symbols, or of those that it exports.
fn symbols(mapping: &Mapping, open: &Open) -> Option<Vec<Symbol>> {
    let file = open(mapping)?;
    let cache = elf::cache(&file);
    let elf = Elf::of(&cache)?;
    let tables = [SymbolSection::Full, SymbolSection::Dynamic].map(|table| elf.symbols(table).into_iter().flatten());
    let is_variable =
        |symbol: &elf::Symbol<'_>| symbol.kind == SymbolKind::Variable && symbol.is_defined && symbol.bytes > 0;
    let variables = tables.into_iter().flatten().filter(is_variable);
    let one = |symbol: elf::Symbol<'_>| Symbol { at: symbol.address, bytes: symbol.bytes, name: symbol.name.into() };
    let mut all: Vec<Symbol> = variables.map(one).take(MOST_SYMBOLS).collect();
    all.sort_by(|one, other| one.at.cmp(&other.at).then(one.name.cmp(&other.name)));
    all.dedup_by_key(|one| one.at);
    Some(all)
}
