//! The C library's malloc, which is in every program: glibc's, or that of another library without settings.

#[cfg(target_env = "gnu")]
pub mod glibc;
#[cfg(not(target_env = "gnu"))]
pub mod other_libc;

use std::borrow::Cow;
use std::collections::BTreeMap;

#[cfg(target_env = "gnu")]
use glibc as libc_malloc;
#[cfg(not(target_env = "gnu"))]
use other_libc as libc_malloc;

use crate::descriptor::{Descriptor, InCode, Ours, Suggested};
use crate::dimension::Dimension;
use crate::dimension::DimensionStage::{First, Second};
use crate::environment::Environment;
use crate::remedy::{Argument, Does, ReleaseCall, call};
use crate::setting::PerCore;

pub use libc_malloc::{SETTABLE, TUNED, VARIABLES, also, settings, write_version};

/// Its name.
pub const NAME: &str = "system";

/// The name of glibc's malloc in readings of a heap.
pub const HEAP: &str = "glibc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    heap: HEAP,
    title: "glibc's malloc",
    ours: Some(OURS),
    libraries: &[],
    remedy: Some(ReleaseCall {
        allocator: HEAP,
        function: "malloc_trim",
        prefixes: &[""],
        beside: None,
        calls: || vec![call("malloc_trim(0)", vec![Argument::Number(0)], false)],
        // The function returns 1 if memory was given back.
        zero_is_good: false,
        does: Does::Advises,
        one_lock_at_a_time: true,
    }),
};

const OURS: &Ours = &Ours {
    is_built: true,
    feature: None,
    environment: ENVIRONMENT,
    also: None,
    settings,
    in_code: IN_PRELOAD,
    in_preload: IN_PRELOAD,
    dimensions: &[
        Dimension::new("arena_max", &["1", "2"], First, "arenas"),
        Dimension::new("trim_threshold", &["131072"], First, "free space at the tops of arenas"),
        Dimension::new("mmap_threshold", &["65536"], Second, "large blocks"),
        Dimension::new("tcache_count", &["0", "2"], Second, "thread caches"),
        Dimension::new("top_pad", &["0"], Second, "free space at the tops of arenas"),
    ],
    candidates: &[Suggested::always("system"), Suggested::always("system:arena_max=1")],
    verifies: true,
    c,
};

/// What the variable of its preload can set, and what a program's own code can set.
pub const IN_PRELOAD: InCode = InCode { settings: SETTABLE, tuned: TUNED };

/// The variable with glibc's tunables.
pub const TUNABLES: &str = "GLIBC_TUNABLES";
/// The text before each of malloc's tunables.
pub const TUNABLE: &str = "glibc.malloc.";
/// The variable and the tunable that turn on malloc's checks. From glibc 2.34 on they have an effect only if libc_malloc_debug.so is
/// preloaded.
pub const CHECK: (&str, &str) = ("MALLOC_CHECK_", "check");

/// How glibc reads settings.
pub const ENVIRONMENT: Environment = Environment::Joined {
    variable: Cow::Borrowed(TUNABLES),
    earlier: Cow::Borrowed(&[]),
    single: Cow::Borrowed(VARIABLES),
    prefix: Cow::Borrowed(TUNABLE),
    assign: Cow::Borrowed("="),
    separator: Cow::Borrowed(":"),
};

/// glibc's rule for its number of arenas.
pub const PER_CORE: PerCore = PerCore {
    setting: Cow::Borrowed("arena_max"),
    ratio: if cfg!(target_pointer_width = "64") { 8 } else { 2 },
    on_one: None,
};

/// The name of this process's C library, with its version if it has one: `glibc 2.36`.
pub fn version() -> String {
    let mut text = String::new();
    let _ = write_version(&mut text);
    text
}

/// Settings as calls of `mallopt` in C; `None` if `mallopt` cannot set one of them.
fn c(settings: &BTreeMap<String, String>) -> Option<String> {
    let call =
        |(name, value): (&String, &String)| Some(format!("mallopt({}, {value});", libc_malloc::name_in_c(name)?));
    let calls: Option<Vec<String>> = settings.iter().map(call).collect();
    Some(format!("#include <malloc.h>\n/* first in main */\n{}", calls?.join("\n")))
}
