//! rpmalloc: a library from another project, without settings.

use crate::descriptor::Descriptor;
use crate::library::LibraryKind;

/// Its name.
pub const NAME: &str = "rpmalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor = Descriptor {
    libraries: &[LibraryKind::plain(NAME, &["librpmalloc", "librpmallocwrap"])],
    ..Descriptor::named(NAME)
};
