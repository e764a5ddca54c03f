//! Checks the settings of an `install!` while the program compiles. In: names and values. Out: the same, with sizes in
//! bytes, or a compile error.

use super::Value;
use allocanary_facts::const_text::ConstText;
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
/// kind. After [`TUNED`], the settings of `tuned` come first, except those that the program sets itself.
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
        if has(requested.split_at(at).0, requested[at].0) {
            fail(ConstText::NONE.with(requested[at].0).with(" is set twice: leave one out"));
        }
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
    if row == table.len() {
        let why = "this allocator has no such setting, or cannot take it from code (`allocanary list settings`); `system` has settings with \
                   glibc only";
        fail(ConstText::NONE.with(name).with(": ").with(why));
    }
    if !fits(name, value, &table[row].kind) {
        let text = table[row].kind.wanted_const(ConstText::NONE.with(name).with(": wanted "));
        let text = if follows_cpus(name) { text.with(", auto or per_cpu(n)") } else { text };
        fail(found(text.with("; found "), value));
    }
    (name, in_bytes(value, &table[row].kind))
}

const fn fail(text: ConstText) {
    panic!("{}", text.as_str());
}

/// Appends a value to a text, as the program has written it.
const fn found(text: ConstText, value: Value) -> ConstText {
    match value {
        Value::Text(found) => text.with(found),
        Value::PerCpu(ratio) => text.with("per_cpu(").number(ratio as i128).with(")"),
        Value::Auto => text.with("auto"),
        Value::Number(number) => text.number(number as i128),
    }
}

/// Whether a setting can be sized by the processors.
const fn follows_cpus(name: &str) -> bool {
    equal(name, "narenas") || equal(name, "arena_max")
}

/// Whether the setting of this name and kind takes the value.
const fn fits(name: &str, value: Value, kind: &SettingKind) -> bool {
    match value {
        Value::Text(text) => kind.takes(text),
        Value::PerCpu(ratio) => ratio > 0 && follows_cpus(name),
        Value::Auto => follows_cpus(name),
        Value::Number(_) => false, // only `in_bytes` makes numbers, after this check
    }
}

/// Like [`checked`], for one setting as texts that are read while the program starts: `narenas` and `per_cpu(1)`. The
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
        let requested = [("tcache_max", Value::Text("32KiB")), ("narenas", Value::Text("2"))];
        let wanted = [("tcache_max", Value::Number(32 << 10)), ("narenas", Value::Text("2"))];
        assert_eq!(checked::<2>(&requested, TABLE, &[]), wanted);
        assert_eq!(checked::<1>(&[("narenas", Value::Auto)], TABLE, &[]), [("narenas", Value::Auto)]);
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
        let said = |requested: &'static [(&'static str, Value)]| {
            let error = std::panic::catch_unwind(|| match requested.len() {
                1 => checked::<1>(requested, TABLE, &[]).len(),
                _ => checked::<2>(requested, TABLE, &[]).len(),
            });
            *error.unwrap_err().downcast::<String>().unwrap()
        };
        let wanted = "narenas: wanted a whole number from 1 to 9, auto or per_cpu(n); found ";
        assert_eq!(said(&[("narenas", Value::Text("2KiB"))]), format!("{wanted}2KiB"));
        assert_eq!(said(&[("narenas", Value::PerCpu(0))]), format!("{wanted}per_cpu(0)"));
        assert_eq!(
            said(&[("tcache_max", Value::Text("16 parsecs"))]),
            "tcache_max: wanted a size such as 65536 or 64KiB; found 16 parsecs"
        );
        assert!(said(&[("arena_max", Value::Text("2"))]).starts_with("arena_max: this allocator has no such setting"));
        let twice = said(&[("narenas", Value::Text("1")), ("narenas", Value::Text("2"))]);
        assert_eq!(twice, "narenas is set twice: leave one out");
    }
}
