//! How to recognise an allocator if no walker has found its heap.

/// How to recognise an allocator if no walker has found its heap.
#[derive(Debug)]
pub struct AllocatorMark {
    /// Its name in reports.
    pub name: &'static str,
    /// Its library's file name begins with one of these.
    pub libraries: &'static [&'static str],
    /// A text among its constants, which remains in a stripped program. It is stored reversed, so that this program does not contain it.
    /// `None` if the text is not searched.
    pub text: Option<&'static [u8]>,
    /// Whether programs that use another allocator have this library too (the C library).
    pub is_below_others: bool,
}
