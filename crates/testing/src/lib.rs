//! Helpers for the tests and benches of all of allocanary's crates: property tests that can run for a given time, random use of an
//! allocator, instruction counts from callgrind, core files, a file system that a test can fill, free ports, test programs, a child that
//! shares memory, and the message of a test that cannot run here.

pub mod callgrind;
pub mod core;
pub mod fuzz;
pub mod heap;
pub mod ports;
pub mod programs;
pub mod skipped;
pub mod tiny;
pub mod vforked;
