//! Pairs of allocate and free with system as `install!` declares it.

allocanary::install!(system);

include!("body.rs");
