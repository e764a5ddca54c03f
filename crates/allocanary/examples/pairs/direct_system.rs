//! Pairs of allocate and free with system as its crate declares it. `install!` is compared with this.

#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

include!("body.rs");
