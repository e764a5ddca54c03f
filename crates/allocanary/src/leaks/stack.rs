//! Stacks of a program. In: the calling thread, or code addresses. Out: code addresses, or functions with file and
//! line.

use std::path::PathBuf;

use super::table::DEPTH;

/// One function of a stack. An inlined function has a separate frame, with the address of the function that contains
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The code address.
    pub address: usize,
    /// The function's path, without the hash; `?` if the program's symbols do not name it.
    pub function: String,
    /// The source file, if the program has line tables.
    pub file: Option<PathBuf>,
    /// The line in that file.
    pub line: Option<u32>,
}

/// The code addresses of the calling thread's stack, innermost first. After the last one comes 0.
///
/// It does not take the lock of `backtrace::trace`, which unwinding on Linux does not need. A lock that one thread holds while another
/// forks would stay locked in the child.
#[inline(always)]
pub fn capture() -> [usize; DEPTH] {
    let mut frames = [0; DEPTH];
    let mut depth = 0;
    // SAFETY: only dbghelp, on Windows, needs synchronisation; here it is the unwinder, which any threads may use at
    // once.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            frames[depth] = frame.ip() as usize;
            depth += 1;
            depth < DEPTH
        });
    }
    frames
}

/// Names the functions of a stack, without the allocator's own frames on top. Allocates, reads the program's file, and
/// is slow.
pub fn resolve(addresses: &[usize]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for &address in addresses.iter().take_while(|address| **address != 0) {
        let before = frames.len();
        backtrace::resolve(address as *mut _, |symbol| {
            // `#` omits the hash of the name.
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

/// The allocator's own frames are among the first 14 of a stack.
const OWN: usize = 14;

/// The frame that names a site: the innermost that belongs neither to the allocator nor to the standard library.
pub fn title(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !is_internal(frame)).or(frames.first())
}

/// Whether a frame is the allocator's own, by the function's path or the file's: line tables give inlined functions without their path.
fn is_own(frame: &Frame) -> bool {
    let crates = ["backtrace", "allocanary::leaks", "allocanary::counting"];
    let shims = ["__rust_alloc", "__rust_realloc", "__rustc::", "__rg_"];
    is_of(&frame.function, &crates)
        || shims.iter().any(|word| frame.function.contains(word))
        || in_file(frame, &["/backtrace-0."])
}

fn is_internal(frame: &Frame) -> bool {
    let library = ["library/alloc/src/", "library/core/src/", "library/std/src/", "/hashbrown-"];
    is_own(frame) || is_librarys(&frame.function) || in_file(frame, &library)
}

/// Whether a function's path belongs to the standard library. A method of a trait does if trait and type are both the library's, or if the
/// type is built into the language. `<server::Parser as core::iter::..::Iterator>::next` is the program's.
fn is_librarys(function: &str) -> bool {
    let begins = |path: &str| begins_with(path, &["alloc", "core", "std", "hashbrown"]);
    // Traits that the library implements for all types, and that a program hardly ever implements: `<server::Row as
    // alloc::slice::hack::ConvertVec>`.
    let blanket = ["alloc::slice", "alloc::vec", "alloc::string"];
    match type_and_trait(function) {
        // Only the library may implement its traits for a slice, a tuple or a pointer, whatever the element type.
        Some((of_type, of_trait)) => {
            let is_language = !of_type.contains("::") || of_type.starts_with(['[', '(', '*']);
            begins_with(of_trait, &blanket) || begins(of_trait) && (is_language || begins(of_type))
        }
        None => begins(function),
    }
}

fn in_file(frame: &Frame, parts: &[&str]) -> bool {
    let file = frame.file.as_ref().map(|file| file.to_string_lossy());
    file.is_some_and(|file| parts.iter().any(|part| file.contains(part)))
}

/// Whether a function is in one of the modules, or in an implementation for a type or of a trait of theirs.
fn is_of(function: &str, modules: &[&str]) -> bool {
    match type_and_trait(function) {
        Some((of_type, of_trait)) => begins_with(of_type, modules) || begins_with(of_trait, modules),
        None => begins_with(function, modules),
    }
}

/// The type and the trait of `<type as trait>::function`.
fn type_and_trait(function: &str) -> Option<(&str, &str)> {
    function.strip_prefix('<')?.split_once(" as ")
}

/// Whether the path of a function, a type or a trait is in one of the modules: `alloc::vec::from_elem`, `&mut alloc::..`.
fn begins_with(mut path: &str, modules: &[&str]) -> bool {
    let marks = ["<", "&", "*", "[", "(", "mut ", "const ", "dyn "];
    while let Some(rest) = marks.iter().find_map(|mark| path.strip_prefix(mark)) {
        path = rest;
    }
    modules.iter().any(|module| path.strip_prefix(module).is_some_and(|rest| rest.starts_with("::")))
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
            "<allocanary::counting::Counting<A> as core::alloc::global::GlobalAlloc>::alloc",
            "hashbrown::raw::RawTable<T>::reserve_rehash",
            "<T as core::convert::Into<U>>::into",
            "<alloc::vec::Vec<server::Row> as core::clone::Clone>::clone",
            "<&mut alloc::string::String as core::fmt::Write>::write_str",
            "<&mut dyn core::fmt::Write as core::fmt::Write>::write_str",
            "<[server::Row] as alloc::borrow::ToOwned>::to_owned",
            "<server::Row as alloc::slice::hack::ConvertVec>::to_vec",
            "<server::Row as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
        ] {
            assert!(is_internal(&frame(internal, None)), "{internal}");
        }
        for program in [
            "server::main",
            "allocator::grow",
            "<server::Cache as server::Store>::put",
            "<server::Parser as core::iter::traits::iterator::Iterator>::next",
            "<server::Pool<alloc::vec::Vec<u8>> as core::iter::traits::iterator::Iterator>::next",
            "<&server::Cache as core::iter::traits::collect::IntoIterator>::into_iter",
            "<server::Row as core::convert::From<alloc::string::String>>::from",
            "<alloc::vec::Vec<u8> as server::Store>::put",
            "<server::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once",
            "stdout::x",
            "?",
            "main",
        ] {
            assert!(!is_internal(&frame(program, Some("/home/me/alloc/src/cache.rs"))), "{program}");
        }
        assert!(is_own(&frame("allocanary::leaks::Leaks<A>::record", None)));
        assert!(!is_own(&frame("allocanary::leaksome::f", None)));
        // The form in which line tables name inlined functions.
        assert!(is_internal(&frame("alloc", Some("/rustc/59807616e1fa/library/alloc/src/alloc.rs"))));
    }

    #[inline(never)]
    fn here() -> [usize; DEPTH] {
        std::hint::black_box(capture())
    }

    #[test]
    fn a_stack_names_its_functions() {
        let mut frames = Vec::new();
        // A resolved stack no longer has this module's frames, so the test reads the addresses before that.
        for address in here().into_iter().take_while(|address| *address != 0) {
            backtrace::resolve(address as *mut _, |symbol| frames.extend(symbol.name().map(|name| name.to_string())));
        }
        assert!(frames.iter().any(|name| name.contains("stack::tests::here")), "{frames:?}");
        assert_eq!(resolve(&[1, 0, 2])[0].function, "?");
    }
}
