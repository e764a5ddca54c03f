//! Ruby: objects are in separate pages, which `malloc` has given; texts and arrays are in blocks of `malloc`.

use allocanary_text::units::OneDecimal;

use super::runtime::{Runtime, free, has_library, is_program};
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::Subject;

pub(super) const RUNTIME: Runtime =
    Runtime { is_here: |process| is_program(process, "ruby") || has_library(process, "libruby"), remedies };

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    let Some(bytes) = free(subject) else { return };
    all.push(Remedy {
        check: None,
        id: "GC.compact".into(),
        what: "move Ruby's objects together before the process forks or waits".into(),
        who: Who::Developer,
        gives: Gives::Unknown { find_out: "call it, and read the process again".into() },
        evidence: format!("{} lie free between live blocks. From Ruby 2.7.", OneDecimal(bytes)),
        cost: "the program stands still while it compacts".into(),
        lines: vec![PasteLine::new("Ruby", "GC.compact")],
    });
}
