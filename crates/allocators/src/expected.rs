//! Which settings should be in force in this process: those of its `install!`, and over them those of its environment.
//! In: the installation and the variables. Out: settings in canonical spelling, and what is wrong with the others.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::allocator::Allocator;
use crate::environment::{Environment, readable_variables};
use crate::install::installation;
use crate::request::{CUT, Value};
use allocanary_kernel::container::{Cpus, Trouble};

/// The settings that should be in force, and what is wrong with the others.
pub(crate) struct Expected {
    pub settings: BTreeMap<String, String>,
    pub problems: Vec<String>,
}

/// The settings of code and environment, the later over the earlier.
pub(crate) fn expected(allocator: &dyn Allocator) -> Expected {
    let mut expected = Expected { settings: BTreeMap::new(), problems: Vec::new() };
    let ratio = allocator.per_core().map_or(1, |per_core| per_core.ratio as u32);
    let requested = installation().map_or(&[][..], |installation| installation.request.settings);
    for (name, value) in requested {
        value.with_text(ratio, |value| expected.add("install!", allocator, name, value));
    }
    expected.problems.extend(unread_quota(requested, || Cpus::here().trouble));
    if CUT.load(Ordering::Relaxed) {
        expected
            .problems
            .push("the settings in code, JE_MALLOC_CONF and MALLOC_CONF are over 4 kB: the last were left out".into());
    }
    let variable = |name: &str| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    match allocator.environment() {
        Environment::Joined { variable: own, earlier, single, prefix, assign, separator } => {
            for (name, setting) in single.iter() {
                if let Some(value) = variable(name) {
                    expected.add(name, allocator, setting, &value);
                }
            }
            for name in earlier.iter().chain([&own]) {
                for pair in variable(name).iter().flat_map(|text| text.split(separator.as_ref())).map(str::trim) {
                    match pair.split_once(assign.as_ref()) {
                        // Tunables of other parts of glibc stand in the same variable.
                        Some((key, value)) => {
                            if let Some(key) = key.strip_prefix(prefix.as_ref()) {
                                expected.add(name, allocator, key, value);
                            }
                        }
                        None if pair.is_empty() => {}
                        None => expected.problems.push(format!("{name}: `{pair}` is not `name{assign}value`")),
                    }
                }
            }
        }
        Environment::Each { prefix } => {
            for (name, value) in readable_variables() {
                if let Some(key) = name.strip_prefix(prefix.as_ref()) {
                    expected.add(&name, allocator, &key.to_lowercase(), &value);
                }
            }
        }
    }
    expected
}

/// What is wrong with the quota, if a setting in code follows the CPUs available to this process.
fn unread_quota(settings: &[(&str, Value)], trouble: impl FnOnce() -> Option<Trouble>) -> Option<String> {
    let (name, _) = settings.iter().find(|(_, value)| matches!(value, Value::PerCpu(_) | Value::Auto))?;
    trouble()
        .map(|trouble| format!("install!: {name} follows the CPUs available to this process, and {}", trouble.text()))
}

impl Expected {
    fn add(&mut self, source: &str, allocator: &dyn Allocator, name: &str, value: &str) {
        let Some(setting) = allocator.settings().iter().find(|setting| setting.name == name) else {
            return self.problems.push(format!("{source}: {} has no setting `{name}`", allocator.name()));
        };
        match setting.kind.canonical(value) {
            Ok(value) => {
                self.settings.insert(name.to_string(), value);
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
