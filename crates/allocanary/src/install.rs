//! `install!`: one line declares a program's global allocator with its settings, sized by its container. In:
//! `install!(jemalloc, narenas = per_cpu(1))`. Out: a static, and a hook that runs before the first allocation.
//!
//! # How it works
//!
//! The macro puts a function's address into `.init_array` of the binary that calls it. Its priority is before the
//! allocators' own constructors and before Rust's runtime. The function allocates nothing. It counts the CPUs available
//! to the process ([`container`](allocanary_sys::container)), writes the settings into a static buffer, and passes
//! it to the allocator in the allocator's own way: jemalloc's `_rjem_malloc_conf` symbol, glibc's `mallopt`, mimalloc's
//! option defaults. The main function would be too late: jemalloc is initialised by then.
//!
//! The global allocator is the type of the allocator's own crate. The program calls it directly.

mod check;
pub mod names;

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::allocator::Allocator;
use allocanary_facts::notice::NoticeWriter;
use allocanary_facts::{jemalloc, mimalloc, system};

pub use allocanary_facts::request::{Conf, InstallSettings, Value};
pub use check::{TUNED, checked, count, setting_of};

/// Declares the global allocator of this binary, with settings. Call it once, at the root of the binary (or of a
/// staticlib).
///
/// ```
/// allocanary::install!(jemalloc, narenas = per_cpu(1), background_thread = true);
/// # fn main() {}
/// ```
///
/// - `install!()` installs the allocator that the features choose (`system-alloc`, `mimalloc-alloc`, `jemalloc-alloc`),
///   with the allocator's default number of arenas;
/// - `install!(jemalloc)`, `install!(mimalloc)`, `install!(system)` name the allocator;
/// - `install!(jemalloc_unprefixed)` is for a binary that turns on tikv-jemallocator's feature
///   `unprefixed_malloc_on_supported_platforms`, so that C's `malloc` is jemalloc too. That build reads another symbol.
///   Of the environment it reads only `MALLOC_CONF`; `JE_MALLOC_CONF` is honoured with lower precedence,
///   `_RJEM_MALLOC_CONF` is ignored;
/// - `install!(jemalloc, tuned)` sets what measurements recommend for a small service in a container. A setting after it
///   replaces the one of the same name: `install!(jemalloc, tuned, background_thread = false)`. The sets are for jemalloc
///   `narenas = per_cpu(1)`, `tcache_max = 4096`, `dirty_decay_ms = 1000`, `background_thread = true`; for glibc
///   `arena_max = per_cpu(1)`, `trim_threshold = 131072`; for mimalloc `allow_thp = 0`, `purge_delay = 0`. What they save
///   and cost: `allocanary study tuned`;
/// - settings have the allocator's own names. A name that does not exist, or a value of the wrong kind, does not
///   compile. The settings of `system` are those of glibc. Another C library (musl) has neither arenas nor settings:
///   only `install!(system)` compiles there;
/// - `per_cpu(n)` is `n` for each CPU that affinity and container allow; `auto` is the allocator's own rule for these
///   CPUs (jemalloc's `narenas`: 4 per CPU, and 1 on one CPU; glibc's `arena_max`: 8 per CPU);
/// - `threads_give_back = true` (the default) or `threads_give_back = false`, and `give_back_every_ms = 100`, set what
///   [`tuning::thread_idle`](crate::tuning::thread_idle) does in a thread that is about to wait. The variables
///   `ALLOCANARY_THREADS_GIVE_BACK` and `ALLOCANARY_GIVE_BACK_EVERY_MS` take precedence;
/// - `memory_budget = container`, `memory_budget = "1GiB"` or `memory_budget = off`: before that limit is reached, the allocator gives back the pages
///   that it keeps. See [`tuning::on_pressure`](crate::tuning::on_pressure). The variable `ALLOCANARY_MEMORY_BUDGET` takes precedence.
///   With jemalloc it adds nothing to an allocation. With the other allocators it adds some five instructions;
/// - `profile = "512KiB"`, `profile = bytes(512 << 10)` or `profile = off` (feature `profile`): an allocation is sampled every so many bytes on
///   average, and [`profile::pprof`](https://docs.rs/allocanary/latest/allocanary/profile/fn.pprof.html) says which call sites hold the heap. The
///   variable `ALLOCANARY_PROFILE` takes precedence;
/// - sizes may have a unit: `tcache_max = "32KiB"`;
/// - `wrap = ...`, last, wraps the allocator in
///   [`Counting`](https://docs.rs/allocanary/latest/allocanary/struct.Counting.html), in
///   [`Recording`](https://docs.rs/allocanary/latest/allocanary/struct.Recording.html) or in
///   [`Leaks`](https://docs.rs/allocanary/latest/allocanary/struct.Leaks.html): `wrap = Counting`,
///   `wrap = Leaks::sampling(512 * 1024)`. `as NAME` names the static, so that the program can call its methods, such
///   as reports. Without `wrap` the program calls the allocator directly.
///
/// ```
/// use allocanary::Counting;
/// allocanary::install!(jemalloc, narenas = 2, tcache_max = "16KiB", wrap = Counting);
/// # fn main() {}
/// ```
///
/// Do not use it in a library that a running program loads (dlopen): the allocator has started by then.
///
/// The environment takes precedence, setting by setting. A program with jemalloc also honours `MALLOC_CONF` and
/// `JE_MALLOC_CONF`, which the prefixed build ignores; the later of `JE_MALLOC_CONF`, `MALLOC_CONF`,
/// `_RJEM_MALLOC_CONF` wins.
///
/// ```compile_fail
/// allocanary::install!(jemalloc, narena = 2); // no such setting: the error is at the name
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, narenas = 0); // at least 1
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, narenas = 1, narenas = 2); // once
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, tcache_max = "16 parsecs"); // no such unit
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, narenas = 4095); // jemalloc's most are 4094
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, threads_give_back = sometimes); // true or false
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, give_back_every_ms = 3600001); // at most an hour
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, give_back_every_ms = -1); // at least 0
/// # fn main() {}
/// ```
/// ```
/// allocanary::install!(jemalloc, narenas = auto, threads_give_back = true, background_thread = true, give_back_every_ms = 50);
/// # fn main() { allocanary::tuning::check().unwrap() }
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, memory_budget = "80%"); // container, off, or a size
/// # fn main() {}
/// ```
/// ```
/// allocanary::install!(system, memory_budget = "100GiB", threads_give_back = false, wrap = ::allocanary::Counting);
/// # fn main() { allocanary::tuning::check().unwrap() }
/// ```
/// ```
/// allocanary::install!(jemalloc, tuned, background_thread = false, threads_give_back = false);
/// # fn main() { assert_eq!(allocanary::tuning::settings().unwrap()["tcache_max"], "4096") }
/// ```
/// ```compile_fail
/// allocanary::install!(system, profile = "1MiB", profile = "512KiB"); // once
/// # fn main() {}
/// ```
/// ```compile_fail
/// allocanary::install!(jemalloc, narenas = 2, tuned); // tuned comes first
/// # fn main() {}
/// ```
/// ```
/// allocanary::install!(system, wrap = ::allocanary::Counting,);
/// # fn main() {}
/// ```
/// ```
/// # #[cfg(feature = "leaks")]
/// allocanary::install!(system, wrap = ::allocanary::Leaks::sampling(512 * 1024,) as LEAKS);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! install {
    () => {
        $crate::__install_chosen!();
    };
    (system $(, $($settings:tt)*)?) => {
        $crate::__install!(
            {counted ::std::alloc::System, ::std::alloc::System, $crate::System, $crate::__private::facts::system::SETTABLE, $crate::__private::facts::system::TUNED, ::core::option::Option::None}
            [] (::core::option::Option::None; ::core::option::Option::None; $crate::__private::Policy::DEFAULT) $($($settings)*)?
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
            {
                counted $crate::__private::mimalloc::MiMalloc, $crate::__private::mimalloc::MiMalloc, $crate::Mimalloc,
                $crate::__private::facts::mimalloc::SETTINGS, $crate::__private::facts::mimalloc::TUNED, ::core::option::Option::None
            }
            [] (::core::option::Option::None; ::core::option::Option::None; $crate::__private::Policy::DEFAULT) $($($settings)*)?
        );
    };
}

/// For jemalloc. Its two builds read different symbols.
#[doc(hidden)]
#[macro_export]
macro_rules! __install_jemalloc {
    ($symbol:literal, $($settings:tt)*) => {
        $crate::__install!(
            {
                direct $crate::__private::jemalloc::Jemalloc, $crate::__private::jemalloc::Jemalloc, $crate::Jemalloc,
                $crate::__private::facts::jemalloc::SETTINGS, $crate::__private::facts::jemalloc::TUNED, ::core::option::Option::Some({
                    // jemalloc's own symbol is weak. This one is in the final binary, so the linker uses it.
                    #[unsafe(export_name = $symbol)]
                    static CONF: $crate::__private::Conf = $crate::__private::Conf::new(::core::ptr::null_mut());
                    &CONF
                })
            }
            [] (::core::option::Option::None; ::core::option::Option::None; $crate::__private::Policy::DEFAULT) $($settings)*
        );
    };
}

/// Collects the settings one by one in the brackets, then makes the statics. `wrap =` adds a wrapper.
#[doc(hidden)]
#[macro_export]
macro_rules! __install {
    ($allocator:tt $done:tt $idle:tt wrap = :: $($wrapper:tt)*) => {
        $crate::__install_wrapped!($allocator ($done $idle) (::) [] $($wrapper)*);
    };
    ($allocator:tt $done:tt $idle:tt wrap = $($wrapper:tt)*) => {
        $crate::__install_wrapped!($allocator ($done $idle) () [] $($wrapper)*);
    };
    ($allocator:tt [] $idle:tt tuned $(, $($rest:tt)*)?) => {
        $crate::__install!($allocator [$crate::__private::TUNED,] $idle $($($rest)*)?);
    };
    // These are this crate's own settings, not the allocator's.
    ($allocator:tt $done:tt ($($idle:tt)*) threads_give_back = $whether:literal $(, $($rest:tt)*)?) => {
        $crate::__install!($allocator $done ($($idle)*.with_give_back($whether)) $($($rest)*)?);
    };
    ($allocator:tt $done:tt ($($idle:tt)*) give_back_every_ms = $millis:literal $(, $($rest:tt)*)?) => {
        $crate::__install!($allocator $done ($($idle)*.with_every_millis($millis)) $($($rest)*)?);
    };
    ($allocator:tt $done:tt $idle:tt memory_budget = $word:ident $(, $($rest:tt)*)?) => {
        $crate::__install_budget!($allocator $done $idle (::core::stringify!($word)) $($($rest)*)?);
    };
    ($allocator:tt $done:tt $idle:tt memory_budget = $size:literal $(, $($rest:tt)*)?) => {
        $crate::__install_budget!($allocator $done $idle (::core::concat!($size)) $($($rest)*)?);
    };
    ($allocator:tt $done:tt $idle:tt profile = off $(, $($rest:tt)*)?) => {
        $crate::__install_profile!($allocator $done $idle ($crate::__private::mean_of("off")) $($($rest)*)?);
    };
    ($allocator:tt $done:tt $idle:tt profile = bytes($mean:expr) $(, $($rest:tt)*)?) => {
        $crate::__install_profile!($allocator $done $idle ($crate::__private::mean_in_range($mean)) $($($rest)*)?);
    };
    ($allocator:tt $done:tt $idle:tt profile = $size:literal $(, $($rest:tt)*)?) => {
        $crate::__install_profile!($allocator $done $idle ($crate::__private::mean_of(::core::concat!($size))) $($($rest)*)?);
    };
    ($allocator:tt [$($done:tt)*] $idle:tt $key:ident = auto $(, $($rest:tt)*)?) => {
        $crate::__install!($allocator [$($done)* ($crate::__private::setting_names::$key, $crate::__private::Value::Auto),] $idle $($($rest)*)?);
    };
    ($allocator:tt [$($done:tt)*] $idle:tt $key:ident = per_cpu($ratio:literal) $(, $($rest:tt)*)?) => {
        $crate::__install!(
            $allocator [$($done)* ($crate::__private::setting_names::$key, $crate::__private::Value::PerCpu($ratio)),] $idle $($($rest)*)?
        );
    };
    ($allocator:tt [$($done:tt)*] $idle:tt $key:ident = $value:literal $(, $($rest:tt)*)?) => {
        $crate::__install!(
            $allocator [$($done)* ($crate::__private::setting_names::$key, $crate::__private::Value::Text(::core::concat!($value))),] $idle $($($rest)*)?
        );
    };
    ({$by:ident $type:ty, $value:expr, $($control:tt)*} $done:tt $idle:tt) => {
        const _: () = {
            #[global_allocator]
            static __ALLOCANARY_GLOBAL: $type = $value;
            $crate::__boot!({$($control)*} ($done $idle));
        };
    };
    ($allocator:tt $done:tt $idle:tt $($rest:tt)+) => {
        ::core::compile_error!(::core::concat!(
            "install!: `", ::core::stringify!($($rest)+), "`: wanted `name = value`; a value is a number, true, false, a text in \
             quotes, `auto` or `per_cpu(n)`; `tuned` comes first; then `threads_give_back`, `give_back_every_ms`, `memory_budget`, `profile`, and last `wrap`"
        ));
    };
}

/// The allocator's type in a program with a budget. It counts what threads allocate, if the allocator does not report it.
#[doc(hidden)]
#[macro_export]
macro_rules! __install_budget {
    ({counted $type:ty, $value:expr, $($control:tt)*} $done:tt ($before:expr; $($idle:tt)*) ($text:expr) $($rest:tt)*) => {
        $crate::__install!(
            {direct $crate::__private::Counted<$type>, $crate::__private::Counted::new($value), $($control)*}
            $done (::core::option::Option::Some($crate::__private::BudgetSpec::of($text)); $($idle)*) $($rest)*
        );
    };
    ($allocator:tt $done:tt ($before:expr; $($idle:tt)*) ($text:expr) $($rest:tt)*) => {
        $crate::__install!(
            $allocator $done (::core::option::Option::Some($crate::__private::BudgetSpec::of($text)); $($idle)*) $($rest)*
        );
    };
}

/// The allocator's type in a program with a profile: it samples. It exists only with the feature `profile`.
#[cfg(feature = "profile")]
#[doc(hidden)]
#[macro_export]
macro_rules! __install_profile {
    (
        {$by:ident $type:ty, $value:expr, $($control:tt)*} $done:tt ($budget:expr; ::core::option::Option::None; $($idle:tt)*) ($mean:expr)
        $($rest:tt)*
    ) => {
        $crate::__install!(
            {$by $crate::__private::Profiled<$type>, $crate::__private::Profiled::new($value), $($control)*}
            $done ($budget; ::core::option::Option::Some($crate::__private::boot_profile::<{ $mean }>); $($idle)*) $($rest)*
        );
    };
    // Two profiles would each take samples, so that a block would be counted twice.
    ($($all:tt)*) => {
        ::core::compile_error!("install!: `profile` is there twice: leave one out");
    };
}
#[cfg(not(feature = "profile"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __install_profile {
    ($($all:tt)*) => {
        ::core::compile_error!("install!: `profile` needs the feature `profile` of the crate allocanary");
    };
}

/// Parses the text after `wrap =`: the wrapper's path, segment by segment into the brackets, then its call and its name. The parentheses
/// contain the leading `::` of a path, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __install_wrapped {
    ($allocator:tt $done:tt ($($lead:tt)*) [$($path:tt)*] $segment:ident :: $($rest:tt)*) => {
        $crate::__install_wrapped!($allocator $done ($($lead)*) [$($path)* $segment] $($rest)*);
    };
    // `Leaks::sampling(n)` is `Leaks::new(allocator).sampling(n)`.
    ({$by:ident $type:ty, $value:expr, $($control:tt)*} $done:tt ($($lead:tt)*) [$($path:ident)+] $method:ident ($($argument:expr),* $(,)?) as $name:ident
        $(, $($more:tt)*)?) => {
        /// The global allocator of this binary.
        #[global_allocator]
        static $name: $($lead)* $($path)::+<$type> = $($lead)* $($path)::+::new($value).$method($($argument),*);
        $crate::__install_wrapped!(@boot {$($control)*} $done $($($more)*)?);
    };
    ({$by:ident $type:ty, $value:expr, $($control:tt)*} $done:tt ($($lead:tt)*) [$($path:ident)*] $last:ident as $name:ident $(, $($more:tt)*)?) => {
        /// The global allocator of this binary.
        #[global_allocator]
        static $name: $($lead)* $($path ::)* $last<$type> = $($lead)* $($path ::)* $last::new($value);
        $crate::__install_wrapped!(@boot {$($control)*} $done $($($more)*)?);
    };
    ({$by:ident $type:ty, $value:expr, $($control:tt)*} $done:tt ($($lead:tt)*) [$($path:ident)+] $method:ident ($($argument:expr),* $(,)?)
        $(, $($more:tt)*)?) => {
        const _: () = {
            #[global_allocator]
            static __ALLOCANARY_GLOBAL: $($lead)* $($path)::+<$type> = $($lead)* $($path)::+::new($value).$method($($argument),*);
        };
        $crate::__install_wrapped!(@boot {$($control)*} $done $($($more)*)?);
    };
    ({$by:ident $type:ty, $value:expr, $($control:tt)*} $done:tt ($($lead:tt)*) [$($path:ident)*] $last:ident $(, $($more:tt)*)?) => {
        const _: () = {
            #[global_allocator]
            static __ALLOCANARY_GLOBAL: $($lead)* $($path ::)* $last<$type> = $($lead)* $($path ::)* $last::new($value);
        };
        $crate::__install_wrapped!(@boot {$($control)*} $done $($($more)*)?);
    };
    (@boot $control:tt $done:tt) => {
        const _: () = {
            $crate::__boot!($control $done);
        };
    };
    (@boot $control:tt $done:tt $($more:tt)+) => {
        ::core::compile_error!("install!: `wrap = ...` comes last: move the settings before it");
    };
}

/// Declares the installation, and the hook that applies it before the first allocation.
#[doc(hidden)]
#[macro_export]
macro_rules! __boot {
    ({$control:expr, $table:expr, $tuned:expr, $conf:expr} ([$($done:tt)*] ($budget:expr; $profile:expr; $idle:expr))) => {
        const REQUESTED: &[(&::core::primitive::str, $crate::__private::Value)] = &[$($done)*];
        const SETTINGS: &[(&::core::primitive::str, $crate::__private::Value)] =
            &$crate::__private::checked::<{ $crate::__private::count(REQUESTED, $tuned) }>(REQUESTED, $table, $tuned);
        static INSTALLATION: $crate::__private::Installation = $crate::__private::Installation {
            allocator: &$control,
            request: $crate::__private::InstallSettings { settings: SETTINGS, conf: $conf },
            idle: const { $idle },
            budget: const { $budget },
            profile: $profile,
        };

        extern "C" fn boot() {
            $crate::__private::boot(&INSTALLATION);
        }
        // Runs before the constructors without a priority (jemalloc's, mimalloc's) and before Rust's own (99).
        // `.preinit_array` would run even earlier, but a shared object cannot have one.
        #[used]
        #[unsafe(link_section = ".init_array.00090")]
        static BOOT: extern "C" fn() = boot;
    };
}

/// The allocator that the features choose. `system-alloc` takes precedence over `mimalloc-alloc`, and both over
/// `jemalloc-alloc`.
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

/// The name of the allocator that the features choose, by the same precedence as `__install_chosen`.
pub const CHOSEN: &str = match (cfg!(feature = "system-alloc"), cfg!(feature = "mimalloc-alloc")) {
    (true, _) => system::NAME,
    (false, true) => mimalloc::NAME,
    (false, false) if cfg!(feature = "jemalloc-alloc") => jemalloc::NAME,
    _ => system::NAME,
};

/// What a binary's `install!` declares.
pub struct Installation {
    /// The allocator.
    pub allocator: &'static dyn Allocator,
    /// The settings that are requested.
    pub request: InstallSettings,
    /// What threads do before they wait.
    pub idle: crate::idle::Policy,
    /// The memory budget, if one is requested.
    pub budget: Option<crate::budget::BudgetSpec>,
    /// Turns the profile on, if one is requested. It is a pointer, so that a program without a profile does not contain the code.
    pub profile: Option<fn()>,
}

/// The installation of this binary, set by its hook. It is a pointer and no `OnceLock`: the lock's code would add 64 KiB of the file to
/// memory at start, and another thread could own the lock when the process forks.
static INSTALLATION: AtomicPtr<Installation> = AtomicPtr::new(std::ptr::null_mut());

/// The installation of this binary; `None` if the binary has none, or if its hook has not run.
pub(crate) fn installation() -> Option<&'static Installation> {
    let installation = INSTALLATION.load(Ordering::Acquire);
    // SAFETY: null, or the static value that `boot` stored.
    unsafe { installation.as_ref() }
}

/// The allocator that this binary installed; `None` without an `install!`.
pub fn installed() -> Option<&'static dyn Allocator> {
    installation().map(|installation| installation.allocator)
}

/// Takes an installation. The hook calls it before any code of the program. It allocates nothing.
///
/// This function is inlined, with everything that it always calls, into the binary that installs. The code is then next to `main`, so that
/// the process does not map another 64 KiB of its file.
#[inline]
pub fn boot(installation: &'static Installation) {
    let (none, this) = (std::ptr::null_mut(), std::ptr::from_ref(installation).cast_mut());
    if INSTALLATION.compare_exchange(none, this, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        let Installation { allocator, request, .. } = installation;
        if !request.settings.is_empty() {
            NoticeWriter::begin("install", allocator.name()).settings(request.settings, allocator.per_core().as_ref());
        }
        allocator.boot(request);
        crate::idle::boot(installation.idle);
        if let Some(budget) = installation.budget {
            budget.boot(*allocator);
        }
        if let Some(turn_on) = installation.profile {
            turn_on();
        }
    }
}
