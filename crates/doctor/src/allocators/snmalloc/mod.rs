//! snmalloc.

use allocanary_facts::snmalloc::{DESCRIPTOR, NAME};

use crate::contract::{Marks, Part, Reads};
use crate::flavour::Flavour;

const FLAVOUR: Flavour = Flavour::Named(NAME);

pub(super) const PART: Part = Part {
    of: &DESCRIPTOR,
    usual: FLAVOUR,
    marks: Marks {
        symbols: &[("sn_rust_alloc", |_| FLAVOUR)],
        library: Some((NAME, FLAVOUR)),
        leaves_malloc: true,
        ..Marks::NONE
    },
    variables: Reads::NONE,
    defaults: None,
    arena_settings: &[],
    advice: None,
    remedies: None,
};
