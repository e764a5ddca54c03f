//! Flags of `doctor`.

use clap::Args;

use super::output::OutputFlags;

/// Flags of `doctor`.
#[derive(Args, Clone, Default)]
pub struct DoctorFlags {
    /// Inspect this process, by its process ID or its name [default: this host].
    ///
    /// What is shown: allocator, memory, environment, limits.
    #[arg(value_name = "PROCESS")]
    pub process: Option<String>,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
}
