//! The whole command as its user meets it: binaries in, exit codes, rows and texts out.

mod binaries;
mod bursts;
mod fake;
mod files;
mod gate;
mod go;
mod group;
mod inherited;
mod input;
mod memory;
mod registry;
mod repository;
mod rows;
mod settings;
#[path = "../skipped/mod.rs"]
mod skipped;
mod store;
mod support;
#[path = "../tiny/mod.rs"]
mod tiny;
mod truth;
