//! tcmalloc, of gperftools or of Google.

use allocanary_facts::tcmalloc::{DESCRIPTOR, NAME, PREFIX};

use crate::contract::{Marks, Part, Reads};
use crate::flavour::Flavour;
use crate::variables::{VariableEffect, not_here};

const FLAVOUR: Flavour = Flavour::Named(NAME);

pub(super) const PART: Part = Part {
    of: &DESCRIPTOR,
    usual: FLAVOUR,
    marks: Marks {
        symbols: &[("tc_version", |_| FLAVOUR), ("tc_malloc", |_| FLAVOUR), ("TCMallocInternalMalloc", |_| FLAVOUR)],
        by_texts: |texts| texts.contains(NAME).then_some((FLAVOUR, "tcmalloc's messages")),
        library: Some((NAME, FLAVOUR)),
        ..Marks::NONE
    },
    variables: Reads { reader, ..Reads::NONE },
    defaults: None,
    arena_settings: &[],
    advice: None,
    remedies: None,
};

fn reader(variable: &str, _: &str, subject: Option<&[Flavour]>) -> Option<(VariableEffect, String)> {
    if !variable.starts_with(PREFIX) {
        return None;
    }
    Some(match subject {
        Some(flavours) if !flavours.contains(&FLAVOUR) => not_here(flavours),
        _ => (VariableEffect::Read, "by gperftools' tcmalloc; its words are not checked here".into()),
    })
}
