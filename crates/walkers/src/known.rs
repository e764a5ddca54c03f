//! By what an allocator is known whose heap no walker has found. In: nothing. Out: the type of an entry.

/// By what an allocator is known whose heap no walker has found.
#[derive(Debug)]
pub struct AllocatorMark {
    /// Its name in readings.
    pub name: &'static str,
    /// The beginnings of its libraries' names.
    pub libraries: &'static [&'static str],
    /// A text in its constants that survives stripping, if it is looked for. It is reversed, so that this program does not have it.
    pub text: Option<&'static [u8]>,
    /// Whether it is mapped under every other allocator, too.
    pub is_below_others: bool,
}
