//! The defaults of glibc's malloc on a host: its arenas, and a sentence.

use allocanary_facts::system::{NAME, PER_CORE};

use crate::host::Surroundings;
use crate::judgement::{Default, count};

pub(super) fn defaults(at: &Surroundings) -> Default {
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
