//! The names of this project's own code in a program that samples or records itself. Such a function is never a call site.

/// Beginnings of qualified names.
const MODULES: [&str; 8] = [
    "allocanary_recorder::",
    "allocanary_sampler::",
    "allocanary::budget::",
    "allocanary::counting::",
    "allocanary::install::",
    "allocanary::leaks::",
    "allocanary::profile::",
    "allocanary::recording::",
];

/// Whether a function, by its qualified name, is this project's own, or a wrapper of it around the program's allocator.
pub fn is_own(name: &str) -> bool {
    MODULES.iter().any(|start| name.starts_with(start))
}
