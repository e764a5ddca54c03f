//! Does work in a child that shares this process's memory.

use std::ffi::{c_int, c_void};

/// Does work in a child that shares this process's memory. The calling thread waits until the child ends, as with `vfork`.
pub fn in_vforked_child(work: impl FnMut()) {
    extern "C" fn begin<W: FnMut()>(work: *mut c_void) -> c_int {
        // SAFETY: `work` points to the closure below. The thread that owns it waits, so nothing else uses it.
        unsafe { (*work.cast::<W>())() };
        0
    }
    fn beginning<W: FnMut()>(_: &W) -> extern "C" fn(*mut c_void) -> c_int {
        begin::<W>
    }
    let mut work = work;
    let begin = beginning(&work);
    let mut stack = vec![0_u128; 16 << 10];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has its own stack. The stack and `work` outlive the child, because this thread waits until the child has ended.
    unsafe {
        let child = libc::clone(begin, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut work).cast());
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child's end");
    }
}
