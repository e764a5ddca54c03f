//! The runtime of a program. In: what the program's file says. Out: its settings, and their variables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::knob::{Knob, Usual};
use super::runtime::{RuntimeKind, Traits};
use allocanary_rows::Cell;
use allocanary_sys::container::Cpus;
use allocanary_sys::sys;

/// The runtime of a program.
#[derive(Clone)]
pub struct ProgramRuntime {
    /// The runtime.
    pub runtime: &'static RuntimeKind,
    /// What the program's file says about it.
    pub traits: Traits,
    /// The file, without links in its path.
    pub file: PathBuf,
}

impl ProgramRuntime {
    /// Its name and version: `Go 1.26.8`.
    pub fn title(&self) -> String {
        match self.traits.version.as_str() {
            "" => self.runtime.name.to_string(),
            version => format!("{} {version}", self.runtime.name),
        }
    }

    /// The settings that this version has.
    pub fn knobs(&self) -> impl Iterator<Item = &'static Knob> + use<'_> {
        let lacks = |knob: &&Knob| self.traits.lacks.iter().any(|(name, _)| *name == knob.setting.name);
        self.runtime.knobs.iter().filter(move |knob| !lacks(knob))
    }

    /// Moves the settings of the runtime into variables. An option is appended to what the user's variable already has, because the last
    /// one counts.
    pub fn add_to(&self, variables: &mut BTreeMap<String, String>, settings: &mut BTreeMap<String, String>) {
        for knob in self.runtime.knobs {
            if let Some(value) = settings.remove(knob.setting.name.as_ref()) {
                knob.add_to(variables, &value);
            }
        }
    }

    /// Whether a cell has a setting of this runtime.
    pub fn is_set_by(&self, cell: &Cell) -> bool {
        cell.allocator == "own" && self.runtime.knobs.iter().any(|knob| cell.settings.contains_key(&*knob.setting.name))
    }

    /// The values that are in force without any setting.
    pub fn usual(&self) -> BTreeMap<String, String> {
        let (cpus, affinity) = (Cpus::here(), sys::affinity());
        let value = |knob: &Knob| match knob.usual {
            Usual::Unknown => None,
            Usual::Text(text) => Some(text.to_string()),
            // Only some runtimes, and some of their versions, follow a CPU quota. With one, the value is not known.
            Usual::Cores => (cpus.count() == affinity).then(|| affinity.to_string()),
        };
        self.runtime.knobs.iter().filter_map(|knob| Some((knob.setting.name.to_string(), value(knob)?))).collect()
    }
}
