//! Finds the code in which a thread must not be borrowed: the code of an allocator, of the dynamic loader, and of `fork`, which waits for
//! other threads while it holds the allocator's locks.

use allocanary_heap::Mapping;
use serde::{Deserialize, Serialize};

use crate::give_back::functions::{CodeFunction, CodeFunctions};
use crate::give_back::name_space::is_loader;

/// What a piece of code belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CodeOwner {
    /// An allocator: a thread in it may hold its locks.
    Allocator,
    /// `fork`: its handlers may have taken the locks of an allocator.
    Fork,
    /// The dynamic loader, whose lock a thread holds while a library is opened.
    Loader,
    /// A wait for a condition. The thread has released its mutex for the time of the wait.
    Condition,
}

impl CodeOwner {
    /// Words for the text `inside of ...`.
    pub fn words(self) -> &'static str {
        match self {
            CodeOwner::Allocator => "the allocator",
            CodeOwner::Fork => "fork",
            CodeOwner::Loader => "the dynamic loader",
            CodeOwner::Condition => "a wait for a condition",
        }
    }
}

const ALLOCATOR: &[&str] = &[
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "malloc_info",
    "malloc_stats",
    "mallinfo",
    "mallinfo2",
    "mallopt",
    "malloc_usable_size",
    "reallocarray",
];
/// The beginnings of the names of allocators' functions in a program that has an allocator linked in.
const LINKED: &[&str] = &["je_", "_rjem_", "rjem_", "jemalloc_", "mi_", "_mi_", "tc_", "MallocExtension_", "mallctl"];
const FORK: &[&str] = &["fork", "__fork", "__libc_fork", "_Fork"];
const LOADER: &[&str] =
    &["dlopen", "dlmopen", "dlclose", "dlsym", "dl_iterate_phdr", "_dl_open", "_dl_close", "_dl_fini"];
const CONDITION: &[&str] = &["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"];
/// A function that only glibc's malloc has. All code between that malloc's functions belongs to it too.
const GLIBC: &str = "__libc_malloc";

/// Whether a function of this name shows what the code around it belongs to.
pub fn is_wanted(name: &str) -> bool {
    of_name(name).is_some() || name == GLIBC
}

fn of_name(name: &str) -> Option<CodeOwner> {
    let is_of = |names: &[&str]| names.contains(&name);
    if is_of(ALLOCATOR) || LINKED.iter().any(|begin| name.starts_with(begin)) {
        Some(CodeOwner::Allocator)
    } else if is_of(FORK) {
        Some(CodeOwner::Fork)
    } else if is_of(LOADER) {
        Some(CodeOwner::Loader)
    } else {
        is_of(CONDITION).then_some(CodeOwner::Condition)
    }
}

/// The code of a process, by what it belongs to.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<(u64, u64, CodeOwner)>);

impl Places {
    /// Finds the places by the process's functions and mappings.
    pub fn of(found: &CodeFunctions, mappings: &[Mapping]) -> Places {
        let mut places = Places::default();
        let (functions, prefixes) = (&found.all, found.prefixes());
        for function in functions {
            let is_of = |(prefix, file): &(&str, &str)| function.file == *file && function.name.starts_with(prefix);
            let by_prefix = prefixes.iter().any(is_of).then_some(CodeOwner::Allocator);
            if let Some(place) = of_name(&function.name).or(by_prefix) {
                places.0.push((function.at, function.at.saturating_add(function.bytes.max(1)), place));
            }
        }
        for own in functions.iter().filter(|one| one.name == GLIBC) {
            // A process can have several C libraries of one file, with other libraries between them.
            let Some(code) = mappings.iter().find(|one| one.executable && (one.from..one.to).contains(&own.at)) else {
                continue;
            };
            let is_own = |one: &&CodeFunction| {
                (code.from..code.to).contains(&one.at)
                    && one.name != "reallocarray"
                    && ALLOCATOR.contains(&one.name.as_str())
            };
            let all = || functions.iter().filter(is_own);
            let (from, to) = (all().map(|one| one.at).min(), all().map(|one| one.at.saturating_add(one.bytes)).max());
            places.0.extend(from.zip(to).map(|(from, to)| (from, to, CodeOwner::Allocator)));
        }
        for mapping in mappings.iter().filter(|one| one.executable && one.inode != 0) {
            if let Some(place) = of_file(mapping, functions) {
                places.0.push((mapping.from, mapping.to, place));
            }
        }
        places
    }

    /// What an address belongs to.
    pub fn at(&self, address: u64) -> Option<CodeOwner> {
        self.0.iter().find(|(from, to, _)| (*from..*to).contains(&address)).map(|(.., place)| *place)
    }
}

/// What all code of a file belongs to, if it is the loader or a library that is an allocator.
fn of_file(mapping: &Mapping, functions: &[CodeFunction]) -> Option<CodeOwner> {
    if is_loader(&mapping.name) {
        return Some(CodeOwner::Loader);
    }
    let path = mapping.name.trim_end_matches(" (deleted)");
    let name = path.rsplit('/').next().unwrap_or_default();
    let has = |wanted: &str| functions.iter().any(|one| one.file == mapping.name && one.name == wanted);
    // A C library and a program contain more code than that of an allocator.
    (name.contains(".so") && has("malloc") && !has(GLIBC) && !has("fork")).then_some(CodeOwner::Allocator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, at: u64, file: &str) -> CodeFunction {
        CodeFunction { name: name.into(), at, bytes: 16, file: file.into(), inode: 1 }
    }

    fn found(functions: &[CodeFunction]) -> CodeFunctions {
        CodeFunctions { all: functions.to_vec(), looked: Vec::new() }
    }

    #[test]
    fn code_of_a_jemalloc_with_an_unusual_prefix_is_the_allocators() {
        let function = |name: &str, at| function(name, at, "/duckdb.so");
        let all = [function("duckdb_je_mallctl", 0x100), function("duckdb_je_mallctlbymib", 0x200)];
        let inner = function("duckdb_je_arena_bin_choose", 0x300);
        let places = Places::of(&found(&[&all[..], std::slice::from_ref(&inner)].concat()), &[]);
        assert_eq!((places.at(0x305), places.at(0x400)), (Some(CodeOwner::Allocator), None));
        assert_eq!(Places::of(&found(&[inner]), &[]).at(0x305), None);
    }

    #[test]
    fn code_is_known_by_its_function_by_those_around_it_or_by_its_file() {
        let code = |from, name: &str| {
            let name = name.into();
            Mapping { from, to: from + 0x1000, executable: true, inode: 7, name, ..Mapping::default() }
        };
        let mappings = [
            code(0x1000, "/lib/libc.so.6"),
            code(0x9000, "/lib/libjemalloc.so.2"),
            code(0xb000, "/lib/ld-linux-x86-64.so.2"),
        ];
        let libc = |name, at| function(name, at, "/lib/libc.so.6");
        let functions = [
            libc("__libc_malloc", 0x1100),
            libc("malloc", 0x1100),
            libc("free", 0x1200),
            libc("fork", 0x1300),
            libc("pthread_cond_wait", 0x1400),
            function("malloc", 0x9100, "/lib/libjemalloc.so.2"),
            function("je_tcache_flush", 0x500, "/bin/server"),
        ];
        let places = Places::of(&found(&functions), &mappings);
        assert_eq!(places.at(0x1180), Some(CodeOwner::Allocator), "between two functions of the same malloc");
        assert_eq!(
            (places.at(0x1300), places.at(0x130f), places.at(0x1310)),
            (Some(CodeOwner::Fork), Some(CodeOwner::Fork), None)
        );
        assert_eq!((places.at(0x1401), places.at(0x508)), (Some(CodeOwner::Condition), Some(CodeOwner::Allocator)));
        assert_eq!(
            (places.at(0x9ff0), places.at(0xb000), places.at(0x1000)),
            (Some(CodeOwner::Allocator), Some(CodeOwner::Loader), None)
        );
    }

    #[test]
    fn code_between_two_c_libraries_of_one_file_is_no_allocator() {
        let code = |from| Mapping {
            from,
            to: from + 0x1000,
            executable: true,
            inode: 7,
            name: LIBC.into(),
            ..Mapping::default()
        };
        let functions = [0x1000, 0x9000].map(|at| {
            [("__libc_malloc", 0x100), ("malloc", 0x100), ("free", 0x200)]
                .map(|(name, place)| function(name, at + place, LIBC))
        });
        let places = Places::of(&found(functions.as_flattened()), &[code(0x1000), code(0x9000)]);
        let at = [0x1180, 0x9180, 0x5000, 0x1f00].map(|at| places.at(at));
        assert_eq!(at, [Some(CodeOwner::Allocator), Some(CodeOwner::Allocator), None, None]);
    }

    const LIBC: &str = "/lib/libc.so.6";
}
