//! Pairs of malloc and free by jemalloc's own functions: what `preload-jemalloc` is compared with.

use tikv_jemalloc_sys::{free, malloc};

include!("family.rs");
