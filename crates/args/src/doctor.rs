//! Flags of `doctor`.

use clap::Args;

use super::output::OutputFlags;

/// Flags of `doctor`.
#[derive(Args, Clone, Default)]
pub struct DoctorFlags {
    /// Inspect this process, by its process ID or its name [default: this host].
    ///
    /// What is shown: allocator, memory, environment, limits. `--pid PID` does the same as the process ID alone.
    #[arg(value_name = "PROCESS", conflicts_with = "pid")]
    pub process: Option<String>,
    /// As PROCESS: the flag of earlier versions. `heap` and `give-back` take the process in the same way as `doctor` does.
    #[arg(long, value_name = "PID", hide = true)]
    pub pid: Option<u32>,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
}
