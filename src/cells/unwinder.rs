//! The unwinder that Rust's standard library asks for, inside the cell. As a separate library, `libgcc_s.so.1`, it took
//! 100 KiB of each cell's resident memory before the first line of `main`. It is linked in this way where we tried it,
//! with lld and with GNU ld.

#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(target_feature = "crt-static")))]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {}
