//! The whole command as its user meets it: binaries in, exit codes, rows and texts out.

mod anatomy;
mod binaries;
mod bursts;
mod fake;
mod files;
mod gate;
mod go;
mod group;
mod inherited;
mod input;
mod limits;
mod memory;
mod output;
mod preloads;
mod record;
mod registry;
mod rows;
mod run;
mod run_bad;
mod run_services;
mod service;
mod settings;
mod store;
mod support;
mod trust;
mod truth;
