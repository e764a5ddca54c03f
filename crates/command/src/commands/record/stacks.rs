//! `--stacks`. In: its text. Out: of how many allocations one has its stack.

use allocanary_error::{Error, Result};

/// The number of `--stacks`: the stack of one allocation in this many is recorded, 0 for none. With a window the
/// default is none: windows are for services in production, and stacks cost more than everything else.
pub(super) fn stacks(text: Option<&str>, has_window: bool) -> Result<u32> {
    let one_in = match text {
        None => Some(u32::from(!has_window)),
        Some("all") => Some(1),
        Some("off") => Some(0),
        Some(text) => text.strip_prefix("1/").and_then(|number| number.parse().ok()),
    };
    let found = || text.unwrap_or_default();
    match one_in.filter(|one_in| *one_in <= 1 << 20 && (*one_in > 0 || !found().starts_with("1/"))) {
        Some(one_in) => Ok(one_in),
        None => Err(Error::Input(format!(
            "--stacks: wanted all, off, or 1/N with N up to 1048576, such as 1/10, found `{}`",
            found()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_recorded_of_all_unless_something_else_is_asked_for() {
        let number = |text, has_window| stacks(text, has_window).map_err(|error| error.to_string());
        assert_eq!((number(None, false), number(None, true)), (Ok(1), Ok(0)));
        assert_eq!((number(Some("all"), false), number(Some("off"), false)), (Ok(1), Ok(0)));
        assert_eq!((number(Some("1/10"), false), number(Some("off"), true)), (Ok(10), Ok(0)));
        for text in ["", "10", "1/0", "1/", "1/-1", "1/1048577", "2/10", "on"] {
            let error = number(Some(text), false).unwrap_err();
            assert!(error.contains("wanted all, off, or 1/N") && error.contains(&format!("`{text}`")), "{error}");
        }
        assert_eq!(
            (number(Some("1/10"), true), number(Some("all"), true)),
            (Ok(10), Ok(1)),
            "a window has them if they are asked for"
        );
    }
}
