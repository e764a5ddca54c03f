//! Flags of `completions`, and those of a verb that has none.

use clap::Args;
use clap_complete::Shell;

/// Flags of `completions`.
#[derive(Args, Clone)]
pub struct CompletionsFlags {
    /// The shell to write the script for.
    pub shell: Shell,
}

/// Flags of `glossary`.
#[derive(Args, Clone)]
pub struct GlossaryFlags {}
