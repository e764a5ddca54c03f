//! The parts of a preload: its allocator, its settings and its build.

use allocanary::Allocator;
use allocanary::__private::Conf;
use allocanary_facts::descriptor::InCode;

/// A preload.
pub struct This {
    /// Its allocator.
    pub allocator: &'static dyn Allocator,
    /// The settings that it takes from code.
    pub table: InCode,
    /// The symbol from which jemalloc reads its configuration.
    pub conf: Option<&'static Conf>,
    /// A function that is called once, after the settings.
    pub begin: fn(),
    /// Whether the allocator itself reports the bytes that threads allocate.
    pub is_direct: bool,
    /// Makes the functions announce large blocks that grow, and count the bytes that threads allocate unless the allocator does that.
    pub count: fn(),
    /// Makes the functions sample, and count for a budget as well.
    pub profile: fn(),
    /// Identifies the sources from which it was built.
    pub build: &'static str,
}
