//! Parses a setting in a variable that configures an allocator: the value that the allocator uses, and the problem if there is one.
//!
//! This is stricter than [`SettingKind::canonical`], which also accepts other spellings. Here the allocator's own parser decides.

use std::collections::BTreeMap;

use super::flavour::Flavour;
use allocanary_facts::setting::{Setting, SettingKind, c_number as number};
use allocanary_rows::nearest;

/// Environment variables by name, and jemalloc's links by their path.
pub type Variables = BTreeMap<String, String>;

/// Whether a variable has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableEffect {
    /// It is read.
    Read,
    /// It depends on the program.
    Depends,
    /// Nothing reads it.
    Ignored,
}

/// One setting in a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSetting {
    /// The allocator that has this setting: `jemalloc`.
    pub allocator: &'static str,
    /// The variable that contains it.
    pub variable: String,
    /// The allocator's name for it.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The value that the allocator uses: `value`, a clipped value, or `None` if it uses none.
    pub becomes: Option<String>,
    /// The reason if the allocator does not use the value unchanged.
    pub problem: Option<String>,
}

/// The effective settings of an allocator with their values. A later setting replaces an earlier one.
pub fn settings(assignments: &[VariableSetting], allocator: &str) -> BTreeMap<String, String> {
    let own = assignments.iter().filter(|one| one.allocator == allocator);
    own.filter_map(|one| Some((one.key.clone(), one.becomes.clone()?))).collect()
}

/// A setting that the allocator uses unchanged, or not at all.
pub(crate) fn assignment(
    allocator: &'static str,
    variable: &str,
    key: &str,
    value: &str,
    problem: Option<String>,
) -> VariableSetting {
    let becomes = problem.is_none().then(|| value.to_string());
    VariableSetting { allocator, variable: variable.into(), key: key.into(), value: value.into(), becomes, problem }
}

/// The problem with a value that the allocator's parser refuses, or that is out of range.
pub(crate) fn refused(setting: &Setting, value: &str, taken: bool) -> Option<String> {
    let fits = match (taken, number(value)) {
        (false, _) => false,
        (true, Some(number)) if value.starts_with("0x") => setting.kind.canonical(&number.to_string()).is_ok(),
        _ => setting.kind.canonical(value).is_ok(),
    };
    let wanted = match setting.kind {
        SettingKind::Size { min: 0, max } if max > 1 << 40 => "a number of bytes".to_string(),
        _ => setting.kind.wanted(),
    };
    (!fits).then(|| format!("{}: wanted {wanted}, found `{value}`", setting.name))
}

/// `; perhaps narenas`, or nothing.
pub fn perhaps<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(wanted, names).first() {
        Some(near) => format!("; perhaps {near}"),
        None => String::new(),
    }
}

/// The remark on a variable that none of a program's allocators reads.
pub(crate) fn not_here(flavours: &[Flavour]) -> (VariableEffect, String) {
    let names: Vec<&str> = flavours.iter().map(|flavour| flavour.name()).collect();
    (VariableEffect::Ignored, format!("this program has {}", names.join(" and ")))
}

#[cfg(test)]
mod tests;
