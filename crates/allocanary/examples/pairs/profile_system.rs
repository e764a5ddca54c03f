//! Pairs of allocate and free with system, with a profile that samples.

allocanary::install!(system, profile = "512KiB");

include!("body.rs");
