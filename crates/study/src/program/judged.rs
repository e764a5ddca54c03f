//! Whether a run that has ended counts: its settings must be proven, and its output must be that of the other candidates. In: what was
//! measured. Out: an answer, or why it does not count.

use std::collections::BTreeMap;
use std::path::Path;

use super::launcher::Launcher;
use super::proof::PreloadLibrary;
use super::{Ran, fail, huge_pages, proof, runtimes};
use allocanary_rows::Cell;
use allocanary_rows::PROCESS_THP;
use allocanary_rows::program::{CORES_SEEN, Program};
use allocanary_rows::sample::{Failure, FailureKind, Measured};
use allocanary_sys::sys;

impl Launcher {
    /// Adds the proven settings, and compares the output.
    pub(super) fn judged(&self, cell: &Cell, program: &Program, ran: Ran, proof: &Path) -> Result<Measured, Failure> {
        let mut answer = ran.answer;
        let other = self.others.get(&cell.allocator).filter(|_| self.prover.is_some());
        let known = self.version(cell);
        let preloaded = match other {
            Some(other) => Some(PreloadLibrary::Other { path: &other.library, version: &known }),
            None => self.libraries.contains_key(&cell.allocator).then_some(PreloadLibrary::Ours),
        };
        if let Some(preloaded) = preloaded {
            let lines = proof::read(proof);
            if lines.is_empty() {
                proof::check_room(proof)?;
            }
            let (main, name) = &ran.main;
            // A process that ends before the first sample is not seen. Then it is taken to be the last process that loaded the library.
            let unseen = lines.iter().rev().find(|line| line.at == "load").filter(|_| name.is_empty());
            let main = unseen.map_or(*main, |line| line.pid);
            let proven = proof::check(cell, &lines, main, name, &ran.complaint, preloaded)?;
            answer.version = proven.version;
            answer.found = proven.found;
            answer.unproven = proven.unproven;
            if let Some(exit) = proven.exit {
                let marks = answer.moments.len();
                for (name, value) in [
                    ("allocator_allocated_bytes", exit.allocator_allocated_bytes),
                    ("allocator_active_bytes", exit.allocator_active_bytes),
                    ("allocator_resident_bytes", exit.allocator_resident_bytes),
                    ("allocator_mapped_bytes", exit.allocator_mapped_bytes),
                    ("allocator_metadata_bytes", exit.allocator_metadata_bytes),
                    ("allocator_arenas", exit.allocator_arenas),
                ] {
                    let mut column = vec![None; marks];
                    if let Some(last) = column.last_mut() {
                        *last = value;
                    }
                    answer.readings.insert(name.into(), column);
                }
            }
        } else {
            answer.version = known;
            let why = match cell.allocator.as_str() {
                "own" => "the program's own allocator does not say what it took",
                _ => "a library of somebody else's cannot say what it took",
            };
            answer.unproven = cell.settings.keys().map(|name| (name.clone(), why.to_string())).collect();
            if let Some(library) = self.library_of(cell) {
                in_effect(&library, ran.mapped, program.is_service(), &mut answer.unproven)?;
            }
        }
        match huge_pages::proof(cell, &ran.huge_pages)? {
            None => {}
            Some(Ok(found)) => {
                answer.unproven.remove(PROCESS_THP);
                answer.found.insert(PROCESS_THP.into(), found);
            }
            Some(Err(why)) => drop(answer.unproven.insert(PROCESS_THP.into(), why)),
        }
        if let Some(found) = self.runtime_of(cell) {
            for (name, said) in runtimes::proof(cell, found, ran.runtime.as_ref(), ran.main.0)? {
                match said {
                    Ok(value) => {
                        answer.unproven.remove(&name);
                        answer.found.insert(name, value);
                    }
                    Err(why) => drop(answer.unproven.insert(name, why)),
                }
            }
        }
        if cell.cores.is_some() && !self.libraries.contains_key(&cell.allocator) {
            answer
                .unproven
                .insert("cores".into(), "only our own preloads tell a program another number of cores".into());
            answer.notes.insert(CORES_SEEN.into(), sys::affinity().into());
        }
        self.compare(cell, program, &answer)?;
        answer.found.extend(
            cell.settings
                .iter()
                .filter(|(name, _)| answer.unproven.contains_key(*name))
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        Ok(answer)
    }

    /// Fails if a program that ends wrote another output than the other candidates. If the user's check has judged the output, it is not
    /// compared.
    fn compare(&self, cell: &Cell, program: &Program, answer: &Measured) -> Result<(), Failure> {
        let Some(output) = answer.output.as_ref().filter(|_| program.compares_output()) else { return Ok(()) };
        let mut expected = self.expected.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*expected {
            None => *expected = Some((cell.candidate.clone(), output.clone())),
            Some((_, known)) if known == output => {}
            Some((first, known)) => {
                return fail(
                    FailureKind::Corrupt,
                    format!(
                        "its output differs from that under {first}: wanted {} bytes ({}), found {} bytes ({}); if it differs \
                         from run to run, add --any-output, or --check for what must hold",
                        known.bytes, known.digest, output.bytes, output.digest
                    ),
                );
            }
        }
        Ok(())
    }
}

/// Whether the process with the most memory had mapped the library of others. A service was looked at when it was idle. A program that ends
/// may have ended before that.
fn in_effect(
    library: &Path,
    mapped: Option<bool>,
    is_service: bool,
    unproven: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    let library = library.display();
    match mapped {
        Some(true) => Ok(()),
        Some(false) if is_service => fail(
            FailureKind::Setting,
            format!(
                "{library}: wanted among the mappings of the process with the most memory, found none: the program changes its \
                 environment, or the loader dropped the library"
            ),
        ),
        _ => {
            let why = format!(
                "{library} was not seen among the mappings of the process with the most memory: it may have ended before"
            );
            unproven.insert("LD_PRELOAD".into(), why);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_an_idle_service_does_not_have_is_a_failure_and_one_that_was_not_seen_is_unproven() {
        let found = |mapped, is_service| {
            let mut unproven = BTreeMap::new();
            in_effect(Path::new("/lib/x.so"), mapped, is_service, &mut unproven).map(|()| unproven.len())
        };
        assert_eq!((found(Some(true), true), found(Some(true), false)), (Ok(0), Ok(0)));
        assert_eq!((found(Some(false), false), found(None, false), found(None, true)), (Ok(1), Ok(1), Ok(1)));
        let failure = found(Some(false), true).unwrap_err();
        assert!(
            failure.kind == FailureKind::Setting && failure.text.starts_with("/lib/x.so: wanted among"),
            "{failure:?}"
        );
    }
}
