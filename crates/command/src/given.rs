//! What only the binary knows and passes to this crate: its build, and what its cells can do. If this crate linked the cells itself, it
//! would be compiled again with each change in them.

use std::sync::OnceLock;

use allocanary_facts::descriptor::InCode;
use allocanary_rows::description::ReadingDescription;
use allocanary_rows::provenance::BuildFacts;

/// Checks the settings of a preload with the preload's own parser. The table is that of an allocator, or `None` for the preload that only
/// samples. An error has the part that is wrong, and what was wanted.
pub type SettingsCheck = fn(&str, Option<&InCode>) -> Result<(), (&'static str, &'static str)>;

/// What the binary passes to this crate.
pub struct BinaryParts {
    /// The features of this build, separated by commas. Its cells are built with the same ones.
    pub features: &'static str,
    /// The allocator of this command: `jemalloc`.
    pub allocator: &'static str,
    /// What it was built from.
    pub built: BuildFacts,
    /// The names of its cells' workloads.
    pub workloads: fn() -> Vec<&'static str>,
    /// The readings that its cells can take.
    pub readings: fn() -> Vec<ReadingDescription>,
    /// Checks the settings of its preloads.
    pub check_settings: SettingsCheck,
}

static GIVEN: OnceLock<BinaryParts> = OnceLock::new();

/// Stores what the binary passes. Called once.
pub fn keep(given: BinaryParts) {
    allocanary_rows::provenance::built_from(given.built);
    let _ = GIVEN.set(given);
}

/// The features of this build, separated by commas.
pub fn features() -> &'static str {
    GIVEN.get().map_or("", |given| given.features)
}

/// The allocator of this command.
pub fn allocator() -> &'static str {
    GIVEN.get().map_or("system", |given| given.allocator)
}

/// The names of the workloads of this build's cells.
pub fn workloads() -> Vec<&'static str> {
    GIVEN.get().map_or_else(none, |given| (given.workloads)())
}

/// The readings that this build's cells can take.
pub fn readings() -> Vec<ReadingDescription> {
    GIVEN.get().map_or_else(Vec::new, |given| (given.readings)())
}

/// Checks the settings of a preload.
pub fn check_settings(text: &str, table: Option<&InCode>) -> Result<(), (&'static str, &'static str)> {
    GIVEN.get().map_or(Ok(()), |given| (given.check_settings)(text, table))
}

#[cfg(not(test))]
fn none() -> Vec<&'static str> {
    Vec::new()
}

/// A test has no binary.
#[cfg(test)]
fn none() -> Vec<&'static str> {
    allocanary_cell::workloads::names()
}
