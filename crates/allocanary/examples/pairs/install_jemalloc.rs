//! Pairs of allocate and free with jemalloc as `install!` declares it.

allocanary::install!(jemalloc);

include!("body.rs");
