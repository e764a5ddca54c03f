//! A setting that is worth a search: its values, when they are tried, and what they depend on. Each is a row in the table of an allocator
//! or of a runtime.

use std::time::Duration;

/// A setting that is worth a search.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// The setting.
    pub setting: &'static str,
    /// The values to try, besides the default. `cores` means the number of cores, `half` half of that number, and `0.5x` half of the
    /// maximum memory of the program's first run.
    pub values: &'static [&'static str],
    /// The stage of the search in which its values are tried.
    pub stage: DimensionStage,
    /// How long a process must be idle before a value has an effect; zero for most settings.
    pub acts_after: Duration,
    /// Other settings, each with the value that makes this setting ineffective. The search does not combine the two.
    pub without: &'static [(&'static str, &'static str)],
    /// Other settings that this one needs, with their values. The search adds them to this setting.
    pub with: &'static [(&'static str, &'static str)],
    /// A value that does harm unless another setting is set too: the value, and the other setting.
    pub needs: Option<(&'static str, &'static str)>,
    /// A word for what this setting limits, for sentences: `arenas`.
    pub limits: &'static str,
}

/// When the values of a dimension are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimensionStage {
    /// Together with all others, in the first stage.
    First,
    /// In the second stage: each value is added to each survivor of the first stage.
    Second,
    /// In the first stage without any other setting. In the second stage each value is added to each survivor.
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
