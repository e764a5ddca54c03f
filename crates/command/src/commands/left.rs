//! Handles rows that were moved or removed while they were being written. In: where they are now. Out: an error that
//! names the place. If the file was removed, all rows are printed to standard error.

use std::path::Path;

use super::terminal;
use allocanary_rows::error::Error;
use allocanary_study::session::{Left, StudyFiles};
use allocanary_text::paste::CommandLine;

/// The error that ends a study or a search. `resume` says how to continue it with the rows at a path.
pub fn told(rows: &Left, target: &StudyFiles, what: &str, resume: impl Fn(&str) -> String) -> Error {
    let name = target.name();
    let Some(to) = &rows.moved_to else {
        return match rows.text() {
            Ok(text) => {
                terminal::tell(format_args!("the rows that were measured:\n{}", text.trim_end()));
                let text = "save the rows printed above as *.jsonl";
                Error::Gone(format!("{name}: was removed while the {what} ran, so the {what} ended: {text}"))
            }
            Err(error) => error,
        };
    };
    let begun = to.parent().filter(|_| matches!(target, StudyFiles::Folder(_))).unwrap_or(to).display().to_string();
    let resume = resume(&begun);
    let to = to.display();
    Error::Gone(format!("{name}: was moved while the {what} ran, so the {what} ended: its rows are in {to}; {resume}"))
}

/// Says how to continue a study whose rows are in a folder, or in a file.
pub fn resume_study(begun: &str) -> String {
    let flag = if Path::new(begun).is_dir() { "--out-dir" } else { "--output" };
    format!("`{}` continues it", CommandLine::new("allocanary study --resume").words([flag]).path(begun))
}
