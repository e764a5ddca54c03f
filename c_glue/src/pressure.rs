//! The memory budget, for C. In: a function of the program. Out: a code. The budget calls the function for each new level.
//!
//! A budget is off in this library by default. `ALLOCANARY_MEMORY_BUDGET=container` or `=1GiB` turns it on before the first
//! allocation.

use std::ffi::c_void;

use allocanary::tuning::{self, Level};

use crate::border::{AllocanaryCode, guard, null, tuned};

/// How near the process is to its memory limit, after the allocator gave back what it keeps.
#[repr(C)]
pub enum AllocanaryLevel {
    /// Nothing is to be done.
    Calm = 0,
    /// 80 % of the limit are in use.
    High = 1,
    /// 90 % are in use.
    Severe = 2,
    /// 95 % are in use: the program itself must free memory.
    Last = 3,
}

/// The program's pointer, which this library only passes on.
#[derive(Clone, Copy)]
struct Data(*mut c_void);

// SAFETY: the pointer is never followed here. The header says that the function may be called in any thread.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    /// The method takes `self` by value, so that a closure captures the whole value and not only the pointer in it.
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// Calls `callback` with each new level (an `AllocanaryLevel`) of the memory budget, and with `data`. A later call replaces both.
/// The code is `ALLOCANARY_CODE_UNSUPPORTED` if no budget is on. `ALLOCANARY_MEMORY_BUDGET=container`, or a size such as `1GiB`, in the
/// environment turns it on.
///
/// `callback` is called in a thread that allocates, before the allocation is made, and perhaps in two threads at once. It may allocate and
/// free. Its allocations cause no further call in this thread. It must not wait for a lock that a thread may hold while it allocates. It
/// must not throw, and must not leave by longjmp.
///
/// # Safety
///
/// `callback` may be called with `data` in any thread for as long as the process lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_on_pressure(
    callback: Option<unsafe extern "C" fn(level: i32, data: *mut c_void)>,
    data: *mut c_void,
) -> AllocanaryCode {
    guard(|| {
        let Some(callback) = callback else { return null("callback") };
        let data = Data(data);
        // SAFETY: the caller promises it.
        tuned(tuning::on_pressure(move |level| unsafe { callback(number(level), data.pointer()) }))
    })
}

/// The number of a level in the header. A level that only a later version of the library has counts as the level below `Last`.
fn number(level: Level) -> i32 {
    let level = match level {
        Level::Calm => AllocanaryLevel::Calm,
        Level::High => AllocanaryLevel::High,
        Level::Last => AllocanaryLevel::Last,
        _ => AllocanaryLevel::Severe,
    };
    level as i32
}
