//! Pairs of malloc and free by C's names. The preloads are loaded into this program.

use libc::{free, malloc};

include!("family.rs");
