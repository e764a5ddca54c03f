//! The budget of an `install!`. In: the limit's source as a text, the environment. Out: a budget that is turned on before the first
//! allocation.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use allocanary_sys::sys;

use super::source::{LimitSource, WANTED};
use super::{MemoryBudget, at_chunk, chunk, counts, turn_on};
use crate::allocator::Allocator;
use crate::error::{Error, Result};

/// The environment variable. It takes precedence over the code.
const VARIABLE: &CStr = c"ALLOCANARY_MEMORY_BUDGET";

/// Whether the allocator has refused to report what its threads allocate.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The budget that a program requests.
#[derive(Clone, Copy)]
pub struct BudgetSpec {
    source: Option<LimitSource>,
    /// A function pointer, so that a program without a budget does not contain the code.
    boot: fn(&'static dyn Allocator, Option<LimitSource>),
}

impl BudgetSpec {
    /// Parses `container`, `off` or a size. Any other text does not compile.
    pub const fn of(text: &str) -> BudgetSpec {
        match LimitSource::of(text) {
            Some(source) => BudgetSpec { source, boot },
            None => panic!("install!: memory_budget is container, off, or a size of at least 16MiB such as \"1GiB\""),
        }
    }

    #[inline]
    pub(crate) fn boot(self, allocator: &'static dyn Allocator) {
        (self.boot)(allocator, self.source);
    }
}

/// Turns the budget on, before the first allocation. Allocates nothing, unless something fails.
fn boot(allocator: &'static dyn Allocator, source: Option<LimitSource>) {
    // SAFETY: `boot` runs before `main`.
    let text = unsafe { sys::variable(VARIABLE) }.and_then(|text| std::str::from_utf8(text).ok());
    let Some(source) = text.and_then(LimitSource::of).unwrap_or(source) else { return };
    // SAFETY: called once, by the installation's hook, before there is a second thread.
    let is_on = unsafe {
        turn_on(MemoryBudget { allocator, source, outside: |work| work(), say }, || {
            counts_now(&allocator.each_chunk(chunk(), at_chunk))
        })
    };
    IS_REFUSED.store(!is_on, Ordering::Relaxed);
}

/// Whether threads count now. If the allocator cannot count what they allocate, the allocator's wrapper in `install!` does.
fn counts_now(told: &Result<()>) -> bool {
    matches!(told, Ok(()) | Err(Error::Unsupported { .. }))
}

fn say(parts: &[&str]) {
    for part in parts {
        // SAFETY: the length is that of the text. Errors of `write` are ignored.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}

/// The problems with the variable and with the limit, one line each.
pub(crate) fn problems(wanted: Option<BudgetSpec>) -> Vec<String> {
    if wanted.is_none() {
        return Vec::new();
    }
    let variable = std::env::var_os(VARIABLE.to_string_lossy().as_ref());
    let limit = counts().map(|counts| counts.limit.load(Ordering::Relaxed));
    lines(variable.as_ref().map(|found| found.to_string_lossy()).as_deref(), IS_REFUSED.load(Ordering::Relaxed), limit)
}

/// `limit` is that of the budget, or 0 if no limit was found; `None` without a budget.
fn lines(variable: Option<&str>, is_refused: bool, limit: Option<u64>) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(found) = variable.filter(|found| LimitSource::of(found).is_none()) {
        problems.push(format!("ALLOCANARY_MEMORY_BUDGET: {WANTED}, found `{found}`"));
    }
    if is_refused {
        let why = "this build of the allocator does not tell what threads allocate (experimental.hooks.thread_event)";
        problems.push(format!(
            "memory_budget: none is on: {why}: take the jemalloc that allocanary builds, or another allocator"
        ));
    }
    if limit == Some(0) {
        problems
            .push("memory_budget: no control group of this process has a memory limit: set one, or give a size".into());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_that_refuses_to_count_is_a_problem_and_one_that_cannot_is_wrapped() {
        let refused = Err(Error::Refused { allocator: "jemalloc", what: "telling", why: "ENOENT".into() });
        let cannot = Err(Error::Unsupported { allocator: "system", what: "a wrapper counts" });
        assert_eq!([counts_now(&Ok(())), counts_now(&cannot), counts_now(&refused)], [true, true, false]);
        let problems = lines(None, true, None);
        assert!(problems.len() == 1 && problems[0].starts_with("memory_budget: none is on: "), "{problems:?}");
    }

    #[test]
    fn a_line_for_each_thing_that_is_wrong() {
        assert_eq!(lines(Some("1GiB"), false, Some(1)), [""; 0]);
        assert_eq!(lines(None, false, None), [""; 0], "off");
        let problems = lines(Some("80%"), false, Some(0));
        assert_eq!(problems[0], format!("ALLOCANARY_MEMORY_BUDGET: {WANTED}, found `80%`"));
        assert!(problems.len() == 2 && problems[1].starts_with("memory_budget: no control group"), "{problems:?}");
    }
}
