//! Finds the site in a stack: the first frame, from the innermost on, that belongs neither to an allocator nor to a runtime.

mod python;
mod skip;
mod wrappers;

use std::collections::BTreeMap;

use allocanary_names::{FrameNames, NamedFrame};
use allocanary_profile::own::is_own;
use allocanary_trace::stacks::{CodePlace, StackId};

pub use skip::Skip;

/// How allocations are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By the function.
    #[default]
    Function,
    /// By the line of the function.
    Line,
    /// By the program or library.
    Module,
    /// By the thread that allocated.
    Thread,
}

/// All groupings with their names.
pub const BYS: [(&str, By); 4] =
    [("function", By::Function), ("line", By::Line), ("module", By::Module), ("thread", By::Thread)];

/// The kind of code that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Program,
    /// A function of Python's standard library.
    Script,
    /// A language's or the C library.
    Runtime,
    /// `malloc` and its relatives, and small functions around them.
    Allocator,
}

/// Libraries with only functions of an allocator or of the recorder.
const ALLOCATORS: &[&str] = &["preload-", "libjemalloc", "libmimalloc", "libtcmalloc", "libsnmalloc"];

/// Libraries with only functions of a runtime.
const RUNTIMES: &[&str] = &[
    "libc.so",
    "libc-2",
    "ld-linux",
    "ld-2",
    "ld-musl",
    "libpthread",
    "libdl",
    "libm.so",
    "libstdc++",
    "libc++",
    "libgcc_s",
];

/// Beginnings of qualified names: the standard libraries of C++ and Rust.
const STANDARD: &[&str] =
    &["std::", "core::", "alloc::", "hashbrown::", "__gnu_cxx::", "__cxxabiv1::", "compiler_builtins::", "__rustc::"];

/// Parts of paths of source files of the same libraries: inlined functions may have only a short name.
const SOURCES: &[&str] = &["/rustlib/src/rust/library/", "/hashbrown-", "/usr/include/c++/"];

/// Beginnings of names of functions that compilers emit around allocators and for the start of a program.
const EMITTED: &[&str] = &["__rust_", "__rdl_", "__rg_", "_start", "__libc_start", "start_thread", "clone3", "__clone"];

/// The functions of an allocator.
const FAMILY: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
    "recallocarray",
    "mallocx",
    "rallocx",
    "xallocx",
];

/// Prefixes of these names in allocators.
const EXPORTED: &[&str] = &["", "__libc_", "__GI_", "_int_", "je_", "mi_", "tc_", "sn_"];

/// More names of such functions, in libraries and programs.
const COPIES: &[&str] = &["strdup", "strndup", "memdup", "alloc", "zalloc"];

/// Prefixes of the names of the wrappers of well-known programs and libraries.
const BEFORE: &[&str] = &[
    "g_",
    "jv_mem_",
    "rpl_",
    "php_",
    "_e",
    "ztry",
    "PyMem_Raw",
    "PyMem_",
    "PyObject_",
    "_PyMem_Raw",
    "_PyMem_",
    "_PyObject_",
    "sqlite3Mem",
    "sqlite3",
    "OPENSSL_",
    "CRYPTO_",
    "x",
    "z",
    "_",
    "__",
];

/// Suffixes of these names in programs.
const BEHIND: &[&str] = &[
    "WithType",
    "_usable_internal",
    "_usable",
    "_internal",
    "_n",
    "_hook",
    "_array",
    "_num",
    "_size",
    "_bytes",
    "_zero",
    "z",
    "0",
];

/// The functions that are passed over, in addition to those that are known by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folding {
    /// Whether only the allocator itself, and functions that the user named, are passed over.
    pub is_off: bool,
    /// Functions that the user named.
    pub skip: Skip,
    /// Functions that only call malloc for their caller, by module and name. For each, the number of functions that call it.
    pub wrappers: BTreeMap<(String, String), usize>,
}

impl Folding {
    /// Whether a function is passed over.
    fn has(&self, frame: &NamedFrame) -> bool {
        let is_wrapper = || {
            // Checked first, because most traces have none.
            !self.wrappers.is_empty() && self.wrappers.contains_key(&(frame.module.clone(), frame.function.clone()))
        };
        self.skip.has(frame) || is_wrapper()
    }
}

/// The index of the site among the frames of a stack. If all frames are of runtimes, it is the caller of the allocator. If the stack has a
/// function of Python, the interpreter is a runtime too. If the user's patterns match all frames, it is the outermost one.
pub fn site(frames: &[NamedFrame], folding: &Folding) -> Option<usize> {
    let is_python = frames.iter().any(python::is_function);
    let part = |frame: &NamedFrame| match part(frame) {
        _ if folding.has(frame) || is_allocator(frame) => Part::Allocator,
        _ if folding.is_off => Part::Program,
        Part::Program if is_python && python::is_interpreter(frame) => Part::Runtime,
        part => part,
    };
    let first = |wanted: Part| frames.iter().position(|frame| part(frame) <= wanted);
    first(Part::Program)
        .or_else(|| first(Part::Script))
        .or_else(|| first(Part::Runtime))
        .or(frames.len().checked_sub(1))
}

/// Whether a function belongs to a language's runtime or the C library. Such functions are the outermost frames of every program.
pub fn is_runtime(frame: &NamedFrame) -> bool {
    part(frame) == Part::Runtime
}

/// The return addresses of a stack from the caller of the allocator on; all of them if every frame is of the
/// allocator. In the outputs for other tools the bytes of such frames are the caller's.
pub fn callers(names: &mut FrameNames<'_>, stack: StackId, folding: &Folding) -> Vec<CodePlace> {
    let all = names.codes(stack);
    let is_inner = |frame: &NamedFrame| is_allocator(frame) || !folding.is_off && part(frame) == Part::Allocator;
    let first = all.iter().position(|code| !names.frames(*code).iter().all(is_inner)).unwrap_or(0);
    all[first..].to_vec()
}

/// Whether a function belongs to the allocator, or to the recorder in front of it.
fn is_allocator(frame: &NamedFrame) -> bool {
    let name = plain_name(frame);
    ALLOCATORS.iter().any(|start| frame.module.starts_with(start))
        || is_own(name)
        || EXPORTED.iter().filter_map(|start| name.strip_prefix(start)).any(|name| FAMILY.contains(&name))
}

/// The qualified name of a function; nothing if it has none.
fn plain_name(frame: &NamedFrame) -> &str {
    if frame.is_named() { qualified(&frame.function) } else { "" }
}

fn part(frame: &NamedFrame) -> Part {
    if python::is_function(frame) {
        return if python::is_library(&frame.file) { Part::Script } else { Part::Program };
    }
    let is_in = |list: &[&str]| list.iter().any(|name| frame.module.starts_with(name));
    let name = plain_name(frame);
    if is_allocator(frame) || is_family(name) || name.starts_with("operator new") || name.starts_with("operator delete")
    {
        Part::Allocator
    } else if is_in(RUNTIMES)
        || is_standard(name)
        || frame.file.starts_with("/rustc/")
        || SOURCES.iter().any(|part| frame.file.contains(part))
    {
        Part::Runtime
    } else {
        Part::Program
    }
}

/// Whether a function belongs to a standard library, by its name. This includes a slice's own functions, and the library's traits for
/// slices.
fn is_standard(name: &str) -> bool {
    let begins = |name: &str| STANDARD.iter().chain(EMITTED).any(|start| name.starts_with(start));
    let of_slice = || name.starts_with('[') && name.split_once(" as ").is_none_or(|(_, of)| begins(of));
    begins(name) || of_slice()
}

/// `xmalloc`, `zmalloc_usable`, `PyObject_Malloc`.
fn is_family(name: &str) -> bool {
    if name.contains(':') {
        return false;
    }
    let is_known = |name: &str| FAMILY.iter().chain(COPIES).any(|known| name.eq_ignore_ascii_case(known));
    let ends = |name: &str| is_known(name) || BEHIND.iter().filter_map(|end| name.strip_suffix(end)).any(is_known);
    // `alloc` alone may be the name of any function.
    let begins = EXPORTED.iter().chain(BEFORE);
    name != "alloc" && begins.filter_map(|start| name.strip_prefix(start)).any(ends)
}

/// The qualified name in a demangled one: without a type before it, without parameters, and for `<T as Trait>::call` that of T.
fn qualified(function: &str) -> &str {
    let mut depth = 0;
    let mut start = 0;
    if !function.starts_with("operator ") {
        for (at, letter) in function.char_indices() {
            match letter {
                '<' => depth += 1,
                '>' => depth -= 1,
                '(' if depth == 0 && at > 0 => break,
                ' ' if depth == 0 => start = at + 1,
                _ => {}
            }
        }
    }
    let name = function.get(start..).filter(|name| !name.is_empty()).unwrap_or(function);
    name.trim_start_matches(['<', '&', '*', '('])
}

/// The name of a site's group. Sites of one group have the same name and the same module.
pub fn label(frame: &NamedFrame, by: By) -> String {
    match by {
        By::Line if frame.line > 0 => format!("{} {}:{}", frame.function, short(&frame.file), frame.line),
        By::Module if frame.module.is_empty() => "(no file)".into(),
        By::Module => frame.module.clone(),
        _ => frame.function.clone(),
    }
}

/// The last part of a path.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use allocanary_names::NameSource;
    use allocanary_trace::stacks::{StackNode, Stacks, TraceModule};

    use super::*;

    fn frame(module: &str, function: &str) -> NamedFrame {
        NamedFrame {
            function: function.into(),
            source: if function.contains("+0x") { NameSource::None } else { NameSource::Symbols },
            module: module.into(),
            ..NamedFrame::default()
        }
    }

    #[test]
    fn allocators_and_runtimes_are_folded_away() {
        let of = |frames: &[(&str, &str)]| {
            let frames: Vec<NamedFrame> = frames.iter().map(|(module, function)| frame(module, function)).collect();
            site(&frames, &Folding::default()).map(|at| frames[at].function.clone()).unwrap_or_default()
        };
        let redis = [
            ("preload-record", "malloc"),
            ("redis-server", "ztrymalloc_usable_internal"),
            ("redis-server", "zmalloc"),
            ("redis-server", "_sdsnewlen"),
            ("redis-server", "main"),
        ];
        assert_eq!(of(&redis), "_sdsnewlen");
        let rust = [
            ("service", "__rust_alloc"),
            ("service", "alloc::alloc::alloc"),
            ("service", "<alloc::alloc::Global as core::alloc::Allocator>::allocate"),
            ("service", "alloc::raw_vec::RawVecInner<A>::try_allocate_in"),
            ("service", "<alloc::string::String as core::clone::Clone>::clone"),
            ("service", "service::cache::insert"),
            ("service", "std::rt::lang_start"),
        ];
        assert_eq!(of(&rust), "service::cache::insert");
        let records_itself = [
            ("service", "allocanary_recorder::calls::allocated_with_stack"),
            ("service", "<allocanary::recording::Recording<A> as core::alloc::global::GlobalAlloc>::alloc"),
            ("service", "service::cache::insert"),
        ];
        assert_eq!(of(&records_itself), "service::cache::insert");
        let cpp = [
            ("libstdc++.so.6", "operator new(unsigned long)"),
            ("app", "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int*, int&&)"),
            ("app", "std::map<int, Foo(int)>::operator[](int const&)"),
            ("app", "Cache<std::string>::put(std::string const&)"),
            ("app", "main"),
        ];
        assert_eq!(of(&cpp), "Cache<std::string>::put(std::string const&)");
        assert_eq!(
            of(&[("libc.so.6", "malloc"), ("libc.so.6", "fopen"), ("ld-linux-x86-64.so.2", "_dl_start")]),
            "fopen"
        );
        assert_eq!(of(&[("libc.so.6", "malloc")]), "malloc", "there is no other");
        assert_eq!(of(&[("libc.so.6", "libc.so.6+0x12"), ("app", "app+0x34")]), "app+0x34");
        assert_eq!(of(&[]), "");
    }

    #[test]
    fn without_folding_the_site_is_the_caller_of_the_allocator() {
        let off = Folding { is_off: true, ..Folding::default() };
        let of = |frames: &[(&str, &str)]| {
            let frames: Vec<NamedFrame> = frames.iter().map(|(module, function)| frame(module, function)).collect();
            site(&frames, &off).map(|at| frames[at].function.clone()).unwrap_or_default()
        };
        for caller in ["xmalloc", "buffer_realloc", "strdup", "operator new(unsigned long)", "std::string::reserve"] {
            assert_eq!(of(&[("preload-record", "malloc"), ("app", caller), ("app", "main")]), caller);
        }
        assert_eq!(of(&[("libc.so.6", "malloc"), ("libc.so.6", "fopen"), ("app", "main")]), "fopen");
        assert_eq!(of(&[("app", "je_calloc"), ("app", "mi_malloc"), ("app", "main")]), "main");
    }

    #[test]
    fn a_function_that_is_merely_called_alike_is_not_folded() {
        for name in [
            "dictAddRaw",
            "free_list_add",
            "allocate_session",
            "xmlNewNode",
            "alloc",
            "zset_insert",
            "Pool::alloc",
            "mallocator",
            "my_strdup",
            "buffer_realloc",
            "table_calloc",
        ] {
            assert_eq!(part(&frame("app", name)), Part::Program, "{name}");
        }
        for name in [
            "xmalloc",
            "xstrdup",
            "zcalloc",
            "g_malloc0",
            "PyObject_Malloc",
            "_PyObject_MallocWithType",
            "sqlite3Malloc",
            "__libc_malloc",
            "je_mallocx",
            "zmalloc_usable",
            "zcalloc_num",
            "CRYPTO_zalloc",
            "jv_mem_alloc",
        ] {
            assert_eq!(part(&frame("app", name)), Part::Allocator, "{name}");
        }
    }

    #[test]
    fn a_standard_library_is_known_by_its_types_and_its_sources() {
        let is = |function: &str, file: &str| part(&NamedFrame { file: file.into(), ..frame("app", function) });
        assert_eq!(is("__rustc::__rust_alloc", ""), Part::Runtime);
        assert_eq!(is("<&[u8] as core::convert::Into<alloc::boxed::Box<[u8]>>>::into", ""), Part::Runtime);
        assert_eq!(is("<[T] as app::Sum>::sum", ""), Part::Program, "a trait of the program");
        assert_eq!(is("<[_]>::to_vec", ""), Part::Runtime);
        for file in ["/rustc/f2a1/library/alloc/src/raw_vec.rs", "/usr/include/c++/12/bits/new_allocator.h"] {
            assert_eq!((is("grow", file), is("grow", "/src/grow.rs")), (Part::Runtime, Part::Program));
        }
    }

    #[test]
    fn a_label_says_what_the_group_is() {
        let frame = NamedFrame { file: "/src/dict.c".into(), line: 41, ..frame("redis-server", "dictAddRaw") };
        assert_eq!(label(&frame, By::Function), "dictAddRaw");
        assert_eq!(label(&frame, By::Line), "dictAddRaw dict.c:41");
        assert_eq!(label(&frame, By::Module), "redis-server");
        assert_eq!(label(&NamedFrame { line: 0, ..frame }, By::Line), "dictAddRaw");
    }

    #[test]
    fn the_allocators_own_frames_are_left_out_for_other_tools() {
        let node = |parent, pc| StackNode { parent, pc, module: 0 };
        let module =
            |path: &str, start| TraceModule { start, end: start + 100, path: path.into(), ..TraceModule::default() };
        let stacks = Stacks {
            nodes: vec![node(0, 0), node(0, 150), node(1, 250), node(2, 350), node(0, 351)],
            modules: vec![module("app", 100), module("libc.so.6", 200), module("libjemalloc.so.2", 300)],
        };
        let mut names = FrameNames::of(&stacks);
        let mut of =
            |stack| callers(&mut names, stack, &Folding::default()).iter().map(|code| code.pc).collect::<Vec<_>>();
        assert_eq!(of(3), [250, 150], "libc is a caller like others here");
        assert_eq!(of(4), [351], "there is no caller");
    }
}
