//! The variables with which a program is started. They carry settings to a preloaded allocator, and belong to our contract with the
//! preloads. In: a cell, the libraries. Out: variables.

use std::collections::BTreeMap;
use std::path::Path;

use super::given::{CORES, PROOF, PROVE};
use super::launcher::Launcher;
use super::variables;
use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_facts::{MEMORY_BUDGET, THREAD_IDLE};
use allocanary_rows::Cell;
use allocanary_rows::{PRELOAD, PROCESS_THP};

/// The variable of the contract that has the settings.
const SETTINGS: &str = "ALLOCANARY_PRELOAD";

impl Launcher {
    /// The environment of the program: the user's, with the library and its settings.
    pub(super) fn environment(&self, cell: &Cell, proof: &Path) -> Result<BTreeMap<String, String>, String> {
        let mut all = variables::texts();
        let described = self.candidates.iter().find(|known| known.allocator == cell.allocator);
        let library = self.library_of(cell).or_else(|| self.libraries.get(&cell.allocator).cloned());
        if let Some(library) = &library {
            // The user's own variables for allocators apply only to the unchanged program. A preloaded allocator does not get them.
            all.retain(|name, _| name != SETTINGS && !self.candidates.iter().any(|known| known.environment.owns(name)));
            let library = library.display().to_string();
            // The prover comes first in LD_PRELOAD, because the loader then runs its constructor last.
            let library = match (self.others.get(&cell.allocator), &self.prover) {
                (Some(other), Some(prover)) => {
                    all.insert(PROOF.into(), proof.display().to_string());
                    all.insert(PROVE.into(), asked(cell, other.reader, described.map_or(&[], |known| &known.settings)));
                    format!("{}:{library}", prover.display())
                }
                _ => library,
            };
            let before = all.get("LD_PRELOAD").filter(|before| !before.is_empty());
            let preload = before.map_or(library.clone(), |before| format!("{library}:{before}"));
            all.insert("LD_PRELOAD".into(), preload);
        }
        if self.libraries.contains_key(&cell.allocator) {
            all.insert(PROOF.into(), proof.display().to_string());
            if let Some(cores) = cell.cores {
                all.insert(CORES.into(), cores.to_string());
            }
        }
        let mut settings = cell.settings.clone();
        settings.remove(PROCESS_THP);
        if let Some(found) = self.runtime_of(cell) {
            found.add_to(&mut all, &mut settings);
        }
        let of_preloads = [THREAD_IDLE, MEMORY_BUDGET].map(|name| Some(format!("{name}={}", settings.remove(name)?)));
        let of_preloads: Vec<String> = of_preloads.into_iter().flatten().collect();
        if !of_preloads.is_empty() {
            all.insert(SETTINGS.into(), of_preloads.join(","));
        }
        // For `own`, the setting that depends on cores is set here. Our preloads set it themselves. If the user's environment sets it, that
        // value stays, because it would be in force on such a host too.
        if cell.allocator == "own"
            && let Some((described, cores)) = described.zip(cell.cores)
            && let Some(per_core) = &described.per_core
            && !described.environment.assignments(&all).iter().any(|one| one.name == per_core.setting)
        {
            settings.entry(per_core.setting.to_string()).or_insert(per_core.on(cores).to_string());
        }
        if cell.candidate.spec.name.starts_with(PRELOAD) {
            for (name, value) in &settings {
                let name = name
                    .strip_prefix("env.")
                    .ok_or_else(|| format!("candidate `{}`: wanted env.NAME=VALUE, found `{name}`", cell.candidate))?;
                all.insert(name.to_string(), value.clone());
            }
        } else if let Some(described) = described {
            described.environment.add_to(&mut all, &settings);
        } else if !settings.is_empty() {
            return Err(format!("candidate `{}`: no settings of {} are known", cell.candidate, cell.allocator));
        }
        Ok(all)
    }
}

/// The request of our library to a library of others: `jemalloc@5.3.0 jemalloc narenas=number tcache=flag`.
fn asked(cell: &Cell, reader: &str, settings: &[Setting]) -> String {
    let settings = settings.iter().filter(|setting| cell.settings.contains_key(setting.name.as_ref()));
    let each = settings.filter(|setting| setting.name != PROCESS_THP).map(|setting| {
        let kind = match setting.kind {
            SettingKind::Flag => "flag",
            SettingKind::Number { .. } => "number",
            SettingKind::Size { .. } => "size",
            SettingKind::Time { .. } | SettingKind::Choice { .. } | SettingKind::Text | SettingKind::Path => "word",
        };
        format!("{}={kind}", setting.name)
    });
    [cell.allocator.clone(), reader.into()].into_iter().chain(each).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::given::given;
    use crate::program::huge_pages;
    use allocanary_rows::job::Job;
    use allocanary_rows::program::Program;

    #[test]
    fn a_library_of_others_is_asked_for_its_settings_and_the_row_names_that_library_alone() {
        let settings = [
            Setting::new("release_rate", SettingKind::Number { min: 0, max: 10 }, ""),
            Setting::new("heap_limit_mb", SettingKind::Number { min: 0, max: 10 }, ""),
            huge_pages::setting(),
        ];
        let mut cell = Cell::new("tcmalloc", "tcmalloc", Job::of_program(Program::default()));
        cell.settings = [("release_rate", "2"), (PROCESS_THP, "never")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into();
        assert_eq!(asked(&cell, "tcmalloc", &settings), "tcmalloc tcmalloc release_rate=number");
        assert_eq!(asked(&cell, "mesh", &[]), "tcmalloc mesh");
        let all = [("LD_PRELOAD", "/a/preload-prove:/b/lib.so:/c.so"), (PROVE, "x"), (PROOF, "y")];
        let all = all.map(|(name, value)| (name.to_string(), value.to_string())).into();
        let row = given(&all, Some(Path::new("/a/preload-prove")));
        assert_eq!(row, BTreeMap::from([("LD_PRELOAD".to_string(), "/b/lib.so:/c.so".to_string())]));
    }
}
