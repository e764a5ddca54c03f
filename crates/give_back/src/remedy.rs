//! The calls that give memory back, for each allocator. Adding an allocator is one entry of [`ALL`].

/// A call of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// What a person calls it: `malloc_trim(0)`.
    pub name: String,
    /// Its failure does not matter: the thread has no cache, for example.
    pub may_fail: bool,
    /// Whether it starts a thread, for which a filter of system calls has to allow more.
    pub starts_thread: bool,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number, or a null pointer.
    Number(u64),
    /// A pointer to a text with a zero byte at its end.
    Text(String),
    /// A pointer to these bytes.
    Bytes(Vec<u8>),
}

/// What an allocator's call does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It only tells the kernel that pages are free, and moves the program break.
    Advises,
    /// It maps, unmaps and protects memory as well.
    Maps,
}

/// What an allocator is asked.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// The allocator's name, as its walker has it: `glibc`.
    pub allocator: &'static str,
    /// The function.
    pub function: &'static str,
    /// What may stand before its name: a build of jemalloc chooses one.
    pub prefixes: &'static [&'static str],
    /// What to call.
    pub calls: fn() -> Vec<Call>,
    /// Whether an answer of the function other than 0 is an error.
    pub zero_is_good: bool,
    /// What its calls do to memory.
    pub does: Does,
    /// Whether the first lock that the call waits for is the only one that it may hold, so that it can be taken back there.
    pub one_lock_at_a_time: bool,
}

/// All of them.
pub const ALL: &[Remedy] = &[
    Remedy {
        allocator: "glibc",
        function: "malloc_trim",
        prefixes: &[""],
        calls: || vec![call("malloc_trim(0)", vec![Argument::Number(0)], false)],
        // It answers 1 if memory was given back.
        zero_is_good: false,
        does: Does::Advises,
        one_lock_at_a_time: true,
    },
    Remedy {
        allocator: "jemalloc",
        function: "mallctl",
        prefixes: &["", "je_", "_rjem_", "jemalloc_"],
        calls: || vec![mallctl("thread.tcache.flush", None, true), mallctl(PURGE, None, false)],
        zero_is_good: true,
        does: Does::Maps,
        one_lock_at_a_time: false,
    },
    Remedy {
        allocator: "mimalloc",
        function: "mi_collect",
        prefixes: &[""],
        calls: || vec![call("mi_collect(true)", vec![Argument::Number(1)], false)],
        zero_is_good: false,
        does: Does::Maps,
        one_lock_at_a_time: false,
    },
    Remedy {
        allocator: "tcmalloc",
        // Of gperftools. It has no answer, and what is taken for one is left over.
        function: "MallocExtension_ReleaseFreeMemory",
        prefixes: &[""],
        calls: || vec![call("MallocExtension_ReleaseFreeMemory()", Vec::new(), false)],
        zero_is_good: false,
        does: Does::Maps,
        one_lock_at_a_time: false,
    },
];

/// All arenas: `MALLCTL_ARENAS_ALL` of every jemalloc from 5.0 on.
const PURGE: &str = "arena.4096.purge";

/// The remedy of an allocator.
pub fn of(allocator: &str) -> Option<&'static Remedy> {
    ALL.iter().find(|remedy| remedy.allocator == allocator)
}

impl Remedy {
    /// The names that its function may have.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.prefixes.iter().map(|prefix| format!("{prefix}{}", self.function))
    }
}

fn call(name: &str, arguments: Vec<Argument>, may_fail: bool) -> Call {
    Call { arguments, name: name.into(), may_fail, starts_thread: false }
}

/// `mallctl`, with a new value or without.
pub fn mallctl(name: &str, value: Option<Vec<u8>>, may_fail: bool) -> Call {
    let null = Argument::Number(0);
    let bytes = value.as_ref().map_or(0, Vec::len) as u64;
    let value = value.map_or(null.clone(), Argument::Bytes);
    call(name, vec![Argument::Text(name.into()), null.clone(), null, value, Argument::Number(bytes)], may_fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_has_its_calls_and_another_none() {
        let names = |allocator| (of(allocator).unwrap().calls)().into_iter().map(|call| call.name).collect::<Vec<_>>();
        assert_eq!(names("glibc"), ["malloc_trim(0)"]);
        assert_eq!(names("jemalloc"), ["thread.tcache.flush", "arena.4096.purge"]);
        assert_eq!(names("mimalloc"), ["mi_collect(true)"]);
        assert!(of("snmalloc").is_none());
        assert!(of("jemalloc").unwrap().names().any(|name| name == "_rjem_mallctl"));
    }

    #[test]
    fn a_new_value_is_passed_with_its_length() {
        let call = mallctl("background_thread", Some(vec![1]), false);
        assert_eq!(call.arguments[3..], [Argument::Bytes(vec![1]), Argument::Number(1)]);
        assert_eq!(mallctl("epoch", None, false).arguments[3..], [Argument::Number(0), Argument::Number(0)]);
    }
}
