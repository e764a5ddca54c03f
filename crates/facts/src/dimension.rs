//! A setting that is worth a search: its values, when they are tried, and what they depend on. In: nothing. Out: rows of an allocator's
//! or a runtime's table.

use std::time::Duration;

/// A setting that is worth a search.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// The setting.
    pub setting: &'static str,
    /// The values to try, besides the default. `cores` means the number of cores, `half` half of it, and `0.5x` half of the maximum
    /// of memory in the program's first run.
    pub values: &'static [&'static str],
    /// When its values are tried.
    pub stage: DimensionStage,
    /// How long a process must be idle before a value has an effect; zero for most settings.
    pub acts_after: Duration,
    /// Other settings, each with the value that makes this setting ineffective: the two are not tried together.
    pub without: &'static [(&'static str, &'static str)],
    /// Other settings that this one needs. They are added with it.
    pub with: &'static [(&'static str, &'static str)],
    /// A value of this setting that does harm without another setting: the value, and that other setting.
    pub needs: Option<(&'static str, &'static str)>,
    /// What it limits, for sentences: `arenas`.
    pub limits: &'static str,
}

/// When the values of a dimension are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimensionStage {
    /// Together with all others, in the first stage.
    First,
    /// In the second stage: each value is added to each survivor of the first stage.
    Second,
    /// In the first stage by itself, in the second stage added to each survivor.
    Alone,
}

impl Dimension {
    /// A setting that has its effect at once and depends on no other setting.
    pub const fn new(
        setting: &'static str,
        values: &'static [&'static str],
        stage: DimensionStage,
        limits: &'static str,
    ) -> Dimension {
        Dimension { setting, values, stage, acts_after: Duration::ZERO, without: &[], with: &[], needs: None, limits }
    }
}
