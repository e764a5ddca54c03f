//! A preload that is started as a program. In: nothing. Out: what it is, on standard output.

use crate::raw;

/// Says what the file is and how it is used, and ends the process. Called by the entry point of `preload!`, in a process
/// in which no constructor of this library has run.
pub fn say(name: &str) -> ! {
    let say = |text: &str| {
        // SAFETY: the bytes are as many as we say.
        unsafe { raw::call(libc::SYS_write, [1, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
    };
    for text in [
        "preload-",
        name,
        ": a library of allocanary with the allocator `",
        name,
        "`, for programs that are dynamically linked with glibc:\n\n    LD_PRELOAD=/path/to/preload-",
        name,
        " PROGRAM\n\n`allocanary preload ",
        name,
        "` prints its path, and the lines for Dockerfile, Kubernetes and systemd.\n",
    ] {
        say(text);
    }
    raw::exit(0)
}
