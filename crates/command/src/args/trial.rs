//! Flags of `try`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::fleet::AgentTrust;

/// Flags of `try`.
#[derive(Args, Clone, Default)]
pub struct TryFlags {
    /// [NAMESPACE/]KIND/NAME[/CONTAINER], as `fleet` lists it: shop/deployment/web.
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    /// Agents, such as http://10.0.0.1:9912, files of their /report.json, and folders of such files.
    #[arg(value_name = "NODE", value_hint = ValueHint::AnyPath)]
    pub nodes: Vec<String>,
    /// What agents with TLS or tokens want.
    #[command(flatten)]
    pub trust: AgentTrust,
    /// The variables that one replica gets, such as "MALLOC_ARENA_MAX=2 A='b c'".
    #[arg(long, value_name = "VARIABLES")]
    pub env: String,
    /// The pod that has the variables; may be given several times [default: the pod of NAME-allocanary, or those in which the variables are in
    /// force].
    #[arg(long, value_name = "POD")]
    pub changed: Vec<String>,
    /// Read the agents for this long, before the verdict [default: once].
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<String>,
    /// The time between two readings [default: 60s].
    #[arg(long, value_name = "TIME", requires = "time")]
    pub every: Option<String>,
    /// Keep the readings of this workload as files in this folder [default: keep none].
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out_dir: Option<PathBuf>,
    /// Differences below this percentage count as equal [default: 5].
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, hide_default_value = true)]
    pub tolerance: f64,
    /// Print JSON, for a script [default: off].
    #[arg(long)]
    pub json: bool,
}
