//! The program of a trace. In: a trace. Out: its name.

use std::path::Path;

use allocanary_text::outside::harmless;
use allocanary_trace::reader::Trace;

/// The name by which the program was started. Debian's redis-server is a link to redis-check-rdb.
pub fn program(trace: &Trace) -> String {
    let started = trace.header.command.split_whitespace().next().unwrap_or(&trace.header.program);
    let name =
        Path::new(started).file_name().map_or_else(|| started.into(), |name| name.to_string_lossy().into_owned());
    harmless(&name).into_owned()
}
