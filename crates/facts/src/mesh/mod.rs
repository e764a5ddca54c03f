//! Mesh: a library from another project, without settings.

use crate::descriptor::Descriptor;
use crate::library::Library;

/// Its name.
pub const NAME: &str = "mesh";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { libraries: &[Library::plain(NAME, &["libmesh"])], ..Descriptor::named(NAME) };
