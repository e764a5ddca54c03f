//! tcmalloc, a library of gperftools.

use std::borrow::Cow;

use crate::descriptor::Descriptor;
use crate::environment::Environment;
use crate::library::{LibraryKind, VersionSetting, after, always};
use crate::remedy::{Does, ReleaseCall, call};
use crate::setting::SettingKind;

/// Its name.
pub const NAME: &str = "tcmalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    libraries: &[library(NAME, &["libtcmalloc"]), library("tcmalloc_minimal", &["libtcmalloc_minimal"])],
    remedy: Some(ReleaseCall {
        allocator: NAME,
        // The function returns nothing. What a caller reads as its result is whatever the register contained before.
        function: "MallocExtension_ReleaseFreeMemory",
        prefixes: &[""],
        beside: None,
        calls: || vec![call("MallocExtension_ReleaseFreeMemory()", Vec::new(), false)],
        zero_is_good: false,
        does: Does::Maps,
        one_lock_at_a_time: false,
    }),
    ..Descriptor::named(NAME)
};

/// The text before each setting's name in tcmalloc's variables.
pub const PREFIX: &str = "TCMALLOC_";

const fn library(name: &'static str, files: &'static [&'static str]) -> LibraryKind {
    LibraryKind {
        name,
        files,
        version: |bytes| after(bytes, "gperftools "),
        rows: ROWS,
        environment: Environment::Each { prefix: Cow::Borrowed(PREFIX) },
        capitals_after: Some(PREFIX),
        reader: NAME,
    }
}

const COUNT: SettingKind = SettingKind::Number { min: 0, max: i64::MAX };

/// https://gperftools.github.io/gperftools/tcmalloc.html, "Modifying Runtime Behavior".
const ROWS: &[VersionSetting] = &[
    // `ThreadCache::set_overall_thread_cache_size` raises values below 512 KiB and cuts values above 1 GiB.
    always(
        "max_total_thread_cache_bytes",
        SettingKind::Size { min: 512 << 10, max: 1 << 30 },
        "bound of all thread caches",
    ),
    always("release_rate", SettingKind::Number { min: 0, max: 10 }, "how fast freed pages go back; 0 never"),
    always("aggressive_decommit", SettingKind::Flag, "freed pages go back at once"),
    always("heap_limit_mb", COUNT, "most MiB of the heap; 0 no limit"),
    // With 0 the process ends at its first division by this value.
    always(
        "transfer_num_obj",
        SettingKind::Number { min: 1, max: i64::MAX },
        "most blocks that move to the central list at once",
    ),
    always("disable_memory_release", SettingKind::Flag, "freed pages never go back"),
    always("skip_sbrk", SettingKind::Flag, "take memory by mmap alone"),
    always("skip_mmap", SettingKind::Flag, "take memory by sbrk alone"),
];
