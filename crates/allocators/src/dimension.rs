//! A setting that is worth a search: its values, when they are tried, and what they depend on. In: nothing. Out: rows of an allocator's
//! or a runtime's table.

use std::time::Duration;

/// A setting that is worth a search.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// The setting.
    pub setting: &'static str,
    /// The values to try besides the default. `cores` stands for the number of cores, `half` for half of it, and `0.5x` for half of
    /// the memory that the program's first run had at its most.
    pub values: &'static [&'static str],
    /// When its values are tried.
    pub stage: Stage,
    /// How long a process must be idle before a value can act; zero for most.
    pub acts_after: Duration,
    /// Other settings that switch this one off, each with the value that does: the two are not tried together.
    pub without: &'static [(&'static str, &'static str)],
    /// Settings that it needs, which are added with it.
    pub with: &'static [(&'static str, &'static str)],
    /// A value of it that does harm unless another setting is there too: the value, and that setting.
    pub needs: Option<(&'static str, &'static str)>,
    /// What it limits, for sentences: `arenas`.
    pub limits: &'static str,
}

/// When the values of a dimension are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Combined with all others.
    First,
    /// Around the survivors: each value is added to each survivor.
    Second,
    /// By itself in the first stage, and around the survivors.
    Alone,
}

impl Dimension {
    /// One that acts at once and depends on no other.
    pub const fn new(
        setting: &'static str,
        values: &'static [&'static str],
        stage: Stage,
        limits: &'static str,
    ) -> Dimension {
        Dimension { setting, values, stage, acts_after: Duration::ZERO, without: &[], with: &[], needs: None, limits }
    }
}
