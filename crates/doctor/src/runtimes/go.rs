//! Go has its own heap. C code that it calls uses `malloc`.

use allocanary_text::units::OneDecimal;

use super::runtime::{Runtime, area, limit_mebibytes};
use crate::flavour::Flavour;
use crate::remedy::{Gives, PasteLine, Remedy, Who, variable};
use crate::subject::Subject;

pub(super) const RUNTIME: Runtime =
    Runtime { is_here: |process| process.identity.main.flavour == Flavour::Go, remedies };

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    // Go handles the signals by which this command would notice the end of a call.
    for one in all.iter_mut().filter(|one| one.id == "give-back") {
        *one = Remedy {
            check: None,
            id: "malloc_trim".into(),
            what: "have the C library give its free pages back after a burst".into(),
            who: Who::Developer,
            evidence: "`give-back` cannot do it from outside: Go takes the signals that it needs.".into(),
            lines: vec![PasteLine::new("Go", "C.malloc_trim(0)   // #include <malloc.h>")],
            ..one.clone()
        };
    }
    let Some(bytes) = area(subject, "Go's heap") else { return };
    if subject.process.variables.contains_key("GOMEMLIMIT") {
        return;
    }
    all.push(Remedy {
        check: None,
        id: "GOMEMLIMIT".into(),
        what: "a limit for Go's memory, so that it collects and gives back earlier".into(),
        who: Who::OperatorRestart,
        gives: Gives::Unknown {
            find_out: "`/debug/pprof/heap?debug=1` of the program: HeapIdle less HeapReleased is what Go keeps".into(),
        },
        evidence: format!(
            "{} are Go's heap, which no allocator has. The line has a quarter more as the limit. From Go 1.19.",
            OneDecimal(bytes)
        ),
        cost:
            "more collections near the limit, up to half of the processor time: choose more than the live objects need"
                .into(),
        lines: variable("GOMEMLIMIT", &format!("{}MiB", limit_mebibytes(bytes))),
    });
}
