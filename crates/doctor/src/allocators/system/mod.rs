//! glibc's malloc.

mod advice;
mod defaults;
mod remedies;
mod variables;

use allocanary_facts::system::DESCRIPTOR;

use crate::contract::{Marks, Part, Reads};
use crate::flavour::Flavour;

pub(super) const PART: Part = Part {
    of: &DESCRIPTOR,
    usual: Flavour::Glibc,
    marks: Marks {
        texts: &[(DESCRIPTOR.heap, b"kcehc.collam.cbilg")],
        preload: Some(Flavour::Glibc),
        c_library: &["libc.so.6", "libc-2."],
        ..Marks::NONE
    },
    variables: Reads {
        reader: variables::reader,
        assignments: variables::assignments,
        names: || variables::names().collect(),
        suspects: &["MALLOC_", "GLIBC_TUNABLE"],
        ..Reads::NONE
    },
    defaults: Some(defaults::defaults),
    arena_settings: &["arena_max"],
    advice: Some(advice::advice),
    remedies: Some(remedies::remedies),
};
