//! Records the most resident memory of a child before it calls exec, in a word that parent and child share.
//!
//! Linux keeps the maximum of resident memory when a process calls exec: the `ru_maxrss` of a program of 1.5 MiB is then that of the forked
//! child. Only a value above the child's maximum comes from the program itself.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A word in a page that a fork does not copy.
pub struct Carried(NonNull<AtomicU64>);

// SAFETY: the page is this value's alone until it is dropped, and it is only used as an atomic.
unsafe impl Send for Carried {}
// SAFETY: as above.
unsafe impl Sync for Carried {}

impl Carried {
    /// Maps the page of the word.
    pub fn new() -> std::io::Result<Carried> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: maps a new page, which nothing else knows.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<AtomicU64>(), access, flags, -1, 0) };
        match NonNull::new(page.cast::<AtomicU64>()) {
            Some(page) if page.as_ptr().cast() != libc::MAP_FAILED => Ok(Carried(page)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the page is aligned, zeroed or written by this value alone, and stays until it is dropped.
        unsafe { self.0.as_ref() }
    }

    /// Stores the most resident memory of the calling process. It makes only system calls and a store, so it may be called between fork and
    /// exec.
    pub fn write(&self) {
        self.word().store(super::usage().most_rss, Ordering::Relaxed);
    }

    /// The written value, in bytes; `None` if nothing was written yet.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.word().load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `new` with this length, and nobody has a reference to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_child_tells_its_parent() {
        let carried = Arc::new(Carried::new().unwrap());
        assert_eq!(carried.bytes(), None);
        let childs = carried.clone();
        let mut command = Command::new("true");
        // SAFETY: a system call and a store.
        unsafe {
            command.pre_exec(move || {
                childs.write();
                Ok(())
            })
        };
        command.status().unwrap();
        let bytes = carried.bytes().unwrap();
        assert!((1 << 16..=super::super::usage().most_rss).contains(&bytes), "{bytes}");
    }
}
