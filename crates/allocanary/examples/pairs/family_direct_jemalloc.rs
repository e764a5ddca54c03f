//! Pairs of malloc and free by jemalloc's own functions. `preload-jemalloc` is compared with this.

use tikv_jemalloc_sys::{free, malloc};

include!("family.rs");
