//! A setting of an allocator, or a parameter of a workload: its name, its valid values and its meaning. Checks a user's text and returns
//! its canonical spelling, for comparisons.

use std::borrow::Cow;

use allocanary_text::units::{parse_bytes, parse_duration};

use crate::const_text::ConstText;

/// One setting of an allocator, or a parameter of a workload.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Setting {
    /// The allocator's own name for the setting.
    pub name: Cow<'static, str>,
    /// The valid values.
    pub kind: SettingKind,
    /// Its meaning, in one line.
    pub about: Cow<'static, str>,
}

impl Setting {
    /// A row of an allocator's table.
    pub const fn new(name: &'static str, kind: SettingKind, about: &'static str) -> Self {
        Setting { name: Cow::Borrowed(name), kind, about: Cow::Borrowed(about) }
    }

    /// The value of an array's elements before they are filled at compile time.
    pub const NONE: Setting = Setting::new("", SettingKind::Text, "");

    /// A copy of a row of an allocator's table, at compile time.
    pub const fn copied(&self) -> Setting {
        Setting {
            name: Cow::Borrowed(self.name_const()),
            kind: self.kind.copied(),
            about: Cow::Borrowed(static_of(&self.about)),
        }
    }

    /// The name, at compile time. A table's names are never owned.
    pub const fn name_const(&self) -> &'static str {
        static_of(&self.name)
    }
}

/// Returns a text of a table, at compile time. Such a text is never owned.
#[expect(clippy::ptr_arg, reason = "as a reference to a text it would not be static")]
const fn static_of(text: &Cow<'static, str>) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(_) => "",
    }
}

/// Makes an array at compile time, with one value of each row of a table. So a service contains only the column that it reads. `$none` is
/// every element's value at first.
macro_rules! copies {
    ($rows:expr, $none:expr, |$row:ident| $value:expr) => {{
        const COUNT: usize = $rows.len();
        let mut all = [const { $none }; COUNT];
        let mut at = 0;
        while at < COUNT {
            let $row = &$rows[at];
            // No destructor runs at compile time.
            let _ = ::core::mem::ManuallyDrop::new(::core::mem::replace(&mut all[at], $value));
            at += 1;
        }
        all
    }};
}
pub(crate) use copies;

/// A setting whose default grows with the number of cores.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PerCore {
    /// The setting: `narenas`.
    pub setting: Cow<'static, str>,
    /// The amount that one core adds: 4.
    pub ratio: u64,
    /// The value on one core, if it differs from the ratio: jemalloc makes one arena there.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub on_one: Option<u64>,
}

impl PerCore {
    /// The default on `cores` cores.
    pub fn on(&self, cores: u32) -> u64 {
        match self.on_one {
            Some(on_one) if cores <= 1 => on_one,
            _ => self.ratio.saturating_mul(u64::from(cores)),
        }
    }
}

/// The values that a setting takes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "type", rename_all = "snake_case"))]
pub enum SettingKind {
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Number {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
    },
    /// An amount of memory from `min` to `max` bytes.
    Size {
        /// The minimum in bytes.
        min: u64,
        /// The maximum in bytes.
        max: u64,
    },
    /// A time from `min` to `max` milliseconds, written with its unit: a bare number could mean seconds or milliseconds.
    Time {
        /// The minimum in milliseconds.
        min: u64,
        /// The maximum in milliseconds.
        max: u64,
    },
    /// One of several words.
    Choice {
        /// The words.
        names: Cow<'static, [Cow<'static, str>]>,
    },
    /// The allocator's own notation, which we pass on unchanged.
    Text,
    /// The path of a file.
    Path,
}

impl SettingKind {
    /// Any size from 0 to `i64::MAX` bytes.
    pub const SIZE: SettingKind = SettingKind::Size { min: 0, max: i64::MAX as u64 };

    /// One of `names`, for a row of a table.
    pub const fn words(names: &'static [Cow<'static, str>]) -> SettingKind {
        SettingKind::Choice { names: Cow::Borrowed(names) }
    }

    /// A copy, at compile time. A table's words are never owned.
    pub const fn copied(&self) -> SettingKind {
        match self {
            SettingKind::Flag => SettingKind::Flag,
            SettingKind::Number { min, max } => SettingKind::Number { min: *min, max: *max },
            SettingKind::Size { min, max } => SettingKind::Size { min: *min, max: *max },
            SettingKind::Time { min, max } => SettingKind::Time { min: *min, max: *max },
            SettingKind::Choice { names: Cow::Borrowed(names) } => SettingKind::Choice { names: Cow::Borrowed(names) },
            SettingKind::Choice { names: Cow::Owned(_) } | SettingKind::Text => SettingKind::Text,
            SettingKind::Path => SettingKind::Path,
        }
    }

    /// The canonical spelling of `value`, such as `true` or `65536`, so that expected and found values can be compared as texts. The error
    /// says which values are valid.
    pub fn canonical(&self, value: &str) -> Result<String, String> {
        let wanted = || format!("wanted {}", self.wanted());
        match self {
            SettingKind::Flag => match value {
                "true" | "1" | "yes" | "on" => Ok("true".into()),
                "false" | "0" | "no" | "off" => Ok("false".into()),
                _ => Err(wanted()),
            },
            SettingKind::Number { min, max } => match value.parse::<i64>() {
                Ok(number) if (*min..=*max).contains(&number) => Ok(number.to_string()),
                _ => Err(wanted()),
            },
            SettingKind::Size { min, max } => match parse_bytes(value) {
                Some(bytes) if (*min..=*max).contains(&bytes) => Ok(bytes.to_string()),
                _ => Err(wanted()),
            },
            SettingKind::Time { min, max } => match whole_millis(value) {
                Some(millis) if (*min..=*max).contains(&millis) => Ok(format!("{millis}ms")),
                _ => Err(wanted()),
            },
            SettingKind::Choice { names } if names.iter().any(|name| name == value) => Ok(value.to_string()),
            SettingKind::Choice { .. } => Err(wanted()),
            SettingKind::Text | SettingKind::Path => Ok(value.to_string()),
        }
    }

    /// Whether `value` is valid, as far as the compiler can tell. Every value in an allocator's own notation counts as valid:
    /// `tuning::check` of the crate `allocanary` checks it.
    pub const fn takes(&self, value: &str) -> bool {
        match self {
            SettingKind::Flag => equal(value, "true") || equal(value, "false"),
            SettingKind::Number { min, max } => match whole_number(value) {
                Some(number) => *min <= number && number <= *max,
                None => false,
            },
            SettingKind::Size { min, max } => match const_bytes(value) {
                Some(bytes) => *min <= bytes && bytes <= *max,
                None => false,
            },
            SettingKind::Choice { names: Cow::Borrowed(names) } => {
                let mut at = 0;
                while at < names.len() {
                    if let Cow::Borrowed(name) = &names[at]
                        && equal(name, value)
                    {
                        return true;
                    }
                    at += 1;
                }
                false
            }
            // No allocator has a setting that is a time with a unit.
            SettingKind::Choice { .. } | SettingKind::Time { .. } => false,
            SettingKind::Text | SettingKind::Path => true,
        }
    }

    /// A description of the valid values, for a help text: `a whole number from 1 to 4094`.
    pub fn wanted(&self) -> String {
        self.wanted_const(ConstText::NONE).as_str().to_string()
    }

    /// [`wanted`](Self::wanted), appended to `text` at compile time.
    pub const fn wanted_const(&self, text: ConstText) -> ConstText {
        const FAR: i64 = i32::MAX as i64;
        match self {
            SettingKind::Flag => text.with("true or false"),
            SettingKind::Number { min, max } if *max >= FAR => {
                text.with("a whole number, ").number(*min as i128).with(" or more")
            }
            SettingKind::Number { min, max } => {
                text.with("a whole number from ").number(*min as i128).with(" to ").number(*max as i128)
            }
            SettingKind::Size { min: 0, max } if *max >= FAR as u64 => text.with("a size such as 65536 or 64KiB"),
            SettingKind::Size { min, max } => {
                text.with("a size from ").number(*min as i128).with(" to ").number(*max as i128).with(" bytes")
            }
            SettingKind::Time { min: 0, .. } => text.with("a time such as 50ms or 2s"),
            SettingKind::Time { min, .. } => {
                text.with("a time of ").number(*min as i128).with("ms or more, such as 50ms or 2s")
            }
            SettingKind::Choice { names } => {
                let mut text = text.with("one of ");
                let Cow::Borrowed(names) = names else { return text };
                let mut at = 0;
                while at < names.len() {
                    text = if at > 0 { text.with(", ") } else { text };
                    text = text.with(static_of(&names[at]));
                    at += 1;
                }
                text
            }
            SettingKind::Text => text.with("the allocator's own notation"),
            SettingKind::Path => text.with("the path of a file"),
        }
    }
}

/// The milliseconds of a time with a unit, such as `50ms` or `2s`. `None` for any other text, and for a time that is not a whole number of
/// milliseconds.
fn whole_millis(text: &str) -> Option<u64> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    let nanos = parse_duration(text).filter(|_| has_unit)?.as_nanos();
    (nanos % 1_000_000 == 0).then_some((nanos / 1_000_000) as u64)
}

/// Parses a size such as `65536`, `64KiB` or `64K`, but only whole numbers. It runs at compile time, where traits cannot be called.
pub const fn const_bytes(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (mut number, mut at) = (0_u64, 0);
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        number = match number.checked_mul(10) {
            Some(tens) => tens + (bytes[at] - b'0') as u64,
            None => return None,
        };
        at += 1;
    }
    if at == 0 {
        return None;
    }
    let unit: u64 = if at == bytes.len() {
        return Some(number);
    } else {
        match bytes[at].to_ascii_lowercase() {
            b'k' => 1 << 10,
            b'm' => 1 << 20,
            b'g' => 1 << 30,
            _ => return None,
        }
    };
    match bytes.len() - at {
        1 => {}
        2 if bytes[at + 1].eq_ignore_ascii_case(&b'b') => {}
        3 if bytes[at + 1].eq_ignore_ascii_case(&b'i') && bytes[at + 2].eq_ignore_ascii_case(&b'b') => {}
        _ => return None,
    }
    number.checked_mul(unit)
}

/// Checks `value` against the row of `name` in a list such as `zero=flag junk=true|false|alloc stats_interval=number log=text`. `None` if
/// the name is not in the list. The error says which values are valid. Only the allocator's own spelling is valid.
pub fn also(list: &str, name: &str, value: &str) -> Option<Result<(), String>> {
    let rows = list.split_ascii_whitespace().filter_map(|row| row.split_once('='));
    let (_, values) = rows.into_iter().find(|(known, _)| *known == name)?;
    let (taken, wanted) = match values {
        "text" => (true, String::new()),
        "flag" => (matches!(value, "true" | "false"), SettingKind::Flag.wanted()),
        "number" => (c_number(value).is_some(), "a whole number".into()),
        words => (words.split('|').any(|word| word == value), format!("one of {}", words.replace('|', ", "))),
    };
    Some(if taken { Ok(()) } else { Err(format!("wanted {wanted}")) })
}

/// Parses a decimal number, or a hexadecimal one after `0x`, as C's strtol does. A unit after the number is invalid.
pub fn c_number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a whole number at compile time, where traits cannot be called.
const fn whole_number(text: &str) -> Option<i64> {
    match i64::from_str_radix(text, 10) {
        Ok(number) => Some(number),
        Err(_) => None,
    }
}

/// `==` for texts at compile time, where traits cannot be called.
pub const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_alike_by_the_compiler_and_at_run_time() {
        for text in ["65536", "64KiB", "64k", "2MB", "1g", "0"] {
            assert_eq!(const_bytes(text), parse_bytes(text), "{text}");
        }
        for text in ["", "KiB", "64Kib!", "64 KiB", "1.5M", "-1", "99999999999g", "99999999999999999999"] {
            assert_eq!(const_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_list_knows_its_names_and_their_values() {
        let list = "zero=flag junk=true|false|alloc|free interval=number log=text";
        for (name, value) in
            [("zero", "true"), ("junk", "alloc"), ("interval", "-1"), ("interval", "0x10"), ("log", "a.b")]
        {
            assert_eq!(also(list, name, value), Some(Ok(())), "{name}");
        }
        let said = |name, value| also(list, name, value).unwrap().unwrap_err();
        assert_eq!(said("zero", "1"), "wanted true or false");
        assert_eq!(said("junk", "bogus"), "wanted one of true, false, alloc, free");
        assert_eq!(said("interval", "soon"), "wanted a whole number");
        assert_eq!(also(list, "zer", "true"), None);
    }

    #[test]
    fn values_have_one_spelling() {
        let choice = SettingKind::words(&[Cow::Borrowed("auto"), Cow::Borrowed("always")]);
        for (kind, value, canonical) in [
            (&SettingKind::Flag, "yes", "true"),
            (&SettingKind::Flag, "0", "false"),
            (&SettingKind::Number { min: -1, max: 9 }, "-1", "-1"),
            (&SettingKind::SIZE, "64KiB", "65536"),
            (&SettingKind::Time { min: 0, max: 9000 }, "1.5s", "1500ms"),
            (&SettingKind::Time { min: 0, max: 9000 }, "0ms", "0ms"),
            (&choice, "auto", "auto"),
            (&SettingKind::Text, "8-64:100", "8-64:100"),
        ] {
            assert_eq!(kind.canonical(value).as_deref(), Ok(canonical));
        }
        for (kind, value, said) in [
            (&SettingKind::Flag, "maybe", "wanted true or false"),
            (&SettingKind::Number { min: 1, max: 4094 }, "0", "wanted a whole number from 1 to 4094"),
            (&SettingKind::Size { min: 0, max: 1032 }, "2KiB", "wanted a size from 0 to 1032 bytes"),
            (&choice, "never", "wanted one of auto, always"),
            (&SettingKind::Time { min: 0, max: 9000 }, "50", "wanted a time such as 50ms or 2s"),
            (&SettingKind::Time { min: 0, max: 9000 }, "1us", "wanted a time such as 50ms or 2s"),
            (&SettingKind::Time { min: 1, max: 9000 }, "0ms", "wanted a time of 1ms or more, such as 50ms or 2s"),
        ] {
            assert_eq!(kind.canonical(value), Err(said.to_string()));
        }
    }
}
