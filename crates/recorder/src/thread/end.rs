//! The end of a thread, which a key of the C library reports. In: a thread's state. Out: its last event, and its chunk and state for other
//! threads.

use super::{BUSY, ENDED, Thread};
use crate::process::{KEY, begin};
use crate::tls::{self, ticks};
use crate::undisturbed::undisturbed;
use allocanary_trace::coder::Event;
use allocanary_trace::format::CHUNK_ALIGN;
use std::sync::atomic::Ordering::SeqCst;

/// Registers [`ended`] for the end of the thread.
pub(super) fn watch_end(this: *mut Thread) {
    // SAFETY: makes one key for the process; the destructor is ours.
    unsafe {
        let mut key = KEY.load(SeqCst);
        if key == 0 {
            let mut new: libc::pthread_key_t = 0;
            if libc::pthread_key_create(&mut new, Some(ended)) != 0 {
                return;
            }
            key = match KEY.compare_exchange(0, new + 1, SeqCst, SeqCst) {
                Ok(_) => new + 1,
                Err(other) => {
                    libc::pthread_key_delete(new);
                    other
                }
            };
        }
        libc::pthread_setspecific(key - 1, this.cast());
    }
}

/// Called when the thread ends. Destructors of other keys may free blocks later, so this function makes the C library call it again, four
/// times in all.
unsafe extern "C" fn ended(value: *mut libc::c_void) {
    let this: *mut Thread = value.cast();
    // SAFETY: the value is this thread's state, which is alive until the last call here.
    unsafe {
        (*this).ends += 1;
        if (*this).ends < 4 {
            libc::pthread_setspecific(KEY.load(SeqCst) - 1, value);
            return;
        }
        tls::set(ENDED);
        undisturbed(|| end(this));
    }
}

/// Writes the end of a thread, and gives back its chunk and its state.
unsafe fn end(this: *mut Thread) {
    // SAFETY: the state of the caller's thread, which uses it no more.
    unsafe {
        if Thread::is_of_ended(this) {
            let bytes = Thread::bytes(&*(*this).process);
            libc::munmap(this.cast(), bytes);
            return;
        }
        let Some(process) = begin::ready() else { return };
        let cursor = (*this).cursor;
        if cursor.addr() >= BUSY {
            // A signal handler left an event by a long jump, so that nobody knows how much of the event was written.
            if process.has_window() && !(*this).chunk.is_null() {
                process.close_chunk((*this).chunk, ticks());
            }
        } else if !cursor.is_null() {
            let passed = Thread::passed(this);
            let end = (*this).coder.put_other(cursor, Event::End, passed);
            // The chunk ends here. Another thread may get the rest.
            let used = ((end.addr() - (*this).chunk.addr()) + 1).next_multiple_of(CHUNK_ALIGN);
            if process.has_window() {
                process.end_chunk((*this).chunk, used, (*this).length, ticks());
            } else {
                process.keep_rest((*this).chunk, used, (*this).length);
            }
        }
        process.keep_thread(this.cast(), Thread::bytes(process));
    }
}
