//! Converts the mangled names of types and variables to names as in the source.

use allocanary_names::mangled;

/// The longest name that is shown.
const LONGEST: usize = 120;

/// The name of a C++ type, from the text in its type information.
pub fn of_type(text: &str) -> String {
    short(&mangled::type_name(text))
}

/// Shortens a long name by removing its middle.
pub fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= LONGEST {
        return name.into();
    }
    let head: String = name.chars().take(LONGEST * 2 / 3).collect();
    let tail: String = name.chars().skip(count - LONGEST / 3 + 1).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_and_nonsense_is_short() {
        for text in ["x".repeat(100_000), "_Z".to_string() + &"N".repeat(3000), "P".repeat(4000)] {
            for name in [of_type(&text), short(&text)] {
                assert!(name.chars().count() <= LONGEST && !name.is_empty(), "{}", name.len());
            }
        }
    }
}
