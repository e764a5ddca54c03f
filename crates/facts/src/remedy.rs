//! The names and arguments of the calls that make a running process give back memory. The crate `inside` makes the calls.

/// A call of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The call as in source code: `malloc_trim(0)`.
    pub name: String,
    /// Whether its failure may be ignored, for example because the thread has no cache.
    pub may_fail: bool,
    /// Whether the call starts a thread. A filter of system calls must then allow more of them.
    pub starts_thread: bool,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number; 0 is also the null pointer.
    Number(u64),
    /// A pointer to a text with a zero byte at its end.
    Text(String),
    /// A pointer to these bytes.
    Bytes(Vec<u8>),
}

/// What an allocator's call does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// The call only advises the kernel that pages are free, and moves the program break.
    Advises,
    /// The call also maps, unmaps and protects memory.
    Maps,
    /// The call opens a library, and the library creates a file.
    Opens,
}

/// The function of an allocator that gives memory back, and how to call it.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseCall {
    /// The allocator's name in readings of a heap: `glibc`.
    pub allocator: &'static str,
    /// The function.
    pub function: &'static str,
    /// The usual prefixes of the function's name. Each build of jemalloc chooses one.
    pub prefixes: &'static [&'static str],
    /// Another function of every build. A build with an unusual prefix, such as `duckdb_je_`, is found if both functions have this prefix.
    pub beside: Option<&'static str>,
    /// The calls, in order.
    pub calls: fn() -> Vec<FunctionCall>,
    /// Whether the function returns 0 if all went well. If not, its result says nothing about errors.
    pub zero_is_good: bool,
    /// What its calls do to memory.
    pub does: Does,
    /// Whether the call holds no other lock when it first waits for one. Then the call can be abandoned there.
    pub one_lock_at_a_time: bool,
}

impl ReleaseCall {
    /// The usual names of its function.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.prefixes.iter().map(|prefix| format!("{prefix}{}", self.function))
    }

    /// The prefix of `name`, if `name` may be this function with an unusual prefix. `name` must be a C name, such as `duckdb_je_mallctl`.
    pub fn other_prefix<'a>(&self, name: &'a str) -> Option<&'a str> {
        let is_c = |prefix: &&str| {
            let rest = prefix.strip_suffix('_').unwrap_or_default();
            !rest.is_empty() && !prefix.starts_with("_Z") && !self.prefixes.contains(prefix)
        };
        self.beside?;
        name.strip_suffix(self.function).filter(is_c)
    }
}

/// A call that starts no thread.
pub(crate) fn call(name: &str, arguments: Vec<Argument>, may_fail: bool) -> FunctionCall {
    FunctionCall { arguments, name: name.into(), may_fail, starts_thread: false }
}

/// A call of `mallctl`, with a new value or without one.
pub fn mallctl(name: &str, value: Option<Vec<u8>>, may_fail: bool) -> FunctionCall {
    let null = Argument::Number(0);
    let bytes = value.as_ref().map_or(0, Vec::len) as u64;
    let value = value.map_or(null.clone(), Argument::Bytes);
    call(name, vec![Argument::Text(name.into()), null.clone(), null, value, Argument::Number(bytes)], may_fail)
}
