//! PostgreSQL: a session's process keeps memory contexts and caches of the catalogue until it ends.

use allocanary_kernel::units::Bytes;

use super::{Runtime, is_program};
use crate::remedies::{Gives, Line, Remedy, Subject, Who};

pub(super) const RUNTIME: Runtime = Runtime { is_here: |process| is_program(process, "postgres"), remedies };

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    let bytes = subject.reading.kernel.anonymous;
    if !subject.matters(bytes) {
        return;
    }
    let pid = subject.reading.process.pid;
    all.push(Remedy {
        id: "end-session".into(),
        what: "end this session, or all that are idle for long".into(),
        who: Who::OperatorNow,
        gives: Gives::Bound { bytes },
        evidence: format!(
            "{} are its own; the rest is shared or of files. `SELECT pg_log_backend_memory_contexts({pid})` (14 or later) says what they are.",
            Bytes(bytes)
        ),
        price: "the client connects again, and its caches are empty".into(),
        lines: vec![
            Line::new("SQL", format!("SELECT pg_terminate_backend({pid});")),
            Line::new("postgresql.conf", "idle_session_timeout = '10min'   # 14 or later"),
        ],
    });
}
