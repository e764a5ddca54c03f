//! snmalloc, a library of Microsoft without settings.

use crate::descriptor::Descriptor;
use crate::library::LibraryKind;

/// Its name.
pub const NAME: &str = "snmalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    libraries: &[LibraryKind::plain(NAME, &["libsnmallocshim", "libsnmallocshim-checks"])],
    ..Descriptor::named(NAME)
};
