//! Pairs of malloc and free by C's names: the program that a preload is loaded into.

use libc::{free, malloc};

include!("family.rs");
