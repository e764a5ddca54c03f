//! Helpers of allocanary's tests and benches, for all of its crates: properties that can go on for a time, random use of an
//! allocator, instructions as callgrind counts them, core files, a disk that fills, free ports, a child that shares memory, and the line of a
//! test that cannot run here.

pub mod callgrind;
pub mod core;
pub mod fuzz;
pub mod heap;
pub mod ports;
pub mod programs;
pub mod skipped;
pub mod tiny;
pub mod vforked;
