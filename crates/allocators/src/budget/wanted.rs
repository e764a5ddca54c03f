//! The budget of an `install!`. In: the source's text, the environment. Out: a budget that is on before the first allocation.

use std::ffi::CStr;

use allocanary_kernel::sys;

use super::source::{Source, WANTED};
use super::{Budget, at_chunk, chunk, counts, turn_on};
use crate::allocator::Allocator;

/// The variable that takes precedence.
const VARIABLE: &CStr = c"ALLOCANARY_BUDGET";

/// What a program asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    source: Option<Source>,
    /// A pointer, so that a program without a budget does not have the code.
    boot: fn(&'static dyn Allocator, Option<Source>),
}

impl Wanted {
    /// `container`, `off` or a size. Another text does not compile.
    pub const fn of(text: &str) -> Wanted {
        match Source::of(text) {
            Some(source) => Wanted { source, boot },
            None => panic!("install!: budget is container, off, or a size of at least 16MiB such as \"1GiB\""),
        }
    }

    #[inline]
    pub(crate) fn boot(self, allocator: &'static dyn Allocator) {
        (self.boot)(allocator, self.source);
    }
}

/// Turns it on, before the first allocation. Allocates nothing.
fn boot(allocator: &'static dyn Allocator, source: Option<Source>) {
    // SAFETY: `boot` runs before `main`.
    let text = unsafe { sys::variable(VARIABLE) }.and_then(|text| std::str::from_utf8(text).ok());
    let Some(source) = text.and_then(Source::of).unwrap_or(source) else { return };
    // SAFETY: once, by the installation's hook, before there is a second thread.
    unsafe { turn_on(Budget { allocator, source, outside: |work| work(), say }) };
    let _ = allocator.each_chunk(chunk(), at_chunk); // the others have a type that counts
}

fn say(parts: &[&str]) {
    for part in parts {
        // SAFETY: the bytes are as many as we say. Who reads standard error sees it; nobody else has to.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}

/// What is wrong with the variable, or with the limit, in one line each.
pub(crate) fn problems(wanted: Option<Wanted>) -> Vec<String> {
    let mut problems = Vec::new();
    if wanted.is_none() {
        return problems;
    }
    if let Some(found) = std::env::var_os(VARIABLE.to_string_lossy().as_ref()) {
        let found = found.to_string_lossy().into_owned();
        if Source::of(&found).is_none() {
            problems.push(format!("ALLOCANARY_BUDGET: {WANTED}, found `{found}`"));
        }
    }
    if counts().is_some_and(|counts| counts.limit.load(std::sync::atomic::Ordering::Relaxed) == 0) {
        problems.push("budget: no control group of this process has a memory limit: set one, or give a size".into());
    }
    problems
}
