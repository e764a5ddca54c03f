//! For platforms on which a preload cannot be built: a program that says so.

/// A `main` that says why there is no preload.
#[macro_export]
macro_rules! preload {
    ($allocator:ident, build = $build:expr) => {
        fn main() -> ::std::process::ExitCode {
            ::std::eprintln!(
                "preload-{}: not in this build: a preload needs glibc, dynamically linked, on x86-64 or aarch64; for another C \
                 library link the allocator into the program (`allocanary::install!`)",
                ::core::stringify!($allocator)
            );
            ::std::process::ExitCode::from(2)
        }
    };
}
