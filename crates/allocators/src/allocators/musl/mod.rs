//! musl's malloc: a C library of others. It has no settings, no library of its own, and no call that gives memory back.

use crate::descriptor::Descriptor;

/// Its name.
pub const NAME: &str = "musl";

/// Its descriptor.
pub const DESCRIPTOR: Descriptor =
    Descriptor { heap: "musl's malloc", title: "musl's malloc", ..Descriptor::named(NAME) };
