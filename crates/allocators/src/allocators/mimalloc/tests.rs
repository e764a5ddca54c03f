//! Parsing of what mimalloc prints.

use super::*;

#[test]
fn option_lines_are_read_by_name_and_in_bytes() {
    let read = |line| option_line(line).map(|(_, value)| value);
    assert_eq!(read("option 'purge_delay': 1000 ").as_deref(), Some("1000"));
    assert_eq!(read("option 'arena_reserve': 1048576 KiB").as_deref(), Some("1073741824"));
    assert_eq!(read("option 'page_max_reclaim': -1 ").as_deref(), Some("-1"));
    assert_eq!(read("option 'deprecated_segment_reset': 0 "), None);
    assert_eq!(read("debug level : 0"), None);
}

#[test]
fn numbers_are_found_in_the_statistics() {
    let text = br#"{ "purged": 7, "committed": { "total": 1, "peak": 9, "current": 5 }, "x": {} }"#;
    assert_eq!(json_number(text, "committed", "current"), Some(5));
    assert_eq!(json_number(text, "purged", ""), Some(7));
    assert_eq!(json_number(text, "commit", "current"), None);
    let below_zero = br#"{ "committed": { "total": 1, "current": -5 }, "arena_count": 3 }"#;
    assert_eq!(json_number(below_zero, "committed", "current"), None, "a count below zero is none");
    assert_eq!(json_number(below_zero, "arena_count", ""), Some(3));
}
