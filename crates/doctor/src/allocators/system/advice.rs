//! The advice for glibc's malloc: the reasons, and the variable.

use allocanary_facts::system::NAME;

use super::defaults::defaults;
use super::variables::assignments;
use crate::contract::Case;
use crate::judgement::Advice;
use crate::variables::settings;

/// What `allocanary tune` proved on the built-in workloads: see docs/lab/tuning.md, "What wins where".
const PROVEN: &str = "arena_max 1: in the workload `server` at 40 cores a third less when idle; one arena makes \
                            threads wait for each other, there and in `handoff`. `allocanary study winners` shows both \
                            here";

pub(super) fn advice(&Case { at, variables, seen, .. }: &Case) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&assignments(variables, &seen.libraries), NAME));
    let default = defaults(at).arenas?;
    let usable = at.cpus.count();
    if set.contains_key("arena_max") || default <= usable || seen.is_single() {
        return None;
    }
    let mut reasons = vec![format!(
        "arena_max: {usable}, one for each usable processor, instead of {default}; of each arena only the top goes back"
    )];
    if seen.jvm {
        reasons.push(
            "this is a Java virtual machine: the lines are about its native memory alone, not about its heap, which -Xmx limits; \
             `jcmd PID VM.native_memory` shows the parts of both"
                .into(),
        );
    }
    Some(Advice {
        allocator: NAME,
        reasons,
        variable: ("MALLOC_ARENA_MAX".into(), usable.to_string()),
        also: None,
        install: Some("allocanary::install!(system, arena_max = per_cpu(1));".into()),
        fewer_arenas: true,
        proven: Some(PROVEN),
    })
}
