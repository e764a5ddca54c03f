//! A cell's answer to `describe`. In: the child's contracts. Out: one JSON line. The parent learns allocators, settings
//! and workloads from it, and has no code for a particular one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::provenance::Build;
use crate::{Spec, perhaps};
use allocanary_facts::environment::Environment;
use allocanary_facts::setting::PerCore;
use allocanary_facts::setting::Setting;

/// A cell's description of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The version of the protocol that it uses.
    pub protocol: u32,
    /// Its build.
    pub build: Build,
    /// The allocator's name.
    pub allocator: String,
    /// The allocator's version.
    pub version: String,
    /// Every setting that it accepts.
    pub settings: Vec<Setting>,
    /// The value of each setting, in the environment in which the cell was started.
    pub effective: BTreeMap<String, String>,
    /// The problems of that environment, one line each, with the variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// How it receives settings.
    pub environment: Environment,
    /// The setting whose default depends on the number of CPU cores.
    #[serde(default)]
    pub per_core: Option<PerCore>,
    /// The workloads that it can run.
    pub workloads: Vec<WorkloadDescription>,
}

impl Description {
    /// Whether it can run this workload.
    pub fn has_workload(&self, name: &str) -> bool {
        self.workloads.iter().any(|workload| workload.name == name)
    }

    /// Fails if a plan cannot use the description of a workload.
    pub fn check(&self) -> Result<(), String> {
        self.workloads.iter().try_for_each(WorkloadDescription::check)
    }
}

/// About a hundred years: longer than any cell takes.
const MOST_SECONDS: f64 = 3e9;

/// A workload as its cell describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadDescription {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// What one operation is.
    pub operation: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Vec<ParameterDescription>,
    /// Estimated duration of one cell with the default parameters, in seconds, without its idle waits.
    pub seconds: f64,
    /// The duration is proportional to this: a parameter, or a sum of parameters such as `steady+requests`.
    #[serde(default)]
    pub grows_with: Vec<String>,
    /// The parameter with the number of idle waits; one wait if there is no such parameter.
    #[serde(default)]
    pub rests: Option<String>,
}

/// A workload's parameter with its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterDescription {
    /// Name, values and meaning.
    #[serde(flatten)]
    pub setting: Setting,
    /// Its default value, in canonical spelling.
    pub default: String,
}

impl WorkloadDescription {
    /// A parameter's default, if it is a number or a time.
    pub fn default_number(&self, name: &str) -> Option<f64> {
        number(&self.parameters.iter().find(|known| known.setting.name == name)?.default)
    }

    /// Fails if no duration can be estimated from the description.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=MOST_SECONDS).contains(&self.seconds) {
            let found = self.seconds;
            return Err(format!("workload `{}`: seconds: wanted 0 to {MOST_SECONDS}, found {found}", self.name));
        }
        let of = |sum: &String| sum.split('+').map(|name| self.default_number(name)).sum::<Option<f64>>();
        let sums = self.grows_with.iter().chain(&self.rests);
        match sums.map(|sum| (sum, of(sum))).find(|(_, default)| default.is_none_or(|default| default <= 0.0)) {
            None => Ok(()),
            Some((sum, found)) => Err(format!(
                "workload `{}`: grows_with and rests: wanted parameters whose default is above 0, found `{sum}`, {}",
                self.name,
                found.map_or("which is no number".to_string(), |found| found.to_string()),
            )),
        }
    }

    /// Every parameter's value for `spec`: the defaults, replaced by the values that `spec` sets.
    pub fn parameters_of(&self, spec: &Spec) -> Result<BTreeMap<String, String>, String> {
        let defaults = self.parameters.iter().map(|known| (known.setting.name.to_string(), known.default.clone()));
        let mut values: BTreeMap<String, String> = defaults.collect();
        for (name, value) in &spec.settings {
            let setting = self.parameters.iter().map(|known| &known.setting).find(|setting| setting.name == *name);
            let setting = setting.ok_or_else(|| {
                let names = self.parameters.iter().map(|known| known.setting.name.as_ref());
                format!("workload `{}` has no parameter `{name}`{}", self.name, perhaps(name, names))
            })?;
            let value = setting.kind.canonical(value);
            let value = value.map_err(|wanted| format!("workload `{spec}`: {name}: {wanted}"))?;
            values.insert(name.to_string(), value);
        }
        Ok(values)
    }
}

/// A number that a cell reads.
#[derive(Clone, Debug)]
pub struct ReadingDescription {
    /// The meter that reads it: `status`.
    pub meter: &'static str,
    /// Its name in rows.
    pub name: &'static str,
    /// What it means, in one line.
    pub about: &'static str,
}

/// A parameter's value in canonical spelling, if it is a number, or a time in milliseconds.
pub fn number(value: &str) -> Option<f64> {
    value.strip_suffix("ms").unwrap_or(value).parse().ok().filter(|number: &f64| number.is_finite())
}
