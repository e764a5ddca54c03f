//! Where the program is. In: the calling thread, or code addresses. Out: code addresses, or functions with file and line.

use std::path::PathBuf;

use super::table::DEPTH;

/// One function of a stack. Inlined functions have frames of their own, with the address of the function they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The code address.
    pub address: usize,
    /// The function's path, without the hash; `?` where the program's symbols do not say.
    pub function: String,
    /// The source file, where the program has line tables.
    pub file: Option<PathBuf>,
    /// The line in it.
    pub line: Option<u32>,
}

/// The code addresses of the calling thread's stack, innermost first, 0 after the last.
///
/// Without the lock that `backtrace::trace` takes: on Linux unwinding needs none, and a lock held by a thread while
/// another forks would stay held in the child.
#[inline(always)]
pub fn capture() -> [usize; DEPTH] {
    let mut frames = [0; DEPTH];
    let mut depth = 0;
    // SAFETY: what must be synchronised is dbghelp, on Windows; here it is the unwinder, which any threads may use at once.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            frames[depth] = frame.ip() as usize;
            depth += 1;
            depth < DEPTH
        });
    }
    frames
}

/// Names for a stack, without what the allocator itself has on top. Allocates, reads the program's file, and is slow.
pub fn resolve(addresses: &[usize]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for &address in addresses.iter().take_while(|address| **address != 0) {
        let before = frames.len();
        backtrace::resolve(address as *mut _, |symbol| {
            // `#` leaves out the hash of the name.
            let function = symbol.name().map_or("?".into(), |name| format!("{name:#}"));
            let file = symbol.filename().map(PathBuf::from);
            frames.push(Frame { address, function, file, line: symbol.lineno() });
        });
        if frames.len() == before {
            frames.push(Frame { address, function: "?".into(), file: None, line: None });
        }
    }
    let own = frames.iter().take(OWN).rposition(is_own).map_or(0, |last| last + 1);
    frames.drain(..own);
    frames
}

/// The allocator's own frames end among so many.
const OWN: usize = 14;

/// The frame that a site is called after: the innermost that is neither the allocator's nor the standard library's.
pub fn title(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !is_internal(frame)).or(frames.first())
}

/// By the function's path or, because line tables give inlined functions their bare names, by the file's.
fn is_own(frame: &Frame) -> bool {
    let crates = ["backtrace", "allocanary::leaks", "allocanary::counting"];
    let shims = ["__rust_alloc", "__rust_realloc", "__rustc::", "__rg_"];
    is_of(&frame.function, &crates)
        || shims.iter().any(|word| frame.function.contains(word))
        || in_file(frame, &["/backtrace-0."])
}

fn is_internal(frame: &Frame) -> bool {
    let library = ["library/alloc/src/", "library/core/src/", "library/std/src/", "/hashbrown-"];
    is_own(frame) || is_of(&frame.function, &["alloc", "core", "std", "hashbrown"]) || in_file(frame, &library)
}

fn in_file(frame: &Frame, parts: &[&str]) -> bool {
    let file = frame.file.as_ref().map(|file| file.to_string_lossy());
    file.is_some_and(|file| parts.iter().any(|part| file.contains(part)))
}

/// Whether a function is of one of the crates: `alloc::vec::from_elem`, `<alloc::vec::Vec<T> as ..>::from_iter`, and
/// `<u8 as alloc::vec::spec::..>::from_elem`, where the crate of the trait counts.
fn is_of(function: &str, crates: &[&str]) -> bool {
    let begins = |path: &str| {
        let path = path.trim_start_matches(['<', '&', '*', '[', '(']);
        crates.iter().any(|of| path.strip_prefix(of).is_some_and(|rest| rest.starts_with("::")))
    };
    match function.strip_prefix('<').and_then(|inner| inner.split_once(" as ")) {
        Some((_, of_trait)) => begins(of_trait),
        None => begins(function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>) -> Frame {
        Frame { address: 1, function: function.into(), file: file.map(PathBuf::from), line: None }
    }

    #[test]
    fn internals_are_told_from_the_program() {
        for internal in [
            "alloc::raw_vec::RawVecInner<A>::finish_grow",
            "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "core::ops::function::FnOnce::call_once",
            "<alloc::vec::Vec<u8>>::with_capacity",
            "std::thread::spawn",
            "__rustc[5224e6b81cd82a8f]::__rust_alloc",
            "__rust_realloc",
            "<allocanary::leaks::Leaks<A> as core::alloc::global::GlobalAlloc>::alloc",
            "hashbrown::raw::RawTable<T>::reserve_rehash",
        ] {
            assert!(is_internal(&frame(internal, None)), "{internal}");
        }
        for program in
            ["server::main", "allocator::grow", "<server::Cache as server::Store>::put", "stdout::x", "?", "main"]
        {
            assert!(!is_internal(&frame(program, Some("/home/me/alloc/src/cache.rs"))), "{program}");
        }
        assert!(is_own(&frame("allocanary::leaks::Leaks<A>::record", None)));
        assert!(!is_own(&frame("allocanary::leaksome::f", None)));
        // As line tables name what was inlined.
        assert!(is_internal(&frame("alloc", Some("/rustc/59807616e1fa/library/alloc/src/alloc.rs"))));
    }

    #[inline(never)]
    fn here() -> [usize; DEPTH] {
        std::hint::black_box(capture())
    }

    #[test]
    fn a_stack_names_its_functions() {
        let mut frames = Vec::new();
        // The own frames are dropped from a stack, so what is this module's must be looked at before.
        for address in here().into_iter().take_while(|address| *address != 0) {
            backtrace::resolve(address as *mut _, |symbol| frames.extend(symbol.name().map(|name| name.to_string())));
        }
        assert!(frames.iter().any(|name| name.contains("stack::tests::here")), "{frames:?}");
        assert_eq!(resolve(&[1, 0, 2])[0].function, "?");
    }
}
