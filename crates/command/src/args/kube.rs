//! Flags of `kube`, which is `kubectl allocanary`.

use clap::{Args, ValueEnum};

/// Flags of `kube`.
#[derive(Args, Clone)]
pub struct KubeFlags {
    /// What to do.
    #[arg(value_name = "WHAT")]
    pub what: KubeAction,
    /// The pod, for all but `top`: POD, or NAMESPACE/POD as `top` lists it.
    #[arg(value_name = "POD", required_if_eq_any = [("what", "why"), ("what", "lines"), ("what", "debug")])]
    pub pod: Option<String>,
    /// The pod's namespace [default: that of the context].
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The container of the pod [default: the one with the most memory; for `debug`, the first].
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
    /// The image for `debug`, which you have built [default: allocanary:VERSION].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
}

/// What `kube` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KubeAction {
    /// The table of `fleet`: all workloads, and what their allocators keep.
    Top,
    /// What the memory of a pod is, and what to do. The agent of its node reads it.
    Why,
    /// Only the lines to paste for a pod.
    Lines,
    /// The commands that read a pod on a node without an agent.
    Debug,
}
