//! Text that another program chose, such as its name. In: the text. Out: a safe form of it for one medium.

use std::borrow::Cow;

use crate::outside::harmless;

/// A text that another program chose. It may contain control codes of a terminal, markup, line feeds, or commands of a shell. It has no
/// `Display` and cannot be used as a path, so that it is not shown or opened by mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Foreign(String);

impl Foreign {
    /// The text without characters that control a terminal. To paste it into a shell, quote it as well ([`paste`](crate::paste)).
    pub fn harmless(&self) -> Cow<'_, str> {
        harmless(&self.0)
    }

    /// The unchanged text: to compare it, or for a page or JSON that escapes it.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Whether the text has no characters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Foreign {
    fn from(text: String) -> Foreign {
        Foreign(text)
    }
}

impl From<&str> for Foreign {
    fn from(text: &str) -> Foreign {
        Foreign(text.into())
    }
}

impl PartialEq<str> for Foreign {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Foreign {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_harmless() {
        let evil = Foreign::from("\x1b[2Jserver\n");
        assert_eq!(evil.harmless(), "\u{fffd}[2Jserver\u{fffd}");
        assert_eq!((evil.raw(), evil == "server"), ("\x1b[2Jserver\n", false));
    }
}
