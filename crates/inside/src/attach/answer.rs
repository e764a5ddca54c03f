//! Puts the answer of a recorder in a process into words: why it did nothing, and what to do instead.

use allocanary_trace::request::{Reply, STATE_ATTACHED};

const FROM_START: &str = "Record it from its start: `allocanary record -- PROGRAM`";

/// The reason and the advice; `None` if the recorder has done what it was asked.
pub fn problem(reply: &Reply) -> Option<(String, &'static str)> {
    let error = std::io::Error::from_raw_os_error(reply.error);
    Some(match reply.step {
        0 => return None,
        1 => ("no module of it has `malloc`".into(), FROM_START),
        2 => (
            "its allocator is linked into the program: its calls go through no table".into(),
            "A Rust program can record itself: `install!(..., wrap = Recording)`",
        ),
        3 => ("two of its libraries share the functions of the allocator".into(), FROM_START),
        4 => (
            format!("the recorder could not make its file: {error}"),
            "Name a folder in which the process may make a file",
        ),
        5 => (format!("its tables could not be changed: {error}"), FROM_START),
        7 => ("it was started with the recorder".into(), "It records already"),
        _ if reply.state == STATE_ATTACHED => (
            "a recorder was put into it already, and records".into(),
            "Wait until that ends, or end it: `allocanary record --detach PID`",
        ),
        _ => ("the recorder in it does not record".into(), "There is nothing to end"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_reason() {
        let of =
            |step, error, state| problem(&Reply { step, error, state, ..Reply::default() }).map(|(state, _)| state);
        assert_eq!(of(0, 0, 1), None);
        assert!(of(4, libc::ENOSPC, 0).unwrap().contains("No space left"));
        assert!(of(6, 0, STATE_ATTACHED).unwrap().contains("put into it already"));
        assert!(of(6, 0, 2).unwrap().contains("does not record"));
        assert!(of(2, 0, 0).unwrap().contains("linked into the program"));
    }
}
