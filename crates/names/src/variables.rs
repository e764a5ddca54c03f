//! Finds the variable at an address of a program or a library, by the symbols of its file and its debug file.

use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf, SymbolKind, SymbolSection};

use crate::mangled::demangled;

/// The most variables that are kept. A program of 100 MB has about 100,000 variables.
const MOST: usize = 4_000_000;

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its address in the file.
    pub at: u64,
    /// Its length in bytes.
    pub bytes: u64,
    symbol: String,
}

impl Variable {
    /// Its name in the source.
    pub fn name(&self) -> String {
        demangled(&self.symbol).into_owned()
    }
}

/// The variables of a file, in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub struct Variables(Vec<Variable>);

impl Variables {
    /// Adds the variables of a file: those in its table of symbols, and those that it exports.
    pub fn add(&mut self, file: &Opened) {
        let cache = elf::cache(file);
        let Some(elf) = Elf::of(&cache) else { return };
        let tables =
            [SymbolSection::Full, SymbolSection::Dynamic].map(|table| elf.symbols(table).into_iter().flatten());
        let is_variable =
            |symbol: &elf::Symbol<'_>| symbol.kind == SymbolKind::Variable && symbol.is_defined && symbol.bytes > 0;
        let variables = tables.into_iter().flatten().filter(is_variable);
        let left = MOST.saturating_sub(self.0.len());
        self.0.extend(variables.take(left).map(|symbol| Variable {
            at: symbol.address,
            bytes: symbol.bytes,
            symbol: symbol.name.into(),
        }));
        self.0.sort_by(|one, other| one.at.cmp(&other.at).then(one.symbol.cmp(&other.symbol)));
        self.0.dedup_by_key(|one| one.at);
    }

    /// The variable that contains an address.
    pub fn find(&self, at: u64) -> Option<&Variable> {
        let after = self.0.partition_point(|one| one.at <= at);
        self.0[..after].last().filter(|one| at - one.at < one.bytes)
    }
}
