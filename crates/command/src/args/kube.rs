//! Flags of `kube`, which is `kubectl allocanary`.

use clap::{Args, ValueEnum};

/// Flags of `kube`.
#[derive(Args, Clone)]
pub struct KubeFlags {
    /// What to do.
    #[arg(value_name = "WHAT")]
    pub what: KubeAction,
    /// The pod, for all but `top`.
    #[arg(value_name = "POD", required_if_eq_any = [("what", "why"), ("what", "lines"), ("what", "debug")])]
    pub pod: Option<String>,
    /// The pod's namespace [default: that of the context].
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The container of the pod [default: the one with the most memory; of `debug`, which cannot know that, the first].
    #[arg(long, short, value_name = "CONTAINER")]
    pub container: Option<String>,
    /// The context of kubectl [default: the current one].
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The label of the agents' pods.
    #[arg(long, value_name = "LABEL", default_value = "app.kubernetes.io/name=allocanary-node")]
    pub agents: String,
    /// The price of one GiB for a month, for `top` [default: none].
    #[arg(long, value_name = "PRICE")]
    pub price: Option<f64>,
    /// The image for `debug`: one that you have built [default: allocanary:VERSION].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
}

/// What `kube` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KubeAction {
    /// All workloads, by what allocators keep: the table of `fleet`.
    Top,
    /// What the memory of a pod is, and what to do: read by the agent of its node.
    Why,
    /// The lines to paste for a pod, and nothing else.
    Lines,
    /// The commands that read a pod on a node without an agent.
    Debug,
}
