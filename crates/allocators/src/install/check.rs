//! Checks the settings of an `install!` while the program compiles. In: names and values. Out: a compiler's error, where
//! one cannot be.

use super::Value;
use crate::setting::{Setting, equal};

/// Checks the settings of an `install!` while it compiles: each is in the table, with a value of its kind.
pub const fn check_settings(settings: &[(&str, Value)], table: &[Setting]) {
    let mut at = 0;
    while at < settings.len() {
        let (name, value) = settings[at];
        let mut row = 0;
        while row < table.len() && !equal(table[row].name_const(), name) {
            row += 1;
        }
        assert!(
            row < table.len(),
            "install!: this allocator has no such setting, or cannot take it from code (`allocanary list settings`); \
             `system` has settings with glibc only"
        );
        let fits = match value {
            Value::Text(text) => table[row].kind.takes(text),
            Value::PerCpu(ratio) => ratio > 0 && (equal(name, "narenas") || equal(name, "arena_max")),
            Value::Auto => equal(name, "narenas") || equal(name, "arena_max"),
        };
        assert!(fits, "install!: a setting's value is not one that it takes (`allocanary list settings`)");
        at += 1;
    }
}
