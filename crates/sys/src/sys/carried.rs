//! Records the most resident memory of a child before it calls exec, in a word that parent and child share.
//!
//! Linux keeps the maximum of resident memory when a process calls exec: the `ru_maxrss` of a program of 1.5 MiB is then that of the forked
//! child. Only a value above the child's maximum comes from the program itself.

use std::sync::atomic::{AtomicU64, Ordering};

use super::shared_page::SharedPage;

/// A word in a page that a fork does not copy.
pub struct Carried(SharedPage<AtomicU64>);

impl Carried {
    /// Maps the page of the word.
    pub fn new() -> std::io::Result<Carried> {
        // SAFETY: one atomic number, which may be 0.
        unsafe { SharedPage::new() }.map(Carried)
    }

    /// Stores the most resident memory of the calling process. It makes only system calls and a store, so it may be called between fork and
    /// exec.
    pub fn write(&self) {
        self.0.store(super::usage().most_rss, Ordering::Relaxed);
    }

    /// The written value, in bytes; `None` if nothing was written yet.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
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
