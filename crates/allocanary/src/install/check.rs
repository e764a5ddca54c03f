//! Checks the settings of an `install!` while the program compiles. In: names and values. Out: the same, with sizes in
//! bytes, or a compile error.

use super::Value;
use allocanary_facts::setting::{Setting, SettingKind, equal};

/// The marker for `tuned` among the settings of an `install!`.
pub const TUNED: (&str, Value) = ("", Value::Auto);

/// The number of settings that [`checked`] returns.
pub const fn count(requested: &[(&str, Value)], tuned: &[(&str, Value)]) -> usize {
    let mut count = requested.len();
    if is_tuned(requested) {
        count -= 1;
        let mut at = 0;
        while at < tuned.len() {
            count += !has(requested, tuned[at].0) as usize;
            at += 1;
        }
    }
    count
}

/// Checks the settings of an `install!` while it compiles: each name is in the table, and each value has the right
/// kind. After [`TUNED`], those settings of `tuned` that the program does not set itself come first.
///
/// `N` is [`count`]. Texts with a unit become numbers in bytes, because allocators read no units, or units other than
/// ours.
pub const fn checked<const N: usize>(
    requested: &[(&'static str, Value)],
    table: &[Setting],
    tuned: &[(&'static str, Value)],
) -> [(&'static str, Value); N] {
    let mut settings = [("", Value::Auto); N];
    let mut length = 0;
    let mut at = 0;
    while at < tuned.len() && is_tuned(requested) {
        if !has(requested, tuned[at].0) {
            settings[length] = check(tuned[at], table);
            length += 1;
        }
        at += 1;
    }
    at = is_tuned(requested) as usize;
    while at < requested.len() {
        settings[length] = check(requested[at], table);
        length += 1;
        at += 1;
    }
    settings
}

/// Whether the settings begin with [`TUNED`].
const fn is_tuned(requested: &[(&str, Value)]) -> bool {
    !requested.is_empty() && requested[0].0.is_empty()
}

const fn has(settings: &[(&str, Value)], name: &str) -> bool {
    let mut at = 0;
    while at < settings.len() && !equal(settings[at].0, name) {
        at += 1;
    }
    at < settings.len()
}

const fn check((name, value): (&'static str, Value), table: &[Setting]) -> (&'static str, Value) {
    let mut row = 0;
    while row < table.len() && !equal(table[row].name_const(), name) {
        row += 1;
    }
    assert!(
        row < table.len(),
        "install!: this allocator has no such setting, or cannot take it from code (`allocanary list settings`); \
         `system` has settings with glibc only"
    );
    assert!(
        fits(name, value, &table[row].kind),
        "install!: a setting's value is not one that it takes (`allocanary list settings`)"
    );
    (name, in_bytes(value, &table[row].kind))
}

/// Whether the setting of this name and kind takes the value.
const fn fits(name: &str, value: Value, kind: &SettingKind) -> bool {
    let follows_cpus = equal(name, "narenas") || equal(name, "arena_max");
    match value {
        Value::Text(text) => kind.takes(text),
        Value::PerCpu(ratio) => ratio > 0 && follows_cpus,
        Value::Auto => follows_cpus,
        Value::Number(_) => false, // only made here
    }
}

/// Like [`checked`], for one setting of a text that is read while the program starts: `narenas` and `per_cpu(1)`. The
/// error says which part is invalid. Allocates nothing.
pub fn setting_of(
    name: &str,
    text: &'static str,
    table: &'static [Setting],
) -> Result<(&'static str, Value), &'static str> {
    let setting = table.iter().find(|setting| setting.name == name);
    let setting = setting.ok_or("no such setting of this allocator (`allocanary list settings`)")?;
    let ratio = text.strip_prefix("per_cpu(").and_then(|rest| rest.strip_suffix(')')?.parse().ok());
    let value = match ratio {
        Some(ratio) => Value::PerCpu(ratio),
        None if text == "auto" => Value::Auto,
        None => Value::Text(text),
    };
    match fits(name, value, &setting.kind) {
        true => Ok((setting.name_const(), in_bytes(value, &setting.kind))),
        false => Err("not a value that it takes (`allocanary list settings`)"),
    }
}

/// Converts a size with a unit to bytes; every other value is unchanged.
const fn in_bytes(value: Value, kind: &SettingKind) -> Value {
    if let (Value::Text(text), SettingKind::Size { .. }) = (value, kind)
        && let Some(bytes) = allocanary_facts::setting::const_bytes(text)
    {
        return Value::Number(bytes);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Setting] = &[
        Setting::new("narenas", SettingKind::Number { min: 1, max: 9 }, ""),
        Setting::new("tcache_max", SettingKind::SIZE, ""),
    ];

    #[test]
    fn sizes_become_bytes_and_the_rest_stays() {
        let requested = [("tcache_max", Value::Text("32KiB")), ("narenas", Value::Text("2")), ("narenas", Value::Auto)];
        let wanted = [("tcache_max", Value::Number(32 << 10)), ("narenas", Value::Text("2")), ("narenas", Value::Auto)];
        assert_eq!(checked::<3>(&requested, TABLE, &[]), wanted);
    }

    #[test]
    fn tuned_comes_first_and_each_of_its_settings_can_be_overridden() {
        const SET: &[(&str, Value)] = &[("narenas", Value::PerCpu(1)), ("tcache_max", Value::Text("4KiB"))];
        const NONE: &[(&str, Value)] = &[TUNED];
        const ONE: &[(&str, Value)] = &[TUNED, ("narenas", Value::Text("3"))];
        assert_eq!((count(&[], SET), count(NONE, SET), count(ONE, SET)), (0, 2, 2));
        let (arenas, bytes) = (("narenas", Value::PerCpu(1)), ("tcache_max", Value::Number(4096)));
        assert_eq!(checked::<{ count(NONE, SET) }>(NONE, TABLE, SET), [arenas, bytes]);
        assert_eq!(checked::<{ count(ONE, SET) }>(ONE, TABLE, SET), [bytes, ("narenas", Value::Text("3"))]);
    }

    #[test]
    fn what_does_not_fit_does_not_compile() {
        for wrong in
            [("narena", Value::Text("2")), ("narenas", Value::Text("2KiB")), ("tcache_max", Value::Text("2 q"))]
        {
            assert!(std::panic::catch_unwind(|| checked::<1>(&[wrong], TABLE, &[])).is_err(), "{wrong:?}");
        }
    }
}
