//! What a preload is made of. In: nothing. Out: its allocator, its settings, its build.

use allocanary_allocators::Allocator;
use allocanary_allocators::__private::Conf;
use allocanary_allocators::descriptor::InCode;

/// A preload.
pub struct This {
    /// Its allocator.
    pub allocator: &'static dyn Allocator,
    /// The settings that it takes from code.
    pub table: InCode,
    /// The symbol from which jemalloc reads its configuration.
    pub conf: Option<&'static Conf>,
    /// What is done once, after the settings.
    pub begin: fn(),
    /// Makes the functions count what threads allocate; `None` where the allocator tells it by itself.
    pub count: Option<fn()>,
    /// The sources that it was built from.
    pub build: &'static str,
}
