//! `preload-profile`: the library that samples another program's allocations, by `LD_PRELOAD`, for `allocanary who PID`. It passes
//! each call on to the program's allocator: that of the C library, of another preload, or of a library that the program links.

#![cfg_attr(shared_object, no_main)]

#[cfg(not(shared_object))]
fn main() -> std::process::ExitCode {
    eprintln!("preload-profile: not in this build: a preload needs glibc, dynamically linked, on x86-64 or aarch64");
    std::process::ExitCode::from(2)
}

#[cfg(shared_object)]
allocanary_preload::profile!();
