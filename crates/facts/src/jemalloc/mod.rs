//! jemalloc.

mod also;
mod dimensions;
mod libraries;
pub mod settings;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::descriptor::{Descriptor, InCode, Ours, Suggested};
use crate::environment::Environment;
use crate::remedy::{Does, ReleaseCall, mallctl};
use crate::setting::PerCore;

pub use also::ALSO;
pub use settings::{SETTINGS, TUNED};

/// Its name.
pub const NAME: &str = "jemalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    heap: NAME,
    title: NAME,
    ours: Some(OURS),
    libraries: libraries::LIBRARIES,
    remedy: Some(REMEDY),
};

const OURS: &Ours = &Ours {
    is_built: cfg!(feature = "jemalloc"),
    feature: Some("jemalloc"),
    environment: ENVIRONMENT,
    also: Some(PLAIN_VARIABLE),
    settings: || SETTINGS,
    in_code: InCode { settings: SETTINGS, tuned: TUNED },
    in_preload: IN_PRELOAD,
    dimensions: dimensions::DIMENSIONS,
    candidates: &[
        Suggested::always("jemalloc"),
        Suggested::always("jemalloc:narenas=1"),
        Suggested::for_programs("jemalloc:narenas=1,tcache=false"),
    ],
    verifies: true,
    c,
};

/// What the variable of its preload can set.
pub const IN_PRELOAD: InCode = InCode { settings: SETTINGS, tuned: settings::PRELOADED };

/// The call that makes a running process give back memory.
pub const REMEDY: ReleaseCall = ReleaseCall {
    allocator: NAME,
    function: "mallctl",
    prefixes: &["", "je_", "_rjem_", "jemalloc_"],
    beside: Some("mallctlbymib"),
    calls: || vec![mallctl("thread.tcache.flush", None, true), mallctl(PURGE, None, false)],
    zero_is_good: true,
    does: Does::Maps,
    one_lock_at_a_time: false,
};

/// Purges all arenas: 4096 is `MALLCTL_ARENAS_ALL` in every jemalloc from 5.0 on.
const PURGE: &str = "arena.4096.purge";

/// The variable that the build with the prefix `_rjem_` reads.
pub const RUST_VARIABLE: &str = "_RJEM_MALLOC_CONF";
/// The variable that a build without a prefix reads, whose functions have C's names (`malloc`).
pub const PLAIN_VARIABLE: &str = "MALLOC_CONF";
/// The variable that the build with the prefix `je_` reads.
pub const PREFIXED_VARIABLE: &str = "JE_MALLOC_CONF";

/// How the build of the Rust crate reads settings.
pub const ENVIRONMENT: Environment = Environment::Joined {
    variable: Cow::Borrowed(RUST_VARIABLE),
    // Users set these variables, but the build with the prefix `_rjem_` ignores them. `install!` passes their settings on to it.
    earlier: Cow::Borrowed(&[Cow::Borrowed(PREFIXED_VARIABLE), Cow::Borrowed(PLAIN_VARIABLE)]),
    single: Cow::Borrowed(&[]),
    prefix: Cow::Borrowed(""),
    assign: Cow::Borrowed(":"),
    separator: Cow::Borrowed(","),
};

/// jemalloc's own rule for the number of arenas. It makes one arena on one processor, where threads cannot contend.
pub const PER_CORE: PerCore = PerCore { setting: Cow::Borrowed("narenas"), ratio: 4, on_one: Some(1) };

/// The maximum number of automatic arenas: jemalloc silently lowers a larger number (`MALLOCX_ARENA_LIMIT` minus two).
pub const MOST_ARENAS: u32 = 4094;

/// Settings as a definition in C of `malloc_conf`, which the linker uses instead of jemalloc's own.
fn c(settings: &BTreeMap<String, String>) -> Option<String> {
    let pairs: Vec<String> = settings.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    Some(format!("const char *malloc_conf = \"{}\";", pairs.join(",")))
}
