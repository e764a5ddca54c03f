//! The colour of each part of memory, the same in every picture. In: a part. Out: a class of the page's style.

use allocanary_text::parts::Part;

/// The class that colours a part.
pub fn class_of(part: Part) -> String {
    format!("part-{}", part.key())
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_text::parts::PARTS;

    #[test]
    fn each_part_has_a_colour_of_its_own() {
        let style = include_str!("page.css");
        let color = |part: Part| {
            let rule = format!(".{} {{ fill: ", class_of(part));
            style.split_once(&rule).and_then(|(_, rest)| rest.get(..7)).unwrap_or_else(|| panic!("{rule}"))
        };
        let colors: std::collections::BTreeSet<&str> = PARTS.into_iter().map(color).collect();
        assert_eq!(colors.len(), PARTS.len());
    }
}
