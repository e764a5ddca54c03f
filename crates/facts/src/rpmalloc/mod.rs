//! rpmalloc: a library from another project, without settings.

use crate::descriptor::Descriptor;
use crate::library::Library;

/// Its name.
pub const NAME: &str = "rpmalloc";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { libraries: &[Library::plain(NAME, &["librpmalloc", "librpmallocwrap"])], ..Descriptor::named(NAME) };
