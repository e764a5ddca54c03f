//! Opens the mapped files of one process, each only once. While the process is stopped, only files that are already open are used, and only
//! on file systems that answer at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use crate::file::Opened;
use crate::get::file_of;
use crate::what::BrokerRequest;

/// The most files of one process that are kept open.
const MOST: usize = 512;

/// The addresses of a mapping, and the inode of its file.
type Key = (u64, u64, u64);

/// The files of a process.
#[derive(Debug)]
pub struct ProcessFiles {
    pid: u32,
    /// The files that were requested; `None` for one that could not be opened.
    open: RefCell<BTreeMap<Key, Option<Rc<Opened>>>>,
    is_stopped: Cell<bool>,
}

impl ProcessFiles {
    /// The files of a process. No file is open yet.
    pub fn of(pid: u32) -> ProcessFiles {
        ProcessFiles { pid, open: RefCell::default(), is_stopped: Cell::new(false) }
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file of the mapping with these addresses and this inode.
    pub fn get(&self, from: u64, to: u64, inode: u64) -> io::Result<Rc<Opened>> {
        let key = (from, to, inode);
        let known = self.open.borrow().get(&key).cloned();
        let may = |opened: &Rc<Opened>| !self.is_stopped.get() || opened.stamp.is_quick;
        let refused = || io::Error::other("its file was not opened before the process was stopped, or cannot be read");
        match known {
            Some(known) => known.filter(may).ok_or_else(refused),
            None if self.is_stopped.get() => Err(refused()),
            None => {
                let opened = file_of(&BrokerRequest::Mapped(self.pid, from, to)).map(Rc::new);
                let mut open = self.open.borrow_mut();
                if open.len() >= MOST {
                    open.clear();
                }
                open.insert(key, opened.as_ref().ok().cloned());
                opened
            }
        }
    }

    /// From now on no file is opened, because the process is stopped.
    pub fn stop(&self) {
        self.is_stopped.set(true);
    }

    /// The process runs again.
    pub fn go_on(&self) {
        self.is_stopped.set(false);
    }

    /// Whether a file is open whose file system may not answer.
    pub fn has_slow(&self) -> bool {
        self.open.borrow().values().flatten().any(|opened| !opened.stamp.is_quick)
    }
}
