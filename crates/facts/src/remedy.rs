//! The calls that make a running process give back memory. In: nothing. Out: names and arguments. The crate `inside` makes
//! the calls.

/// A call of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The call as a person writes it: `malloc_trim(0)`.
    pub name: String,
    /// Whether its failure may be ignored, for example because the thread has no cache.
    pub may_fail: bool,
    /// Whether it starts a thread. A filter of system calls must then allow more.
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
    /// It opens a library, and the library creates a file.
    Opens,
}

/// How an allocator is asked to give back memory.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseCall {
    /// The allocator's name in readings of a heap: `glibc`.
    pub allocator: &'static str,
    /// The function.
    pub function: &'static str,
    /// The usual prefixes of the function's name: each build of jemalloc chooses one.
    pub prefixes: &'static [&'static str],
    /// A function that every build has beside it. By this one another prefix is known, such as `duckdb_je_`.
    pub beside: Option<&'static str>,
    /// The calls, in order.
    pub calls: fn() -> Vec<FunctionCall>,
    /// Whether a result of the function other than 0 is an error.
    pub zero_is_good: bool,
    /// What its calls do to memory.
    pub does: Does,
    /// Whether the call holds no other lock when it first waits for one. Then it can be abandoned there.
    pub one_lock_at_a_time: bool,
}

impl ReleaseCall {
    /// The usual names of its function.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.prefixes.iter().map(|prefix| format!("{prefix}{}", self.function))
    }

    /// The prefix of a name, if that may be its function with another prefix than the usual ones: a C name, such as `duckdb_je_mallctl`.
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
