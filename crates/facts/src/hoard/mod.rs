//! Hoard: a library from another project, without settings.

use crate::descriptor::Descriptor;
use crate::library::Library;

/// Its name.
pub const NAME: &str = "hoard";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { libraries: &[Library::plain(NAME, &["libhoard"])], ..Descriptor::named(NAME) };
