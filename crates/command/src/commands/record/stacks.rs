//! `--sample` and `--stack-sample`. In: their texts. Out: a number N: one block in N is recorded, or the stack of one allocation in N.

use allocanary_rows::error::{Error, Result};

/// The number of `--stack-sample`: the stack of one allocation in this many is recorded, or none if it is 0. With a window the default is
/// 0: windows are for services in production, and stacks cost more than everything else.
pub(super) fn stacks(text: Option<&str>, has_window: bool) -> Result<u32> {
    match text {
        None => Ok(u32::from(!has_window)),
        Some("off") => Ok(0),
        Some(text) => one_in(text).ok_or_else(|| {
            Error::Input(format!(
                "--stack-sample: wanted all, off, or 1/N with N up to 1048576, such as 1/10, found `{text}`"
            ))
        }),
    }
}

/// The number of `--sample`: one block in this many is recorded.
pub(super) fn sample(text: &str) -> Result<u32> {
    let wanted =
        || Error::Input(format!("--sample: wanted all, or 1/N with N up to 1048576, such as 1/16, found `{text}`"));
    one_in(text).ok_or_else(wanted)
}

/// The number N of `1/N`. It is 1 for `all`.
fn one_in(text: &str) -> Option<u32> {
    match text {
        "all" => Some(1),
        _ => text.strip_prefix("1/")?.parse().ok().filter(|number| (1..=1 << 20).contains(number)),
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

    #[test]
    fn all_blocks_are_recorded_or_one_in_a_number() {
        assert_eq!(["all", "1/1", "1/16"].map(|text| sample(text).unwrap()), [1, 1, 16]);
        for text in ["", "off", "16", "1/0", "1/1048577"] {
            let error = sample(text).unwrap_err().to_string();
            assert!(error.contains("--sample: wanted all, or 1/N") && error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
