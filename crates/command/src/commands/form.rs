//! The form of an answer that a child makes. In: flags, the terminal. Out: a type that is part of a request.

use serde::{Deserialize, Serialize};

use allocanary_text::outside::TerminalStyle;

/// The form of a diagnosis.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Form {
    /// A text, for a terminal.
    Text { color: bool, width: u16 },
    /// A line of JSON.
    Json,
    /// A few lines, for a terminal.
    Short { color: bool, width: u16 },
}

impl Form {
    /// The width and colours of the terminal that the text is for.
    pub fn look(self) -> TerminalStyle {
        match self {
            Form::Text { color, width } | Form::Short { color, width } => TerminalStyle { color, width },
            Form::Json => TerminalStyle { color: false, width: 80 },
        }
    }
}
