//! A thread without its cache, while it waits. In: an allocator that has taken the cache down. Out: the cache is back.

use std::marker::PhantomData;

/// While this exists, the calling thread may have no cache: what takes it down for a long wait returns this. Dropping it
/// brings the cache back.
#[derive(Debug)]
#[must_use = "the thread's cache comes back when this is dropped"]
pub struct Uncached {
    restore: Option<fn()>,
    /// Not `Send`: the cache is that of this thread.
    here: PhantomData<*const ()>,
}

impl Uncached {
    /// Nothing was taken down.
    pub const NOTHING: Uncached = Uncached { restore: None, here: PhantomData };

    /// The cache was taken down; `restore` brings it back.
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
