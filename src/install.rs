//! The switch: one line declares a program's global allocator with its settings, sized by its container.
//! In: `install!(jemalloc, narenas = per_cpu(1))`. Out: a static, and a hook that runs before the first allocation.
//!
//! # How it works
//!
//! The macro puts a function's address into `.init_array` of the binary that it stands in, with a priority before the
//! allocators' own constructors and before Rust's runtime. There, allocating nothing, the hook computes the processors
//! at hand ([`container`](crate::container)), writes the settings into a static buffer, and hands it to the allocator by
//! the allocator's own means: jemalloc's `_rjem_malloc_conf` symbol, glibc's `mallopt`, mimalloc's option defaults.
//! The main function would be too late: jemalloc is initialised by then.
//!
//! The allocator is the one of its own crate, as it is: nothing stands between a program and `malloc`.

pub(crate) mod asked;
mod check;

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::allocator::Allocator;

pub(crate) use asked::CUT;
pub use asked::{Asked, Conf, Value, compose};
pub use check::check_settings;

/// Declares the global allocator of this binary, with settings. Once, at the root of the binary (or of a staticlib).
///
/// ```
/// allocanary::install!(jemalloc, narenas = per_cpu(1), background_thread = true);
/// # fn main() {}
/// ```
///
/// - `install!()` is the allocator that the features choose (`system-alloc`, `mimalloc-alloc`, `jemalloc-alloc`), with
///   its arenas as its authors set them;
/// - `install!(jemalloc)`, `install!(mimalloc)`, `install!(system)` name one;
/// - `install!(jemalloc_unprefixed)` is for a binary that turns on tikv-jemallocator's feature
///   `unprefixed_malloc_on_supported_platforms`, so that C's `malloc` is jemalloc too. That build reads another symbol,
///   and from the environment `MALLOC_CONF` only: `JE_MALLOC_CONF` is honoured below it, `_RJEM_MALLOC_CONF` is not;
/// - settings have the allocator's own names; a name that does not exist, or a value of the wrong kind, does not
///   compile. The settings of `system` are glibc's: with another C library (musl), whose malloc has neither arenas nor
///   settings, only `install!(system)` does;
/// - `per_cpu(n)` is `n` for each processor that affinity and container allow; `auto` is `per_cpu` with the
///   allocator's own ratio (4 for jemalloc's `narenas`, 8 for glibc's `arena_max`);
/// - `idle = give_back` (the default) or `keep`, and `idle_every_ms = 100`, are what [`tuning::thread_idle`](crate::tuning::thread_idle)
///   does in a thread that is about to wait. The variables `ALLOCANARY_IDLE` and `ALLOCANARY_IDLE_EVERY_MS` win over both.
///
/// What the environment sets wins, key by key. A program with jemalloc also honours `MALLOC_CONF` and `JE_MALLOC_CONF`,
/// which the prefixed build ignores; the later of `JE_MALLOC_CONF`, `MALLOC_CONF`, `_RJEM_MALLOC_CONF` wins.
///
/// ```compile_fail
/// allocanary::install!(jemalloc, narena = 2); // no such setting
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, narenas = 0); // at least 1
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, narenas = 4095); // jemalloc's most are 4094
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, idle = sometimes); // give_back or keep
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, idle_every_ms = 3600001); // at most an hour
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, idle_every_ms = -1); // at least 0
/// # fn main() {}
/// ```
/// ```
/// allocanary::install!(jemalloc, narenas = auto, idle = give_back, background_thread = true, idle_every_ms = 50);
/// # fn main() { allocanary::tuning::check().unwrap() }
/// ```
#[macro_export]
macro_rules! install {
    () => {
        $crate::__install_chosen!();
    };
    (system $(, $($settings:tt)*)?) => {
        $crate::__install!(
            ::std::alloc::System = ::std::alloc::System, $crate::allocators::System,
            $crate::allocators::SYSTEM_SETTABLE, ::core::option::Option::None, $($($settings)*)?
        );
    };
    (jemalloc $(, $($settings:tt)*)?) => {
        $crate::__install_jemalloc!("_rjem_malloc_conf", $($($settings)*)?);
    };
    (jemalloc_unprefixed $(, $($settings:tt)*)?) => {
        $crate::__install_jemalloc!("malloc_conf", $($($settings)*)?);
    };
    (mimalloc $(, $($settings:tt)*)?) => {
        $crate::__install!(
            $crate::install::mimalloc::MiMalloc = $crate::install::mimalloc::MiMalloc, $crate::allocators::Mimalloc,
            $crate::allocators::MIMALLOC_SETTINGS, ::core::option::Option::None, $($($settings)*)?
        );
    };
}

/// jemalloc, whose two builds differ in the symbol that they read.
#[doc(hidden)]
#[macro_export]
macro_rules! __install_jemalloc {
    ($symbol:literal, $($settings:tt)*) => {
        const _: () = {
            // jemalloc's own symbol is weak; this one stands in the final binary and so is the one that is linked.
            #[unsafe(export_name = $symbol)]
            static CONF: $crate::install::Conf = $crate::install::Conf::new(::core::ptr::null_mut());
            $crate::__install!(
                $crate::install::jemalloc::Jemalloc = $crate::install::jemalloc::Jemalloc, $crate::allocators::Jemalloc,
                $crate::allocators::JEMALLOC_SETTINGS, ::core::option::Option::Some(&CONF), $($settings)*
            );
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __install {
    ($type:ty = $value:expr, $control:expr, $table:expr, $conf:expr, $($settings:tt)*) => {
        const _: () = {
            #[global_allocator]
            static GLOBAL: $type = $value;

            const SETTINGS: &[(&str, $crate::install::Value)] = $crate::__settings!([] $($settings)*);
            const _: () = $crate::install::check_settings(SETTINGS, $table);
            static PLAN: $crate::install::Plan = $crate::install::Plan {
                allocator: &$control,
                asked: $crate::install::Asked { settings: SETTINGS, conf: $conf },
                idle: $crate::__idle!(($crate::idle::Policy::DEFAULT) $($settings)*),
            };

            extern "C" fn boot() {
                $crate::install::boot(&PLAN);
            }
            // Before the constructors without a priority (jemalloc's, mimalloc's) and before Rust's own (99).
            // `.preinit_array` would be earlier still, but a shared object cannot have one.
            #[used]
            #[unsafe(link_section = ".init_array.00090")]
            static BOOT: extern "C" fn() = boot;
        };
    };
}

/// The settings of an `install!`, one by one, as a slice of names and values.
#[doc(hidden)]
#[macro_export]
macro_rules! __settings {
    ([$($done:tt)*]) => { &[$($done)*] };
    // Ours, not the allocator's: see `__idle`.
    ([$($done:tt)*] idle = $word:ident $(, $($rest:tt)*)?) => { $crate::__settings!([$($done)*] $($($rest)*)?) };
    ([$($done:tt)*] idle_every_ms = $millis:literal $(, $($rest:tt)*)?) => {
        $crate::__settings!([$($done)*] $($($rest)*)?)
    };
    ([$($done:tt)*] $key:ident = auto $(, $($rest:tt)*)?) => {
        $crate::__settings!([$($done)* (stringify!($key), $crate::install::Value::Auto),] $($($rest)*)?)
    };
    ([$($done:tt)*] $key:ident = per_cpu($ratio:literal) $(, $($rest:tt)*)?) => {
        $crate::__settings!([$($done)* (stringify!($key), $crate::install::Value::PerCpu($ratio)),] $($($rest)*)?)
    };
    ([$($done:tt)*] $key:ident = $value:literal $(, $($rest:tt)*)?) => {
        $crate::__settings!([$($done)* (stringify!($key), $crate::install::Value::Text(concat!($value))),] $($($rest)*)?)
    };
}

/// The settings of an `install!` that are ours, as a policy for threads that are about to wait.
#[doc(hidden)]
#[macro_export]
macro_rules! __idle {
    (($policy:expr)) => { const { $policy } };
    (($policy:expr) idle = $word:ident $(, $($rest:tt)*)?) => {
        $crate::__idle!(($policy.with_word(stringify!($word))) $($($rest)*)?)
    };
    (($policy:expr) idle_every_ms = $millis:literal $(, $($rest:tt)*)?) => {
        $crate::__idle!(($policy.with_every_millis($millis)) $($($rest)*)?)
    };
    (($policy:expr) $key:ident = $value:tt ($($ratio:tt)*) $(, $($rest:tt)*)?) => {
        $crate::__idle!(($policy) $($($rest)*)?)
    };
    (($policy:expr) $key:ident = $value:ident $(, $($rest:tt)*)?) => { $crate::__idle!(($policy) $($($rest)*)?) };
    (($policy:expr) $key:ident = $value:literal $(, $($rest:tt)*)?) => { $crate::__idle!(($policy) $($($rest)*)?) };
}

/// What the features choose: system before mimalloc before jemalloc.
#[cfg(any(feature = "system-alloc", not(any(feature = "jemalloc-alloc", feature = "mimalloc-alloc"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __install_chosen {
    () => {
        $crate::install!(system);
    };
}
#[cfg(all(feature = "mimalloc-alloc", not(feature = "system-alloc")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __install_chosen {
    () => {
        $crate::install!(mimalloc);
    };
}
#[cfg(all(feature = "jemalloc-alloc", not(any(feature = "system-alloc", feature = "mimalloc-alloc"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __install_chosen {
    () => {
        $crate::install!(jemalloc);
    };
}

/// The name of the allocator that the features choose: system before mimalloc before jemalloc.
pub const CHOSEN: &str = match (cfg!(feature = "system-alloc"), cfg!(feature = "mimalloc-alloc")) {
    (true, _) => "system",
    (false, true) => "mimalloc",
    (false, false) if cfg!(feature = "jemalloc-alloc") => "jemalloc",
    _ => "system",
};

#[cfg(feature = "jemalloc")]
#[doc(hidden)]
pub use tikv_jemallocator as jemalloc;

#[cfg(feature = "mimalloc")]
#[doc(hidden)]
pub use ::mimalloc;

/// What an `install!` installs.
pub struct Plan {
    /// The allocator.
    pub allocator: &'static dyn Allocator,
    /// What is asked of it.
    pub asked: Asked,
    /// What threads do that are about to wait.
    pub idle: crate::idle::Policy,
}

/// The plan of this binary, once its hook has run. A pointer and no `OnceLock`: that one's code would be 64 KiB more of
/// the file in memory at start, and a lock could be held by another thread when the process forks.
static PLAN: AtomicPtr<Plan> = AtomicPtr::new(std::ptr::null_mut());

/// The plan of this binary, if it has one and its hook has run.
pub(crate) fn plan() -> Option<&'static Plan> {
    let plan = PLAN.load(Ordering::Acquire);
    // SAFETY: null, or the static plan that `boot` stored.
    unsafe { plan.as_ref() }
}

/// The allocator that this binary installed.
pub fn installed() -> Option<&'static dyn Allocator> {
    plan().map(|plan| plan.allocator)
}

/// The hook. Runs before anything of the program and allocates nothing.
///
/// Inlined, with all that it always calls, into the binary that installs: there it lies beside `main`, and a process
/// does not map another 64 KiB of its file for it.
#[inline]
pub fn boot(plan: &'static Plan) {
    let (none, this) = (std::ptr::null_mut(), std::ptr::from_ref(plan).cast_mut());
    if PLAN.compare_exchange(none, this, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        plan.allocator.boot(&plan.asked);
        crate::idle::boot(plan.idle);
    }
}
