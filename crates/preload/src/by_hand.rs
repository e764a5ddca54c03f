//! A preload that is started as a program: it describes itself on standard output.

use crate::raw;

/// Prints what the file is and how it is used, and ends the process. Called by the entry point of `preload!`, in a
/// process in which no constructor of this library has run.
pub fn say(name: &str) -> ! {
    say_parts(&[
        "preload-",
        name,
        ": a library of allocanary with the allocator `",
        name,
        "`, for programs that are dynamically linked with glibc:\n\n    LD_PRELOAD=/path/to/preload-",
        name,
        " PROGRAM\n\n`allocanary preload ",
        name,
        "` prints its path, and the lines for Dockerfile, Kubernetes and systemd.\n",
    ])
}

/// Writes the parts of a text to standard output, and ends the process.
pub fn say_parts(parts: &[&str]) -> ! {
    for part in parts {
        // SAFETY: the bytes are as many as we say.
        unsafe { raw::call(libc::SYS_write, [1, part.as_ptr() as usize, part.len(), 0, 0, 0]) };
    }
    raw::exit(0)
}
