//! Pairs of malloc and free by mimalloc's own functions. `preload-mimalloc` is compared with this.

use std::ffi::c_void;

unsafe extern "C" {
    #[link_name = "mi_malloc"]
    fn malloc(size: usize) -> *mut c_void;
    #[link_name = "mi_free"]
    fn free(block: *mut c_void);
}

// Links the allocator that has the functions above.
#[used]
static LINKED: mimalloc::MiMalloc = mimalloc::MiMalloc;

include!("family.rs");
