//! A cluster, as kubectl shows it: its agents, their reports, and the node of a pod. kubectl has the user's own rights and contexts.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

use allocanary_rows::fleet::NodeReport;
use serde::Deserialize;
use serde_json::Value;

/// The cluster of a context.
pub struct Cluster {
    /// The context; `None` for the current one.
    pub context: Option<String>,
}

/// The agent of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPod {
    /// Its pod.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its node.
    pub node: String,
    /// Its port.
    pub port: u16,
    /// Whether it speaks TLS: its port is called `https` then, as in the chart.
    pub is_secure: bool,
    /// The account whose token it wants, if it wants one.
    pub account: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its node.
    pub node: String,
    /// Its containers.
    pub containers: Vec<String>,
}

/// The port of an agent whose pod names none: that of the chart.
const PORT: u16 = 9912;
/// The word of an agent that wants a token.
const GUARDED: &str = "--auth=kubernetes";
/// How long an agent has to answer.
const TIMEOUT: &str = "--request-timeout=20s";

/// The fields of a pod that are read, in the API's JSON.
#[derive(Deserialize)]
struct Listed {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: String,
    #[serde(default)]
    service_account_name: String,
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    container_port: u16,
    #[serde(default)]
    name: String,
}

impl Cluster {
    /// The running agents that have this label, in the order of their nodes.
    pub fn agents(&self, label: &str) -> Result<Vec<AgentPod>, String> {
        let running = ["--field-selector", "status.phase=Running", "-o", "json"];
        let asked = self.ask(["get", "pods", "--all-namespaces", "-l", label].into_iter().chain(running));
        let text = asked.map_err(|error| match error.contains("(Forbidden)") {
            true => format!("{error}: wanted the ClusterRole NAMESPACE-NAME-find of the chart (roles=true)"),
            false => error,
        })?;
        let told = |error: serde_json::Error| format!("kubectl get pods: wanted a list of pods as JSON: {error}");
        let mut found: Value = serde_json::from_str(&text).map_err(told)?;
        let pods: Vec<Listed> = serde_json::from_value(found["items"].take()).map_err(told)?;
        if pods.is_empty() {
            return Err(format!(
                "no agent runs: wanted pods with the label {label} (helm install allocanary deploy/node/helm; --agents for another label)"
            ));
        }
        let agent = |one: Listed| {
            let port = one.spec.containers.iter().flat_map(|container| &container.ports).next();
            let is_guarded =
                one.spec.containers.iter().flat_map(|container| &container.args).any(|word| word == GUARDED);
            AgentPod {
                port: port.map_or(PORT, |port| port.container_port),
                is_secure: port.is_some_and(|port| port.name == "https"),
                account: is_guarded.then(|| format!("{}-top", one.spec.service_account_name)),
                name: one.metadata.name,
                namespace: one.metadata.namespace,
                node: one.spec.node_name,
            }
        };
        let mut agents: Vec<AgentPod> = pods.into_iter().map(agent).collect();
        agents.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(agents)
    }

    /// The report of an agent, through the API server.
    pub fn report(&self, agent: &AgentPod) -> Result<NodeReport, String> {
        let AgentPod { name, namespace, node, port, is_secure, account } = agent;
        let scheme = if *is_secure { "https:" } else { "" };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{scheme}{name}:{port}/proxy/report.json");
        let text = match account {
            None => self.ask(["get", TIMEOUT, "--raw", &path]),
            Some(account) => self.token(namespace, account).and_then(|token| self.forwarded(agent, token)),
        };
        text.and_then(|text| NodeReport::parse(&text)).map_err(|error| format!("node {node}: {error}"))
    }

    /// A pod. A pod that is on no node yet is an error.
    pub fn pod(&self, name: &str, namespace: Option<&str>) -> Result<ClusterPod, String> {
        let of = namespace.into_iter().flat_map(|namespace| ["-n", namespace]);
        let text = self.ask(["get", "pod", "-o", "json"].into_iter().chain(of).chain(["--", name]))?;
        let told = |error: serde_json::Error| format!("kubectl get pod {name}: wanted a pod as JSON: {error}");
        let one: Listed = serde_json::from_str(&text).map_err(told)?;
        if one.spec.node_name.is_empty() {
            return Err(format!("pod {name} is on no node yet: wait until it runs"));
        }
        Ok(ClusterPod {
            name: one.metadata.name,
            namespace: one.metadata.namespace,
            node: one.spec.node_name,
            containers: one.spec.containers.into_iter().map(|container| container.name).collect(),
        })
    }

    /// Runs a command in an agent's container.
    pub fn exec(&self, agent: &AgentPod, command: &[&str]) -> Result<String, String> {
        let start = ["exec", "-n", &agent.namespace, &agent.name, "--"];
        self.ask(start.into_iter().chain(command.iter().copied()))
    }

    /// kubectl with the user's context and these words.
    pub fn kubectl<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new("kubectl");
        command.args(self.context.iter().flat_map(|context| [OsStr::new("--context"), OsStr::new(context)]));
        command.args(words).stdin(Stdio::null());
        command
    }

    fn ask<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<String, String> {
        self.ask_with(words, "")
    }

    /// What kubectl answers to these words and this input. The error has its first words.
    pub fn ask_with<'a>(&self, words: impl IntoIterator<Item = &'a str>, input: &str) -> Result<String, String> {
        let words: Vec<&str> = words.into_iter().collect();
        let shown = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
        let mut command = self.kubectl(words);
        let mut started =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(no_kubectl)?;
        // Dropped at once: kubectl reads to the end. One that reads no input may have ended.
        drop(started.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes())));
        let ran = started.wait_with_output().map_err(no_kubectl)?;
        match ran.status.success() {
            true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
            false => Err(format!("kubectl {shown}: {}", String::from_utf8_lossy(&ran.stderr).trim())),
        }
    }
}

/// The error of a kubectl that could not be started.
pub fn no_kubectl(error: std::io::Error) -> String {
    format!("kubectl: {error}: wanted kubectl on PATH")
}
