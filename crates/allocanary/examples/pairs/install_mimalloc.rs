//! Pairs of allocate and free with mimalloc as `install!` declares it.

allocanary::install!(mimalloc);

include!("body.rs");
