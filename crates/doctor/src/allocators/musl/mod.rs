//! musl's malloc. Any other C library that is not glibc counts as musl here.

use allocanary_facts::musl::DESCRIPTOR;

use crate::contract::{Marks, Part, Reads};
use crate::flavour::Flavour;

pub(super) const PART: Part = Part {
    of: &DESCRIPTOR,
    usual: Flavour::OtherLibc,
    marks: Marks { c_library: &["ld-musl", "libc.musl", "libc.so"], ..Marks::NONE },
    variables: Reads::NONE,
    defaults: None,
    arena_settings: &[],
    advice: None,
    remedies: None,
};
