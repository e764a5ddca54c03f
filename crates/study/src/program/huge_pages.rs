//! `process_thp`: limits the transparent huge pages that a program may get, by the process that starts it. In: a cell, what this host
//! gives, what was seen of the process. Out: the limit, why it has no effect here, and its proof.
//!
//! Every candidate of a program has this setting.

use std::fs;

use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_rows::Cell;
use allocanary_rows::PROCESS_THP;
use allocanary_rows::sample::{Failure, FailureKind};
use allocanary_sys::proc::smaps;
use allocanary_sys::sys::{HugePagePolicy, HugePages, may_have_unadvised};

const NEVER: &str = HugePages::Never.name();
const ADVISED: &str = HugePages::Advised.name();

/// The setting as a row of a table.
pub const fn setting() -> Setting {
    use std::borrow::Cow::Borrowed;
    let kind = SettingKind::words(&[Borrowed(NEVER), Borrowed(ADVISED)]);
    Setting::new(PROCESS_THP, kind, "transparent huge pages that the kernel may give to the program and its children")
}

/// The limit that a cell's candidate sets.
pub fn wanted(cell: &Cell) -> Option<HugePages> {
    HugePages::named(cell.settings.get(PROCESS_THP)?)
}

/// Whether this host gives huge pages to memory that was not advised (`madvise`), and this can be limited.
pub fn are_unasked() -> bool {
    HugePagePolicy::here().always && HugePages::Never.can_be_limited().is_ok()
}

/// Fails if the limit of one of these cells has no effect on this host.
pub fn check(cells: &[Cell]) -> Result<(), String> {
    for (cell, wanted) in cells.iter().filter_map(|cell| Some((cell, wanted(cell)?))) {
        let possible = wanted.can_be_limited().map_err(|error| error.to_string());
        if let Some(why) = refusal(wanted, HugePagePolicy::here(), possible, &release()) {
            return Err(format!("candidate `{}`: {PROCESS_THP}: {why}", cell.candidate));
        }
    }
    Ok(())
}

fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// Why a limit has no effect on a host. `None` if it has one.
fn refusal(wanted: HugePages, given: HugePagePolicy, possible: Result<(), String>, kernel: &str) -> Option<String> {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    match (wanted, possible) {
        (HugePages::Never, _) if !given.advised => Some(format!(
            "this host gives no transparent huge pages ({SWITCH}), so the limit has no effect: leave it out"
        )),
        (HugePages::Advised, _) if !given.always => Some(format!(
            "this host gives transparent huge pages only where they are advised, or none ({SWITCH}), so the limit has no effect: \
             leave it out, or take {PROCESS_THP}={NEVER} where they are advised"
        )),
        (HugePages::Advised, Err(error)) => Some(format!(
            "wanted Linux 6.18 or newer, whose PR_SET_THP_DISABLE can leave what was advised, found {kernel} ({error}): take \
             {PROCESS_THP}={NEVER}"
        )),
        (HugePages::Never, Err(error)) => {
            Some(format!("wanted a kernel with PR_SET_THP_DISABLE (Linux 3.15), found {kernel}: {error}"))
        }
        (_, Ok(())) => None,
    }
}

/// What the kernel said of the process that had the most memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePageUse {
    /// Whether it may have huge pages at all.
    pub any: Option<bool>,
    /// Whether it may have them in memory that was not advised.
    pub unadvised: Option<bool>,
}

impl HugePageUse {
    /// Reads the mappings of a process.
    pub(super) fn read_advice(&mut self, pid: u32) {
        let found = smaps::read(pid).ok().and_then(|text| may_have_unadvised(&text));
        self.unadvised = found.or(self.unadvised);
    }
}

/// The value that was read back, or why none was. `None` if the cell has no limit. Fails if the limit is not in force.
pub fn proof(cell: &Cell, seen: &HugePageUse) -> Result<Option<Result<String, String>>, Failure> {
    let Some(limit) = wanted(cell) else { return Ok(None) };
    let (value, found, file, line) = match limit {
        HugePages::Never => (NEVER, seen.any, "status", "THP_enabled"),
        HugePages::Advised => (ADVISED, seen.unadvised, "smaps", "THPeligible, of memory that was not advised,"),
    };
    match found {
        Some(false) => Ok(Some(Ok(value.into()))),
        Some(true) => Err(Failure {
            kind: FailureKind::Setting,
            text: format!(
                "{PROCESS_THP}: wanted {value}, found {line} 1 in /proc/PID/{file} of the process with the most memory: the \
                 program has taken the limit off (PR_SET_THP_DISABLE)"
            ),
        }),
        None => Ok(Some(Err(format!(
            "/proc/PID/{file} did not say it: the program ended before it was read, had no memory that is large enough, or the \
             kernel is older than 5.0"
        )))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::job::Job;
    use allocanary_rows::program::Program;

    fn cell(value: &str) -> Cell {
        let settings = [(PROCESS_THP.to_string(), value.to_string())].into();
        Cell {
            settings,
            ..Cell::new(&*format!("own:{PROCESS_THP}={value}"), "own", Job::of_program(Program::default()))
        }
    }

    #[test]
    fn what_has_no_effect_on_a_host_is_refused() {
        let given = |always, advised| HugePagePolicy { always, advised };
        let refused = |wanted, given, possible| refusal(wanted, given, possible, "6.1.0");
        assert_eq!(refused(HugePages::Never, given(false, true), Ok(())), None);
        assert_eq!(refused(HugePages::Never, given(true, true), Ok(())), None);
        assert_eq!(refused(HugePages::Advised, given(true, true), Ok(())), None);
        let invalid = || Err("Invalid argument".to_string());
        for (wanted, given, possible, said) in [
            (HugePages::Never, given(false, false), Ok(()), "gives no transparent huge pages"),
            (HugePages::Advised, given(false, true), Ok(()), "only where they are advised"),
            (HugePages::Advised, given(true, true), invalid(), "wanted Linux 6.18 or newer"),
            (HugePages::Never, given(true, true), invalid(), "found 6.1.0: Invalid argument"),
        ] {
            let why = refused(wanted, given, possible).unwrap();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn a_limit_counts_if_the_kernel_says_so_of_the_biggest_process() {
        let seen = |any, unadvised| HugePageUse { any, unadvised };
        let found = |value: &str, seen: HugePageUse| proof(&cell(value), &seen);
        assert_eq!(found(NEVER, seen(Some(false), None)), Ok(Some(Ok(NEVER.into()))));
        assert_eq!(found(ADVISED, seen(Some(true), Some(false))), Ok(Some(Ok(ADVISED.into()))));
        let failure = found(NEVER, seen(Some(true), None)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Setting);
        assert!(failure.text.contains("wanted never, found THP_enabled 1"), "{}", failure.text);
        let failure = found(ADVISED, seen(Some(true), Some(true))).unwrap_err();
        assert!(failure.text.contains("wanted advised, found THPeligible"), "{}", failure.text);
        let unknown = found(NEVER, seen(None, None)).unwrap().unwrap().unwrap_err();
        assert!(unknown.contains("did not say it"), "{unknown}");
        let other = Cell::new("own", "own", Job::of_program(Program::default()));
        assert_eq!(proof(&other, &seen(Some(true), None)), Ok(None));
    }
}
