//! Why a program could not be started, or was killed. In: the system's error, the control group's limit. Out: the limit or
//! the file that caused it, and advice.

use std::io::Error;
use std::path::Path;

use allocanary_rows::error::with_limit;
use allocanary_text::units::Unit;

/// The system's error, and what it means for `program`.
pub fn cause(error: &Error, program: &Path) -> String {
    let meaning = match error.raw_os_error() {
        Some(libc::ENOENT) if !program.exists() => "the cell was removed or moved: build or install it again",
        Some(libc::ENOENT) => "the cell is there, and the loader or interpreter that it names is not",
        _ => return with_limit(error),
    };
    format!("{error}: {meaning}")
}

/// Explains why the kernel killed a process for memory, in a control group with this limit in bytes. The kernel also kills if the whole
/// machine has no memory left, with or without a limit.
pub fn killed_for_memory(limit: Option<u64>) -> String {
    let why = match limit {
        Some(limit) => format!("it needs more than the control group's limit of {}", Unit::Bytes.show(limit as f64)),
        None => {
            "the machine had no more, and the control group has no limit: stop other work, or take a smaller job".into()
        }
    };
    format!("killed by the kernel for memory: {why}")
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
        assert!(said(libc::ENFILE, folder.path()).contains("the machine's limit of open files is reached"));
        assert_eq!(said(libc::EACCES, folder.path()), "Permission denied (os error 13)");
    }

    #[test]
    fn a_limit_is_named_only_if_there_is_one() {
        assert!(
            killed_for_memory(Some(96 << 20)).ends_with("it needs more than the control group's limit of 96.0 MiB")
        );
        let machine = killed_for_memory(None);
        assert!(machine.contains("the machine had no more") && !machine.contains("limit of"), "{machine}");
    }
}
