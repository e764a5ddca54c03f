//! mimalloc's variables: which programs read each, and the settings in them.

use allocanary_facts::mimalloc::{NAME, OLD, SETTINGS};

use crate::flavour::Flavour;
use crate::seen::Libraries;
use crate::variables::{VariableEffect, VariableSetting, Variables, assignment, not_here, perhaps, refused};

pub(super) const FLAVOUR: Flavour = Flavour::Named(NAME);

/// The beginning of their names. mimalloc accepts upper and lower case.
const PREFIX: &str = "mimalloc_";

/// Which programs read this variable; `None` if it is not one of mimalloc's.
pub(super) fn reader(variable: &str, _: &str, subject: Option<&[Flavour]>) -> Option<(VariableEffect, String)> {
    if !variable.to_ascii_lowercase().starts_with(PREFIX) {
        return None;
    }
    Some(match subject {
        Some(flavours) if !flavours.contains(&FLAVOUR) => not_here(flavours),
        _ => (VariableEffect::Read, "by mimalloc".into()),
    })
}

/// The settings in them.
pub(super) fn assignments(variables: &Variables, libraries: &Libraries) -> Vec<VariableSetting> {
    let assigned = |(name, value): (&String, &String)| {
        let key = name.to_ascii_lowercase();
        key.strip_prefix(PREFIX).map(|key| assigned(name, key, value, libraries))
    };
    variables.iter().filter_map(assigned).collect()
}

fn assigned(variable: &str, key: &str, value: &str, libraries: &Libraries) -> VariableSetting {
    let key = OLD.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
    let problem = match SETTINGS.iter().find(|setting| setting.name == key) {
        Some(_) if libraries.has_option(key) == Some(false) => {
            Some(format!("this program's mimalloc has no option `{key}`; it ignores it without a word"))
        }
        // The linked version has this option, although our table does not.
        None if libraries.has_option(key) == Some(true) => None,
        None => {
            let near = perhaps(key, SETTINGS.iter().map(|setting| setting.name.as_ref()));
            Some(format!("mimalloc v3 has no option `{key}`{near}; it ignores it without a word"))
        }
        // Its parser accepts these words as 1 and 0 for any number, and an empty text as 1.
        Some(_) if ["", "true", "yes", "on", "false", "no", "off"].contains(&&*value.to_ascii_lowercase()) => None,
        Some(setting) => refused(setting, value, true),
    };
    assignment(NAME, variable, key, value, problem)
}
