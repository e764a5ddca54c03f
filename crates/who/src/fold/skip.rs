//! The functions that the user wants to pass over, as patterns.

use allocanary_names::NamedFrame;

/// Patterns for the whole name of a function or of its program or library. A `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skip(pub Vec<String>);

impl Skip {
    /// Whether a pattern matches a frame.
    pub fn has(&self, frame: &NamedFrame) -> bool {
        self.0.iter().any(|pattern| is_named(pattern, frame))
    }

    /// The patterns that match none of these frames.
    pub fn unknown<'a>(&self, frames: impl Iterator<Item = &'a NamedFrame>) -> Vec<&str> {
        let mut left: Vec<&str> = self.0.iter().map(String::as_str).collect();
        for frame in frames {
            left.retain(|pattern| !is_named(pattern, frame));
        }
        left
    }
}

fn is_named(pattern: &str, frame: &NamedFrame) -> bool {
    is_like(pattern, &frame.function) || is_like(pattern, &frame.module)
}

/// Whether a pattern matches a text.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    // Each part is matched at its first occurrence, so that the parts after it have the most text left.
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, is) in [
            ("sdsnew", "sdsnew", true),
            ("sdsnew", "sdsnewlen", false),
            ("sds*", "sdsnewlen", true),
            ("*new*", "sdsnewlen", true),
            ("s*s*n", "sdsnewlen", true),
            ("*len*len", "sdsnewlen", false),
            ("*", "", true),
            ("", "x", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(is_like(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn a_library_is_passed_over_as_well_and_what_names_nothing_is_told() {
        let frame = |module: &str, function: &str| NamedFrame {
            module: module.into(),
            function: function.into(),
            ..NamedFrame::default()
        };
        let skip = Skip(vec!["libglib-2.0.so*".into(), "grow".into(), "nothing".into()]);
        let all = [frame("libglib-2.0.so.0", "g_x"), frame("app", "grow"), frame("app", "main")];
        assert_eq!(all.iter().map(|frame| skip.has(frame)).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(skip.unknown(all.iter()), ["nothing"]);
    }
}
