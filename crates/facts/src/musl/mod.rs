//! The malloc of musl, a C library. It has no settings, is not a separate library, and has no call that gives memory back.

use crate::descriptor::Descriptor;

/// Its name.
pub const NAME: &str = "musl";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { heap: "musl's malloc", title: "musl's malloc", ..Descriptor::named(NAME) };
