//! Why a program could not be started. In: the system's error. Out: the limit or the file that caused it, and advice.

use std::io::Error;
use std::path::Path;

/// The system's error, and what it means for `program`.
pub fn cause(error: &Error, program: &Path) -> String {
    let meaning = match error.raw_os_error() {
        Some(libc::EMFILE) => "the limit of open files is reached: raise `ulimit -n`",
        Some(libc::ENFILE) => "the machine's limit of open files is reached: raise the sysctl fs.file-max",
        Some(libc::EAGAIN) => {
            "the limit of processes and threads is reached: raise `ulimit -u`, or the container's limit of pids"
        }
        Some(libc::ENOENT) if !program.exists() => "the cell was removed or moved: build or install it again",
        Some(libc::ENOENT) => "the cell is there, and the loader or interpreter that it names is not",
        _ => return error.to_string(),
    };
    format!("{error}: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_cause_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |number, path: &Path| cause(&Error::from_raw_os_error(number), path);
        assert!(said(libc::ENOENT, &folder.path().join("gone")).contains("the cell was removed"));
        assert!(said(libc::ENOENT, folder.path()).contains("interpreter"));
        assert_eq!(said(libc::EACCES, folder.path()), "Permission denied (os error 13)");
    }
}
