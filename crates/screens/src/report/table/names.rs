//! Shortens candidates' names for a narrow column. In: names, and the width. Out: the names, and the text that `…` in them stands for.

use textwrap::core::display_width;

/// The names. In names that are too wide, `…` replaces their common beginning, which is the second returned value. `None` if the names do
/// not fit even then.
pub fn shortened(names: &[String], room: usize) -> Option<(Vec<String>, Option<String>)> {
    let is_wide = |name: &&String| display_width(name) > room;
    let wide: Vec<&String> = names.iter().filter(is_wide).collect();
    let Some(first) = wide.first() else { return Some((names.to_vec(), None)) };
    let common = wide.iter().skip(1).fold(first.as_str(), |common, name| shared(common, name));
    let common = if wide.len() > 1 { at_a_border(common) } else { "" };
    if !common.contains('=') {
        return None;
    }
    let short = |name: &String| match name.strip_prefix(common) {
        Some(rest) if is_wide(&name) => format!("…{rest}"),
        _ => name.clone(),
    };
    let short: Vec<String> = names.iter().map(short).collect();
    let fits = short.iter().all(|name| display_width(name) <= room);
    fits.then(|| (short, Some(common.trim_end_matches(',').to_string())))
}

/// The common beginning of two texts.
fn shared<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    &one[..same.map(|(a, _)| a.len_utf8()).sum::<usize>()]
}

/// The text up to the last comma, so that no setting is divided.
fn at_a_border(text: &str) -> &str {
    text.rfind(',').map_or("", |at| &text[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wide_names_have_in_common_is_said_once() {
        let names = ["own", "jemalloc:narenas=1", "jemalloc:narenas=1,tcache=false,lg_tcache_max=13"];
        let more = "jemalloc:narenas=1,tcache=false,background_thread=true";
        let names: Vec<String> = names.into_iter().chain([more]).map(String::from).collect();
        assert_eq!(shortened(&names, 80), Some((names.clone(), None)));
        let (short, common) = shortened(&names, 24).unwrap();
        assert_eq!(short, ["own", "jemalloc:narenas=1", "…lg_tcache_max=13", "…background_thread=true"]);
        assert_eq!(common.as_deref(), Some("jemalloc:narenas=1,tcache=false"));
        assert_eq!(shortened(&names, 10), None, "they do not fit even so");
        assert_eq!(shortened(&names[..3], 24), None, "one alone has nothing in common");
    }
}
