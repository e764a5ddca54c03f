//! The parts of a preload. In: nothing. Out: the preload's allocator, settings and build.

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
    /// Makes the functions count the bytes that threads allocate. `None` if the allocator itself reports them.
    pub count: Option<fn()>,
    /// Makes the functions sample, and count for a budget as well.
    pub profile: fn(),
    /// Identifies the sources from which it was built.
    pub build: &'static str,
}
