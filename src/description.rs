//! What a cell says of itself when it is asked to `describe`. In: the child's contracts. Out: one JSON line, from which
//! the parent knows allocators, settings and workloads without a line of its own about any of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocator::PerCore;
use crate::environment::Environment;
use crate::provenance::Build;
use crate::setting::Setting;
use crate::spec::{Spec, nearest};
use crate::workload::Workload;

/// A cell's own account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The version of the messages that it speaks.
    pub protocol: u32,
    /// What it was built from.
    pub build: Build,
    /// The allocator's name.
    pub allocator: String,
    /// The allocator's version.
    pub version: String,
    /// Every setting that it takes.
    pub settings: Vec<Setting>,
    /// The value of each setting in the environment that it was asked in.
    pub effective: BTreeMap<String, String>,
    /// How settings travel to it.
    pub environment: Environment,
    /// The setting that follows the number of cores.
    #[serde(default)]
    pub per_core: Option<PerCore>,
    /// What it can do.
    pub workloads: Vec<WorkloadDescription>,
}

impl Description {
    /// Whether it can do that.
    pub fn has_workload(&self, name: &str) -> bool {
        self.workloads.iter().any(|workload| workload.name == name)
    }
}

/// A workload as its cell describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadDescription {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// What an operation is.
    pub operation: String,
    /// What can be set.
    #[serde(default)]
    pub parameters: Vec<ParameterDescription>,
    /// How long one cell takes with the defaults, in seconds, without its rests, for estimates.
    pub seconds: f64,
    /// The parameters by which that time grows.
    #[serde(default)]
    pub grows_with: Vec<String>,
    /// The parameter that says how often it rests for `idle`; once, where there is none.
    #[serde(default)]
    pub rests: Option<String>,
}

/// A workload's parameter with its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterDescription {
    /// Name, values and meaning.
    #[serde(flatten)]
    pub setting: Setting,
    /// Its value where none is given, in canonical spelling.
    pub default: String,
}

impl WorkloadDescription {
    /// A workload of this build.
    pub fn of(workload: &Workload) -> Self {
        let parameter = |(setting, default): &(Setting, &str)| ParameterDescription {
            setting: setting.clone(),
            default: default.to_string(),
        };
        WorkloadDescription {
            name: workload.name.into(),
            about: workload.about.into(),
            operation: workload.operation.into(),
            parameters: workload.parameters.iter().map(parameter).collect(),
            seconds: workload.seconds,
            grows_with: workload.grows_with.iter().map(|name| name.to_string()).collect(),
            rests: workload.rests.map(str::to_string),
        }
    }

    /// How long a cell takes when the workload is asked for as `spec`, in seconds.
    pub fn seconds_of(&self, spec: &Spec) -> Option<f64> {
        let values = self.parameters_of(spec).ok()?;
        let number = |name: &str| values.get(name)?.parse::<f64>().ok();
        let default = |name: &str| {
            let known = self.parameters.iter().find(|known| known.setting.name == name)?;
            known.default.parse::<f64>().ok()
        };
        let sizes = self.grows_with.iter().filter_map(|name| Some(number(name)? / default(name)?));
        let rests = self.rests.as_deref().map_or(Some(1.0), number)?;
        Some(self.seconds * sizes.product::<f64>() + rests * number("idle").unwrap_or(0.0) / 1000.0)
    }

    /// Every parameter's value when the workload is asked for as `spec`: defaults, and what `spec` sets.
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
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}

/// What a user may have meant: `; perhaps narenas or narenas_ratio`, or what there is, where nothing is near.
pub fn perhaps<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = nearest(wanted, names.clone());
    if !near.is_empty() {
        return format!("; perhaps {}", near.join(" or "));
    }
    let all: Vec<&str> = names.take(12).collect();
    if all.is_empty() { "; it has none".into() } else { format!("; there are {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    fn seconds(text: &str) -> f64 {
        let spec = Spec::parse(text).unwrap();
        let workload = workloads::ALL.iter().find(|workload| workload.name == spec.name).unwrap();
        WorkloadDescription::of(workload).seconds_of(&spec).unwrap()
    }

    #[test]
    fn every_rest_and_a_larger_size_take_their_time() {
        let work = |text: &str, rests: f64| seconds(text) - rests;
        // Five rests of 100 ms by default.
        let burst = work("storm", 0.5) / 5.0;
        assert!(burst > 0.0);
        assert!((work("storm:bursts=20,idle=1500", 30.0) - 20.0 * burst).abs() < 1e-9);
        assert!((work("churn:cycles=6,high=1GiB,idle=0", 0.0) - work("churn", 0.15) / 2.0).abs() < 1e-9);
        assert!((work("blob:size=1000,blobs=200000,idle=1", 0.001) - 2.0 * work("blob", 0.05)).abs() < 1e-9);
    }

    #[test]
    fn what_an_estimate_follows_has_a_default_above_0() {
        for workload in workloads::ALL {
            let known = WorkloadDescription::of(workload);
            for name in known.grows_with.iter().chain(&known.rests) {
                let found = known.parameters.iter().find(|known| known.setting.name == *name);
                let default = found.and_then(|known| known.default.parse().ok());
                assert!(default > Some(0.0), "{}: {name}", workload.name);
            }
        }
    }
}
