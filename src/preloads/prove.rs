//! `preload-prove`: the library that reads back the settings of an allocator that is not ours. `LD_PRELOAD` names it before the
//! allocator's library.

#![cfg_attr(shared_object, no_main)]

#[cfg(not(shared_object))]
fn main() -> std::process::ExitCode {
    eprintln!("preload-prove: not in this build: a preload needs glibc, dynamically linked, on x86-64 or aarch64");
    std::process::ExitCode::from(2)
}

#[cfg(shared_object)]
allocanary_preload::prove!(build = allocanary_revision::BUILD);
