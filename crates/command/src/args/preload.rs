//! Flags of `preload`.

use clap::Args;

/// Flags of `preload`.
#[derive(Args, Clone)]
pub struct PreloadFlags {
    /// The allocator: system, jemalloc or mimalloc. `profile` keeps the program's allocator, and samples its allocations for `allocanary who PID`.
    #[arg(value_name = "ALLOCATOR")]
    pub allocator: String,
    /// Settings as in install!, such as 'tuned,thread_idle=100ms' or 'narenas=per_cpu(1)'; profile=512KiB samples [default: none].
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true)]
    pub settings: String,
}
