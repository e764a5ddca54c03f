//! Bare system calls, for code that runs before the C library is set up, or that must not change the C library's state.
//! In: a number and its arguments. Out: the kernel's answer.

use std::ffi::CStr;

use allocanary_sys::sys::{longest_file, without_write_signals};

/// A system call. The answer is a value, or a negative `errno`.
///
/// # Safety
///
/// The arguments are what the kernel's call asks for.
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the caller's promise; the kernel changes the answer's register and, on x86-64, rcx and r11.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number as isize,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    answer
}

/// The result of a system call in the form of C's functions: -1, and `errno`.
pub fn c_answer(answer: isize) -> libc::c_long {
    if (-4095..0).contains(&answer) {
        set_errno(-answer as i32);
        return -1;
    }
    answer as libc::c_long
}

/// Sets the calling thread's `errno`.
pub fn set_errno(errno: i32) {
    // SAFETY: the C library's place for this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: the C library's place for this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// This process's id.
pub fn pid() -> i32 {
    // SAFETY: the call takes no argument.
    unsafe { call(libc::SYS_getpid, [0; 6]) as i32 }
}

/// Appends `bytes` by one write to the file at `path`. Makes the file, for this user only, if there is none. Returns whether it
/// worked. The file is not changed if the limit of a file's length (`ulimit -f`) leaves too little room.
pub fn append(path: &CStr, bytes: &[u8]) -> bool {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends in NUL, and the bytes are as many as we say.
    unsafe {
        let file = call(libc::SYS_openat, [here, path.as_ptr() as usize, flags as usize, 0o600, 0, 0]);
        let Ok(file) = usize::try_from(file) else { return false };
        // Without this check, the kernel would write a part of a line, or kill the program. A file without a length, such as a pipe,
        // has no limit.
        let length = call(libc::SYS_lseek, [file, 0, libc::SEEK_END as usize, 0, 0, 0]);
        let fits = u64::try_from(length).is_ok_and(|length| length.saturating_add(bytes.len() as u64) <= longest_file());
        let written = match fits || length < 0 {
            true => write(file, bytes),
            false => -libc::EFBIG as isize,
        };
        call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
        written == bytes.len() as isize
    }
}

/// Writes to standard error.
pub fn complain(bytes: &[u8]) {
    write(2, bytes);
}

/// Writes to a descriptor. The program did not ask for the write, so no signal about it (SIGXFSZ, SIGPIPE) reaches the program.
fn write(file: usize, bytes: &[u8]) -> isize {
    // SAFETY: the bytes are as many as we say.
    without_write_signals(|| unsafe { call(libc::SYS_write, [file, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) })
}

/// Ends the process without the C library's work at exit.
pub fn exit(code: i32) -> ! {
    loop {
        // SAFETY: the call takes a number and does not return.
        unsafe { call(libc::SYS_exit_group, [code as usize, 0, 0, 0, 0, 0]) };
    }
}
