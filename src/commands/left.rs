//! Rows that were moved or removed while the study ran. In: where they are now. Out: the error that names the place; if
//! the file was removed, all rows on standard error.

use super::terminal;
use allocanary_study::error::Error;
use allocanary_study::run::{Left, Target};

/// The error that ends the study.
pub fn told(rows: &Left, target: &Target) -> Error {
    let name = target.name();
    let Some(to) = &rows.moved_to else {
        return match rows.text() {
            Ok(text) => {
                terminal::tell(format_args!("the rows that were measured:\n{}", text.trim_end()));
                let text =
                    "was removed while the study ran, so the study ended: save the rows printed above as *.jsonl";
                Error::Gone(format!("{name}: {text}"))
            }
            Err(error) => error,
        };
    };
    let begun = to.parent().filter(|_| matches!(target, Target::Folder(_))).unwrap_or(to).display();
    Error::Gone(format!(
        "{name}: was moved while the study ran, so the study ended: its rows are in {}; \
         `allocanary study --resume --out {begun}` continues it",
        to.display()
    ))
}
