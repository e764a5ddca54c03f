//! snmalloc, a library of Microsoft without settings.

use crate::descriptor::Descriptor;
use crate::library::Library;

/// Its name.
pub const NAME: &str = "snmalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    libraries: &[Library::plain(NAME, &["libsnmallocshim", "libsnmallocshim-checks"])],
    ..Descriptor::named(NAME)
};
