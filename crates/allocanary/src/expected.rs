//! The settings that should be in force in this process: those of `install!`, overridden by those of the environment.
//! In: the installation and the variables. Out: settings in canonical spelling, and the problems of invalid ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::allocator::Allocator;
use crate::install::installation;
use allocanary_facts::environment::{Assignment, Environment};
use allocanary_facts::request::Value;
use allocanary_facts::setting::{SettingKind, also, c_number};
use allocanary_sys::container::{Cpus, Trouble};

/// Whether a setting did not fit the buffer for jemalloc's configuration.
pub(crate) static CUT: AtomicBool = AtomicBool::new(false);

/// The settings that should be in force, the source of each, and the problems of invalid ones.
#[derive(Default)]
pub struct Expected {
    /// The values, by setting, in canonical spelling.
    pub settings: BTreeMap<String, String>,
    /// The source of each: `install!`, or a variable.
    pub sources: BTreeMap<String, String>,
    /// One line for each unknown setting or invalid value.
    pub problems: Vec<String>,
}

/// The settings of code and environment; the environment overrides the code.
pub(crate) fn expected(allocator: &dyn Allocator) -> Expected {
    let mut expected = Expected::default();
    let rule = allocator.per_core();
    let requested = installation().map_or(&[][..], |installation| installation.request.settings);
    for (name, value) in requested {
        value.with_text(rule.as_ref(), |value| expected.add("install!", allocator, name, value));
    }
    expected.problems.extend(unread_quota(requested, || Cpus::here().trouble));
    if CUT.load(Ordering::Relaxed) {
        expected
            .problems
            .push("the settings in code, JE_MALLOC_CONF and MALLOC_CONF are over 4 kB: the last were left out".into());
    }
    expected.add_environment(allocator);
    expected
}

/// The settings of the environment only.
pub fn of_environment(allocator: &dyn Allocator) -> Expected {
    let mut expected = Expected::default();
    expected.add_environment(allocator);
    expected
}

/// Translates a value to the spelling of our tables if the allocator reads several spellings. Allocators read numbers
/// in base 16. mimalloc reads words such as `on` and `off` for 1 and 0.
fn as_read<'a>(allocator: &dyn Allocator, kind: &SettingKind, value: &'a str) -> Cow<'a, str> {
    if !matches!(kind, SettingKind::Number { .. } | SettingKind::Size { .. }) {
        return value.into();
    }
    let words = matches!(allocator.environment(), Environment::Each { .. });
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "yes" | "on" if words => "1".into(),
        "false" | "no" | "off" if words => "0".into(),
        hex if hex.starts_with("0x") => c_number(hex).map_or(value.into(), |number| number.to_string().into()),
        _ => value.into(),
    }
}

fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

/// The problem with reading the CPU quota, if code sets a value that depends on the CPUs.
fn unread_quota(settings: &[(&str, Value)], trouble: impl FnOnce() -> Option<Trouble>) -> Option<String> {
    let (name, _) = settings.iter().find(|(_, value)| matches!(value, Value::PerCpu(_) | Value::Auto))?;
    trouble()
        .map(|trouble| format!("install!: {name} follows the CPUs available to this process, and {}", trouble.text()))
}

impl Expected {
    fn add_environment(&mut self, allocator: &dyn Allocator) {
        let environment = allocator.environment();
        let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        let variables = variables.filter(|(name, _)| environment.owns(name)).collect();
        for Assignment { variable, name, value } in environment.assignments(&variables) {
            match value {
                Some(value) => self.add(&variable, allocator, &name, &value),
                None => self.problems.push(format!("{variable}: `{name}` is not `name{}value`", environment.assign())),
            }
        }
    }

    /// The settings that are not in force, each with its source, and all other problems. `found` are the values in
    /// force.
    pub fn unmet(&self, found: &BTreeMap<String, String>) -> Vec<String> {
        let unmet = self.settings.iter().filter_map(|(name, wanted)| {
            let source = &self.sources[name];
            match found.get(name) {
                Some(found) if found == wanted => None,
                Some(found) => {
                    Some(format!("{source}: {name}: wanted {wanted}, found {found}: refused, clipped or overruled"))
                }
                None => Some(format!("{source}: {name}: wanted {wanted}, and the allocator does not say what it took")),
            }
        });
        self.problems.iter().cloned().chain(unmet).collect()
    }

    fn add(&mut self, source: &str, allocator: &dyn Allocator, name: &str, value: &str) {
        let Some(setting) = allocator.settings().iter().find(|setting| setting.name == name) else {
            return match also(allocator.also(), name, value) {
                Some(Ok(())) => {}
                Some(Err(wanted)) => self.problems.push(format!("{source}: {name}: {wanted}, found `{value}`")),
                None => self.problems.push(format!("{source}: {} has no setting `{name}`", allocator.name())),
            };
        };
        match setting.kind.canonical(&as_read(allocator, &setting.kind, value)) {
            Ok(value) => {
                self.settings.insert(name.to_string(), value);
                self.sources.insert(name.to_string(), source.to_string());
            }
            Err(wanted) => self.problems.push(format!("{source}: {name}: {wanted}, found `{value}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "mimalloc")]
    #[test]
    fn what_an_allocator_reads_in_words_of_its_own_is_right() {
        let of = |allocator: &dyn Allocator, name: &str, value: &str| {
            let mut wanted = Expected::default();
            wanted.add("X", allocator, name, value);
            (wanted.settings.into_values().next(), wanted.problems)
        };
        let mimalloc = crate::Mimalloc;
        for (value, taken) in [("off", "0"), ("YES", "1"), ("", "1"), ("0x1", "1")] {
            assert_eq!(of(&mimalloc, "allow_thp", value), (Some(taken.to_string()), vec![]), "{value}");
        }
        assert_eq!(of(&mimalloc, "reset_delay", "0"), (None, vec![]), "an older name");
        assert_eq!(of(&mimalloc, "allow_thp", "maybe").1.len(), 1);
        #[cfg(target_env = "gnu")]
        {
            let system = crate::System;
            assert_eq!(of(&system, "arena_max", "0x10"), (Some("16".into()), vec![]));
            assert_eq!(of(&system, "check", "3"), (None, vec![]));
            assert_eq!(
                of(&system, "arena_max", "on").1,
                ["X: arena_max: wanted a whole number, 1 or more, found `on`"]
            );
        }
    }

    #[test]
    fn a_quota_that_cannot_be_read_is_told_where_a_setting_follows_it() {
        let follows: [&[(&str, Value)]; 2] =
            [&[("tcache", Value::Text("true")), ("narenas", Value::Auto)], &[("narenas", Value::PerCpu(2))]];
        for settings in follows {
            let said = unread_quota(settings, || Some(Trouble::Unreadable)).expect("it is told");
            assert!(
                said.starts_with("install!: narenas follows") && said.ends_with(Trouble::Unreadable.text()),
                "{said}"
            );
            assert_eq!(unread_quota(settings, || None), None);
        }
        assert_eq!(unread_quota(&[("narenas", Value::Text("2"))], || Some(Trouble::Zero)), None);
    }
}
