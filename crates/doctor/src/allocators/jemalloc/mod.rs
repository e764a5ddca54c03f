//! jemalloc. Its builds read different variables.

mod advice;
pub(crate) mod builds;
mod defaults;
pub mod links;
mod remedies;
mod variables;

use allocanary_facts::jemalloc::{DESCRIPTOR, NAME};

use crate::contract::{Marks, Part, Reads};
use crate::flavour::Flavour;

const RUST: Flavour = Flavour::RustJemalloc { installs: false };
/// The jemalloc of our preload. It honours the variables that `install!` honours.
const PRELOADED: Flavour = Flavour::RustJemalloc { installs: true };

pub(super) const PART: Part = Part {
    of: &DESCRIPTOR,
    usual: RUST,
    marks: Marks {
        symbols: &[
            ("_rjem_mallctl", |installs| Flavour::RustJemalloc { installs }),
            ("je_mallctl", |_| Flavour::PrefixedJemalloc),
            ("mallctl", |_| Flavour::PlainJemalloc),
        ],
        texts: &[(RJEM, b"FNOC_COLLAM_MEJR_"), (PLAIN, b"fnoc.collam/cte/"), (INSTALL, b"\0FNOC_COLLAM_EJ")],
        by_texts: |texts| {
            let has = |name: &str| texts.contains(name);
            match (has(NAME), has(RJEM), has(PLAIN)) {
                (false, ..) => None,
                (_, true, _) => Some((
                    Flavour::RustJemalloc { installs: has(INSTALL) },
                    "jemalloc's messages and the prefix _rjem_",
                )),
                (_, _, true) => Some((Flavour::PlainJemalloc, "jemalloc's messages")),
                _ => Some((Flavour::PrefixedJemalloc, "jemalloc's messages")),
            }
        },
        library: Some((NAME, Flavour::PlainJemalloc)),
        preload: Some(PRELOADED),
        ..Marks::NONE
    },
    variables: Reads {
        reader: builds::reader,
        assignments: variables::assignments,
        problem: variables::aborts,
        overruled_in: "in a program with install!, ",
        names: || builds::VARIABLES.to_vec(),
        suspects: &["JE_MALLOC", "JEMALLOC", "RJEM", "_RJEM"],
    },
    defaults: Some(defaults::defaults),
    arena_settings: &["narenas", "narenas_ratio"],
    advice: Some(advice::advice),
    remedies: Some(remedies::remedies),
};

/// Names of the texts that show a build: with the prefix `_rjem_`, under C's own names, and a program with `install!`.
const RJEM: &str = "rjem";
const PLAIN: &str = "plain";
pub(crate) const INSTALL: &str = "install";
