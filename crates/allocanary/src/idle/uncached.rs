//! A thread without its cache, while it waits. In: how the allocator brings the cache back. Out: the cache is back.

use std::marker::PhantomData;

/// While this value lives, the calling thread may have no cache. A call that ends the thread's cache for a long wait
/// returns this value. Dropping it brings the cache back.
#[derive(Debug)]
#[must_use = "the thread's cache comes back when this is dropped"]
pub struct Uncached {
    restore: Option<fn()>,
    /// Makes the type not `Send`: the cache belongs to this thread.
    here: PhantomData<*const ()>,
}

impl Uncached {
    /// For a thread whose cache was not ended.
    pub const NOTHING: Uncached = Uncached { restore: None, here: PhantomData };

    /// For a thread whose cache was ended. `restore` brings it back.
    pub const fn until(restore: fn()) -> Self {
        Uncached { restore: Some(restore), here: PhantomData }
    }
}

impl Drop for Uncached {
    fn drop(&mut self) {
        if let Some(restore) = self.restore {
            restore();
        }
    }
}
