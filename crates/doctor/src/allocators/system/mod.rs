//! The C library's malloc, glibc's.

mod remedies;
mod variables;

use allocanary_allocators::allocators::system::{DESCRIPTOR, NAME, PER_CORE};

use super::{Case, Marks, Part, Reads};
use crate::advice::Advice;
use crate::defaults::{Default, count};
use crate::flavour::Flavour;
use crate::host::Surroundings;
use crate::variables::settings;

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
    defaults: Some(defaults),
    advice: Some(advice),
    remedies: Some(remedies::remedies),
};

/// What `allocanary tune` proved on the built-in workloads: see docs/tuning.md, "What wins where".
const PROVEN: &str = "arena_max 1: in the workload `server` at 40 cores a third less when idle; one arena makes \
                            threads wait for each other, there and in `handoff`. `allocanary study winners` shows both \
                            here";

fn defaults(at: &Surroundings) -> Default {
    if !at.has_glibc() {
        let text = "one heap behind a lock, whatever the processors".to_string();
        return Default { allocator: NAME, arenas: None, text, oversized: false };
    }
    let ratio = PER_CORE.ratio;
    let of = |cores: u32| u32::try_from(PER_CORE.on(cores)).unwrap_or(u32::MAX);
    let (arenas, usable) = (of(at.host.cores), of(at.cpus.count()));
    let mut text = format!(
        "up to {}: {ratio} for each of the {} cores online, one for each new thread",
        count(arenas),
        at.host.cores
    );
    let ignored = match (at.cpus.affinity < at.host.cores, at.cpus.count() < at.cpus.affinity) {
        (true, true) => Some("the affinity mask and the CPU quota"),
        (true, false) => Some("the affinity mask"),
        (false, true) => Some("the CPU quota"),
        (false, false) => None,
    };
    if let Some(ignored) = ignored {
        text.push_str(&format!("; it does not see {ignored}, under which {usable} would be in proportion"));
    }
    Default { allocator: NAME, arenas: Some(arenas), text, oversized: arenas > usable }
}

fn advice(&Case { at, variables, seen, .. }: &Case) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&variables::assignments(variables, &seen.libraries), NAME));
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
             `jcmd PID VM.native_memory` divides both"
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
