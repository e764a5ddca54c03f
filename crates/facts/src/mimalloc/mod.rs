//! mimalloc.

mod libraries;
pub mod settings;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::descriptor::{Descriptor, InCode, Ours, Suggested};
use crate::dimension::Dimension;
use crate::dimension::DimensionStage::{First, Second};
use crate::environment::Environment;
use crate::remedy::{Argument, Does, ReleaseCall, call};

pub use settings::{ALSO, OLD, SETTINGS, TUNED};

/// Its name.
pub const NAME: &str = "mimalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    heap: NAME,
    title: NAME,
    ours: Some(OURS),
    libraries: libraries::LIBRARIES,
    remedy: Some(ReleaseCall {
        allocator: NAME,
        function: "mi_collect",
        prefixes: &[""],
        beside: None,
        calls: || vec![call("mi_collect(true)", vec![Argument::Number(1)], false)],
        zero_is_good: false,
        does: Does::Maps,
        one_lock_at_a_time: false,
    }),
};

const OURS: &Ours = &Ours {
    is_built: cfg!(feature = "mimalloc"),
    feature: Some("mimalloc"),
    environment: ENVIRONMENT,
    also: None,
    settings: || SETTINGS,
    in_code: IN_PRELOAD,
    in_preload: IN_PRELOAD,
    dimensions: &[
        Dimension::new("allow_thp", &["0"], First, "huge-page padding"),
        Dimension::new("purge_delay", &["0"], First, "freed pages"),
        Dimension::new("page_reclaim_on_free", &["1"], Second, "pages of other threads"),
        Dimension::new("page_full_retain", &["0"], Second, "free pages of each size"),
    ],
    candidates: &[Suggested::always("mimalloc"), Suggested::for_programs("mimalloc:allow_thp=0")],
    verifies: false,
    c,
};

/// What the variable of its preload can set, and what a program's own code can set.
pub const IN_PRELOAD: InCode = InCode { settings: SETTINGS, tuned: TUNED };

/// How mimalloc reads settings.
pub const ENVIRONMENT: Environment = Environment::Each { prefix: Cow::Borrowed("MIMALLOC_") };

/// Settings as calls in C; `None` if mimalloc reads one of the settings before `main`.
fn c(settings: &BTreeMap<String, String>) -> Option<String> {
    if settings.keys().any(|name| settings::BEFORE_MAIN.contains(&name.as_str())) {
        return None;
    }
    let call = |(name, value): (&String, &String)| format!("mi_option_set(mi_option_{name}, {value});");
    let calls: Vec<String> = settings.iter().map(call).collect();
    Some(format!("#include <mimalloc.h>\n/* first in main */\n{}", calls.join("\n")))
}
