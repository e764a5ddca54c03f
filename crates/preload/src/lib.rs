//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! The libraries that are preloaded into other programs (`LD_PRELOAD`), each with one allocator. The crate has their exported
//! functions. It reads their settings and proves that the settings took effect. In: the variables of the program. Out: the malloc
//! family, and a line for each process in the file that a variable names.
//!
//! # How it works
//!
//! A preload is a binary of the package `allocanary` that is linked as a shared object (see the package's `build.rs`). So `cargo
//! install` installs it next to the command. [`preload!`] in the binary's root makes all exported functions; this crate calls no
//! allocator's functions. The linker's flag `initfirst` makes the preload's constructor the first of the process: the constructors of
//! other libraries may allocate.
//!
//! Nothing here starts a thread. The constructor and the functions that write the proof allocate nothing.

// Functions return numbers and texts. A preload itself writes only single lines to standard error, by bare system calls.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

/// These items exist only with dynamically linked glibc, on these processors. Elsewhere a preload is a program that says that there is
/// none.
macro_rules! where_it_works {
    ($($item:item)*) => {
        $(
            #[cfg(all(
                target_env = "gnu",
                not(target_feature = "crt-static"),
                any(target_arch = "x86_64", target_arch = "aarch64")
            ))]
            $item
        )*
    };
}

where_it_works! {
    mod budget;
    pub mod by_hand;
    pub mod called;
    mod complain;
    pub mod cores;
    pub mod counted;
    pub mod end;
    mod exported;
    pub mod family;
    mod gave_back;
    mod handlers;
    mod line;
    pub mod locks;
    pub mod opened;
    pub mod proof;
    pub mod profiled;
    pub mod prove;
    pub mod raw;
    mod real;
    pub mod sandbox;
    pub mod start;
    pub mod this;
    pub mod waits;
}

pub mod settings;

#[cfg(not(all(
    target_env = "gnu",
    not(target_feature = "crt-static"),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod elsewhere;

/// Names for the code that [`preload!`] generates.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "jemalloc")]
    pub use allocanary::Jemalloc;
    #[cfg(feature = "mimalloc")]
    pub use allocanary::Mimalloc;
    pub use allocanary::{__private::Conf, System};
    pub use allocanary_facts as facts;
}
