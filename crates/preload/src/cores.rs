//! The number of processors that the program sees: `ALLOCANARY_CORES=40`. In: the variable. Out: the answers of
//! sched_getaffinity, sysconf and get_nprocs, to the program and to the allocator inside.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::raw;
use crate::real::Real;

/// The variable's name.
pub const VARIABLE: &std::ffi::CStr = c"ALLOCANARY_CORES";

/// The number of CPUs in the largest mask of `sys::affinity`.
const MOST: u32 = 8192;

/// The number that the program sees; 0 if it sees the host's own.
static CORES: AtomicU32 = AtomicU32::new(0);

/// Sets the number from the variable's text. The error says what was wanted.
pub(crate) fn set(text: &[u8]) -> Result<(), &'static str> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    match number.filter(|number| (1..=MOST).contains(number)) {
        Some(number) => {
            CORES.store(number, Ordering::Relaxed);
            Ok(())
        }
        None => Err("wanted a whole number from 1 to 8192"),
    }
}

/// The number of processors that the program sees; `None` if it sees the host's own.
#[inline]
pub(crate) fn emulated() -> Option<u32> {
    Some(CORES.load(Ordering::Relaxed)).filter(|cores| *cores > 0)
}

unsafe extern "C" {
    /// glibc's own second name of sysconf.
    #[link_name = "__sysconf"]
    fn real_sysconf(name: c_int) -> c_long;
}

/// The kernel's sched_getaffinity: the number of bytes written, or a negative `errno`.
///
/// # Safety
///
/// `mask` has `size` bytes.
pub(crate) unsafe fn affinity(pid: i32, size: usize, mask: *mut c_void) -> isize {
    let Some(cores) = emulated() else {
        // SAFETY: the caller's promise.
        return unsafe { raw::call(libc::SYS_sched_getaffinity, [pid as usize, size, mask as usize, 0, 0, 0]) };
    };
    let bytes = (cores as usize).div_ceil(64) * 8;
    if size < bytes || !size.is_multiple_of(8) {
        return -libc::EINVAL as isize;
    }
    for at in 0..bytes {
        let left = (cores as usize).saturating_sub(at * 8).min(8);
        // SAFETY: within the size.
        unsafe { mask.cast::<u8>().add(at).write(((1_u16 << left) - 1) as u8) };
    }
    bytes as isize
}

/// C's `sched_getaffinity`: like the kernel's, but with zeros in the rest of the mask.
///
/// # Safety
///
/// `mask` has `size` bytes.
#[inline]
pub unsafe fn sched_getaffinity(pid: i32, size: usize, mask: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let written = affinity(pid, size.min(c_int::MAX as usize), mask);
        if written < 0 {
            return raw::c_answer(written) as c_int;
        }
        mask.cast::<u8>().add(written as usize).write_bytes(0, size - written as usize);
    }
    0
}

/// C's `pthread_getaffinity_np`, which returns the error number.
///
/// # Safety
///
/// `mask` has `size` bytes; `thread` lives.
#[inline]
pub unsafe fn pthread_getaffinity(thread: libc::pthread_t, size: usize, mask: *mut c_void) -> c_int {
    if emulated().is_none() {
        static REAL: Real = Real::new(c"pthread_getaffinity_np");
        type Function = unsafe extern "C" fn(libc::pthread_t, usize, *mut c_void) -> c_int;
        // SAFETY: the next library's function has that type, and the caller promises the rest.
        return unsafe { REAL.function().map_or(libc::ENOSYS, |real: Function| real(thread, size, mask)) };
    }
    // SAFETY: the caller's promise.
    match unsafe { affinity(0, size, mask) } {
        error if error < 0 => -error as c_int,
        // SAFETY: within the size.
        written => unsafe {
            mask.cast::<u8>().add(written as usize).write_bytes(0, size - written as usize);
            0
        },
    }
}

/// C's `sysconf`.
#[inline]
pub fn sysconf(name: c_int) -> c_long {
    if matches!(name, libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF)
        && let Some(cores) = emulated()
    {
        return c_long::from(cores);
    }
    // SAFETY: the function takes and returns a number.
    unsafe { real_sysconf(name) }
}

/// sysconf's name of the processors that are online.
pub const ONLINE: c_int = libc::_SC_NPROCESSORS_ONLN;
/// sysconf's name of all processors.
pub const CONFIGURED: c_int = libc::_SC_NPROCESSORS_CONF;
