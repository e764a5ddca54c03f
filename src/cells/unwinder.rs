//! Links the unwinder that Rust's standard library needs into the cell. As a separate library, `libgcc_s.so.1`, it took
//! 100 KiB of each cell's resident memory before the first line of `main`. This link was tried with lld and with GNU
//! ld.

#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_env = "gnu",
    not(target_feature = "crt-static")
))]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {}
