//! The unwinder that Rust's standard library asks for, inside the cell. As a library of its own, `libgcc_s.so.1`, it was
//! 100 KiB of each cell's resident memory before the first line. Where it was tried, with lld and with GNU ld.

#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(target_feature = "crt-static")))]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {}
