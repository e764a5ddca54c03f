//! Which settings should be in force in this process: those of its `install!`, and over them those of its environment.
//! In: the plan and the variables. Out: settings in canonical spelling, and what is wrong with what was asked for.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::allocator::Allocator;
use crate::container::{Cpus, Trouble};
use crate::environment::Assignment;
use crate::install::{CUT, Value, plan};
use crate::setting::also;

/// The settings that should be in force, where each stands, and what is wrong with what was asked for.
#[derive(Default)]
pub(crate) struct Wanted {
    pub settings: BTreeMap<String, String>,
    pub sources: BTreeMap<String, String>,
    pub problems: Vec<String>,
}

/// The settings of code and environment, the later over the earlier.
pub(crate) fn wanted(allocator: &dyn Allocator) -> Wanted {
    let mut wanted = Wanted::default();
    let rule = allocator.per_core();
    for (name, value) in plan().map_or(&[][..], |plan| plan.asked.settings) {
        value.with_text(rule.as_ref(), |value| wanted.add("install!", allocator, name, value));
    }
    wanted.problems.extend(unread_quota(plan().map_or(&[][..], |plan| plan.asked.settings), || Cpus::here().trouble));
    if CUT.load(Ordering::Relaxed) {
        wanted
            .problems
            .push("the settings in code, JE_MALLOC_CONF and MALLOC_CONF are over 4 kB: the last were left out".into());
    }
    wanted.add_environment(allocator);
    wanted
}

/// The settings of the environment alone.
pub(crate) fn of_environment(allocator: &dyn Allocator) -> Wanted {
    let mut wanted = Wanted::default();
    wanted.add_environment(allocator);
    wanted
}

fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

/// What is wrong with the quota, if a setting in code follows the processors at hand.
fn unread_quota(settings: &[(&str, Value)], trouble: impl FnOnce() -> Option<Trouble>) -> Option<String> {
    let (name, _) = settings.iter().find(|(_, value)| matches!(value, Value::PerCpu(_) | Value::Auto))?;
    trouble().map(|trouble| format!("install!: {name} follows the processors at hand, and {}", trouble.text()))
}

impl Wanted {
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

    /// The settings that are not in force, each with where it stands, and what is wrong besides. `found` are the values in force.
    pub fn unmet(&self, found: &BTreeMap<String, String>) -> Vec<String> {
        let unmet = self.settings.iter().filter_map(|(name, wanted)| {
            let source = &self.sources[name];
            match found.get(name) {
                Some(found) if found == wanted => None,
                Some(found) => Some(format!("{source}: {name}: wanted {wanted}, found {found}: refused or clipped")),
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
        match setting.kind.canonical(value) {
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
