//! Mesh: a library from another project, without settings.

use crate::descriptor::Descriptor;
use crate::library::LibraryKind;

/// Its name.
pub const NAME: &str = "mesh";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { libraries: &[LibraryKind::plain(NAME, &["libmesh"])], ..Descriptor::named(NAME) };
