//! Node: JavaScript objects are in V8's heap, buffers in `malloc`'s.

use allocanary_text::units::OneDecimal;

use super::runtime::{Runtime, added, area, has_library, is_program, limit_mebibytes};
use crate::remedy::{Gives, Remedy, Who, variable};
use crate::subject::Subject;

pub(super) const RUNTIME: Runtime =
    Runtime { is_here: |process| is_program(process, "node") || has_library(process, "libnode"), remedies };

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    let Some(bytes) = area(subject, "V8's heap") else { return };
    all.push(Remedy {
        check: None,
        id: "max-old-space-size".into(),
        what: "a limit for V8's heap, so that it collects earlier".into(),
        who: Who::OperatorRestart,
        gives: Gives::Unknown {
            find_out: "`process.memoryUsage()` in the program: heapTotal less heapUsed is what V8 keeps".into(),
        },
        evidence: format!(
            "{} are V8's heap, which no allocator has. The line has a quarter more, in MiB, as the limit.",
            OneDecimal(bytes)
        ),
        cost: "more collections; above the limit the process ends: choose more than its live objects need".into(),
        lines: variable(
            "NODE_OPTIONS",
            &added(subject, "NODE_OPTIONS", &format!("--max-old-space-size={}", limit_mebibytes(bytes))),
        ),
    });
}
