//! Hoard: a library from another project, without settings.

use crate::descriptor::Descriptor;
use crate::library::LibraryKind;

/// Its name.
pub const NAME: &str = "hoard";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { libraries: &[LibraryKind::plain(NAME, &["libhoard"])], ..Descriptor::named(NAME) };
