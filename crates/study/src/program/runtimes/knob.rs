//! One setting of a runtime. In: a value. Out: the variable that sets it.

use std::collections::BTreeMap;

use allocanary_facts::setting::{Setting, SettingKind};

/// A setting of a runtime.
pub struct Knob {
    /// Its name, values and meaning.
    pub setting: Setting,
    /// How it reaches the runtime.
    pub way: Way,
    /// The value that is in force without it.
    pub usual: Usual,
    /// A rule for its values that [`SettingKind`] cannot express.
    pub also: Also,
}

/// How a setting reaches the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A variable of its own.
    Variable(&'static str),
    /// An option among others in a variable, as if it stood on the command line: the variable, and the option up to its value.
    Option(&'static str, &'static str),
}

/// The value of a setting that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usual {
    /// It follows from the host, or is not known.
    Unknown,
    /// This value.
    Text(&'static str),
    /// The number of processors.
    Cores,
}

/// A rule for values that [`SettingKind`] cannot express.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Also {
    /// Nothing.
    Nothing,
    /// Our words, each with the word that the runtime has for it.
    Words(&'static [(&'static str, &'static str)]),
    /// `off`, or a whole number in this range.
    OffOr(u64, u64),
    /// A number with a fraction in this range.
    Fraction(f64, f64),
}

impl Knob {
    /// A row of a table.
    pub const fn new(
        name: &'static str,
        kind: SettingKind,
        about: &'static str,
        way: Way,
        usual: Usual,
        also: Also,
    ) -> Knob {
        Knob { setting: Setting::new(name, kind, about), way, usual, also }
    }

    /// The values that it takes, in words.
    pub fn wanted(&self) -> String {
        match self.also {
            Also::OffOr(least, most) => format!("off, or a whole number from {least} to {most}"),
            Also::Fraction(least, most) => format!("a number from {least} to {most}"),
            Also::Nothing | Also::Words(_) => self.setting.kind.wanted(),
        }
    }

    /// Checks a value. The error says what was wanted.
    pub fn check(&self, value: &str) -> Result<(), String> {
        // Only the runtime's own spelling is accepted, without a sign or leading zeros. What is read back is compared as text.
        let number = |least: u64, most: u64| {
            value.parse().is_ok_and(|number: u64| (least..=most).contains(&number) && number.to_string() == value)
        };
        let is_taken = match self.also {
            Also::OffOr(least, most) => value == "off" || number(least, most),
            Also::Fraction(least, most) => value.parse().is_ok_and(|found| (least..=most).contains(&found)),
            Also::Nothing | Also::Words(_) => self.setting.kind.canonical(value).is_ok(),
        };
        if is_taken { Ok(()) } else { Err(format!("wanted {}", self.wanted())) }
    }

    /// The value as the runtime reads it.
    pub fn text(&self, value: &str) -> String {
        match self.also {
            Also::Words(words) => words.iter().find(|(ours, _)| *ours == value).map_or(value, |(_, its)| its),
            _ => value,
        }
        .to_string()
    }

    /// Adds the value to variables.
    pub fn add_to(&self, variables: &mut BTreeMap<String, String>, value: &str) {
        let text = self.text(value);
        match self.way {
            Way::Variable(name) => drop(variables.insert(name.into(), text)),
            Way::Option(name, option) => {
                let before = variables.get(name).filter(|before| !before.trim().is_empty());
                let before = before.map_or(String::new(), |before| format!("{before} "));
                variables.insert(name.into(), format!("{before}{option}{text}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_as_the_runtime_writes_it() {
        let kind = SettingKind::Number { min: 1, max: 100 };
        let knob = Knob::new("gogc", kind, "", Way::Variable("GOGC"), Usual::Unknown, Also::OffOr(1, 100));
        assert!(knob.check("50").is_ok() && knob.check("off").is_ok());
        for value in ["050", "+50", "0", "101", ""] {
            assert!(knob.check(value).unwrap_err().contains("off, or a whole number from 1 to 100"), "{value}");
        }
    }
}
