//! Names of this program's functions. In: return addresses. Out: functions with file and line, inlined ones first.
//!
//! A service is asked for its profile again and again, and its line tables may be larger than itself. So the names are kept, and the tables
//! are not.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use allocanary_profile::pprof::AddressFunction;

/// A function at an address.
pub(super) struct Frame {
    function: Option<String>,
    file: String,
    line: u32,
}

impl Frame {
    pub(super) fn is_named(&self) -> bool {
        self.function.is_some()
    }

    /// The function in the form that pprof takes; `None` if it has no name.
    pub(super) fn named(&self) -> Option<AddressFunction<'_>> {
        Some(AddressFunction { function: self.function.as_deref()?, file: &self.file, line: self.line })
    }

    /// Whether this function belongs to the sampler, or to the code that the compiler puts between a program and its allocator. The file is
    /// compared too, because line tables give some inlined functions without their path.
    fn is_own(&self) -> bool {
        const SHIMS: [&str; 4] = ["__rust_", "__rustc::", "__rg_", "alloc::alloc::"];
        let name = self.function.as_deref().unwrap_or_default().trim_start_matches(['<', '&']);
        allocanary_profile::own::is_own(name)
            || SHIMS.iter().any(|start| name.starts_with(start))
            || self.file.ends_with("/library/alloc/src/alloc.rs")
            || self.file.ends_with(super::profiled::FILE)
    }
}

/// The functions at each address.
pub(super) type Names = HashMap<u64, Arc<[Frame]>>;

/// The functions by address and file, because another library may have got the address.
type ByFile = BTreeMap<(u64, u64), Arc<[Frame]>>;

/// The names that the last call needed.
static KNOWN: Mutex<ByFile> = Mutex::new(BTreeMap::new());

/// Names these return addresses. Each comes with the number of its file.
pub(super) fn of_all(places: impl Iterator<Item = (u64, u64)>) -> Names {
    // If another thread has the lock, or had it when this process was forked, all names are looked up again.
    let mut kept = KNOWN.try_lock().ok();
    let before = kept.as_deref_mut().map(std::mem::take).unwrap_or_default();
    let mut now = ByFile::new();
    let mut is_read = false;
    for place in places {
        let frames = before.get(&place).cloned().unwrap_or_else(|| {
            is_read = true;
            of(place.0).into()
        });
        now.insert(place, frames);
    }
    if is_read {
        backtrace::clear_symbol_cache();
    }
    let names = now.iter().map(|((pc, _), frames)| (*pc, frames.clone())).collect();
    if let Some(kept) = &mut kept {
        **kept = now;
    }
    names
}

/// The functions at a return address, without the allocator's at its innermost end. An unknown address has one function without a name.
fn of(pc: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    // `resolve` itself looks up the call before a return address.
    backtrace::resolve(std::ptr::without_provenance_mut(pc as usize), |symbol| {
        // `#` omits the hash of the name.
        let function = symbol.name().map(|name| format!("{name:#}"));
        let file = symbol.filename().map(|path| path.display().to_string()).unwrap_or_default();
        frames.push(Frame { function, file, line: symbol.lineno().unwrap_or(0) });
    });
    if frames.is_empty() {
        frames.push(Frame { function: None, file: String::new(), line: 0 });
    }
    let own = frames.iter().take_while(|frame| frame.is_own()).count();
    // If all functions at this address are the allocator's, they stay here, and `without_own` leaves the address out.
    if own < frames.len() {
        frames.drain(..own);
    }
    frames
}

/// A stack without the allocator's functions at its innermost end.
pub(super) fn without_own(mut stack: Vec<u64>, names: &Names) -> Vec<u64> {
    let is_own = |pc: &&u64| names.get(pc).is_some_and(|frames| frames.iter().all(Frame::is_own));
    let own = stack.iter().take_while(is_own).count();
    if own < stack.len() {
        stack.drain(..own);
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Arc<[Frame]> {
        [Frame { function: Some(function.into()), file: file.into(), line: 1 }].into()
    }

    #[test]
    fn the_allocators_functions_are_left_out() {
        let names = HashMap::from([
            (1, frame("<allocanary_sampler::service::profiled::Profiled<A> as core::alloc::GlobalAlloc>::alloc", "")),
            (2, frame("alloc", "/rustc/x/library/alloc/src/alloc.rs")),
            (3, frame("server::read", "/src/alloc.rs")),
            (4, frame("__rust_alloc_zeroed", "")),
            (5, frame("alloc", &format!("/src/{}", super::super::profiled::FILE))),
            (6, frame("new_service", "/src/service/profiled.rs")),
        ]);
        assert_eq!(without_own(vec![1, 2, 3, 4], &names), [3, 4]);
        assert_eq!(without_own(vec![1, 4], &names), [1, 4], "something must be left");
        assert_eq!(without_own(vec![5, 6, 3], &names), [6, 3], "a program may have a file of that name");
        assert!(without_own(Vec::new(), &names).is_empty());
    }

    #[test]
    fn an_address_of_this_program_has_a_name_and_another_has_none() {
        let found = of(the_allocators_functions_are_left_out as *const () as u64 + 1);
        assert!(found.iter().any(|frame| frame.function.as_deref().is_some_and(|name| name.contains("left_out"))));
        assert!(of(1)[0].named().is_none());
    }

    #[test]
    fn what_was_named_is_kept_as_long_as_it_is_asked_for() {
        let pc = what_was_named_is_kept_as_long_as_it_is_asked_for as *const () as u64 + 1;
        let first = of_all([(pc, 7)].into_iter());
        let again = of_all([(pc, 7), (1, 0)].into_iter());
        assert!(Arc::ptr_eq(&first[&pc], &again[&pc]) && again.len() == 2);
        let other = of_all([(pc, 8)].into_iter());
        assert!(!Arc::ptr_eq(&first[&pc], &other[&pc]), "another file is there");
    }
}
