//! The traces of a recording: their folder, which of them count, and what is printed about them. In: a folder. Out: lines on the terminal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::terminal;
use allocanary_text::units::{Unit, show_duration};
use allocanary_trace::format::TraceHeader;
use allocanary_trace::reader::Trace;
use allocanary_trace::record::TraceFiles;
use allocanary_trace::stacks::NoRoom;

/// A folder that does not exist yet: `allocanary-out/record-1` and so on.
pub(super) fn fresh_folder() -> PathBuf {
    let numbered = (1..).map(|number| Path::new("allocanary-out").join(format!("record-{number}")));
    numbered.into_iter().find(|folder| !folder.exists()).expect("numbers do not end")
}

/// The traces, without those that another user may have put there. Those are printed.
pub(super) fn traces_of(made: TraceFiles) -> Vec<(PathBuf, TraceHeader)> {
    for path in &made.of_others {
        terminal::tell(format_args!(
            "{}: it belongs to another user, who was not recorded: left as it is",
            path.display()
        ));
    }
    made.traces
}

/// Prints what was recorded.
pub(super) fn tell(made: &[(PathBuf, TraceHeader)]) {
    for (path, header) in made {
        let span = show_duration(span(header));
        // A packed file is smaller than the header says.
        let size = std::fs::metadata(path).map_or(header.used, |meta| meta.len());
        let (size, resident) = (Unit::Bytes.show(size as f64), Unit::Bytes.show(header.most_resident as f64));
        let why = if header.state.is_early() { format!(" ({})", header.state.words()) } else { String::new() };
        let (file, path, command) = (path, path.display(), brief(&header.command));
        terminal::tell(format_args!("{path}: {size}, {span}, up to {resident} resident: {command}{why}"));
        if header.no_room > 0 {
            let stacks = Unit::Count.show(header.no_room as f64);
            terminal::tell(format_args!("{path}: {stacks} stacks had no room: {}", lacks(file, header)));
        }
    }
}

/// Which limit was too small for the stacks of a trace.
fn lacks(path: &Path, header: &TraceHeader) -> &'static str {
    let frames = Trace::open(path).and_then(|trace| trace.stacks()).map_or(0, |stacks| stacks.nodes.len());
    match NoRoom::of(header.state, frames) {
        NoRoom::Disk => "the disk was full",
        NoRoom::Format => {
            "a trace has at most some 4 million different frames: record fewer stacks (--stack-sample 1/10)"
        }
        NoRoom::Limit => "allow a larger --max-size",
    }
}

/// How long a process was recorded.
pub(super) fn span(header: &TraceHeader) -> Duration {
    Duration::from_nanos(header.nanos(header.last_ticks))
}

/// The trace with the most events, of one or more.
pub(super) fn largest(made: &[(PathBuf, TraceHeader)]) -> &(PathBuf, TraceHeader) {
    made.iter().max_by_key(|(_, header)| header.used).expect("something was recorded")
}

/// The beginning of a command line.
pub(super) fn brief(command: &str) -> String {
    let cut: String = command.chars().take(60).collect();
    if cut.len() < command.len() { cut + "..." } else { cut }
}
