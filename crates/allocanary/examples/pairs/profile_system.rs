//! Pairs of allocate and free with system, sampled.

allocanary::install!(system, profile = "512KiB");

include!("body.rs");
