//! PostgreSQL: a session's process keeps memory contexts and caches of the catalogue until it ends.

use allocanary_text::units::OneDecimal;

use super::runtime::Runtime;
use crate::identity::file_name;
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::Subject;

/// The process of a session that is idle. Its title shows this. The server's own processes have other titles.
pub(super) const RUNTIME: Runtime = Runtime {
    is_here: |process| {
        let is_server = ["postgres", "postgresql"].contains(&file_name(&process.program));
        is_server && process.command.starts_with("postgres: ") && process.command.trim_end().ends_with(" idle")
    },
    remedies,
};

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    let bytes = subject.reading.kernel.anonymous;
    if !subject.matters(bytes) {
        return;
    }
    all.push(Remedy {
        check: None,
        id: "end-session".into(),
        what: "end sessions that are idle for long".into(),
        who: Who::OperatorNow,
        // A remedy that ends something never comes first, so its gain is given as unknown.
        gives: Gives::Unknown { find_out: format!("what is its own, {}, goes with a session", OneDecimal(bytes)) },
        evidence: "A session keeps memory contexts and caches until it ends. From PostgreSQL 14 `pg_log_backend_memory_contexts` says which."
            .into(),
        cost: "the client connects again, and its caches are empty".into(),
        lines: vec![
            PasteLine::new("postgresql.conf", "idle_session_timeout = '10min'   # from PostgreSQL 14"),
            PasteLine::new(
                "SQL",
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle' AND state_change < now() - interval '10min';",
            ),
        ],
    });
}
