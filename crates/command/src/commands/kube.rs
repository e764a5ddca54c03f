//! `kubectl allocanary`: asks a cluster's agents through its API server, so that no port has to be open. In: kubectl's answers. Out: the
//! table of `fleet`, or what an agent says about one pod. It only reads.

mod cluster;
mod guarded;

use std::process::ExitCode;

use super::terminal;
use crate::args::{KubeAction, KubeFlags};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::fleet::{ContainerState, Fleet};
use allocanary_screens::views::fleet;
use allocanary_text::outside::harmless;
use allocanary_text::paste::CommandLine;
use cluster::{AgentPod, Cluster, ClusterPod};
use serde_json::{Value, json};

/// The most agents that are asked at once.
const AT_ONCE: usize = 16;

/// Does what the flags request.
pub fn run(flags: &KubeFlags) -> Result<ExitCode> {
    let cluster = Cluster { context: flags.context.clone() };
    match flags.what {
        KubeAction::Top => top(&cluster, flags),
        KubeAction::Why => {
            let (agent, pid) = process(&cluster, flags)?;
            terminal::print_plain(&cluster.exec(&agent, &["allocanary", &pid.to_string()]).map_err(Error::Input)?)
        }
        KubeAction::Lines => lines(&cluster, flags),
        KubeAction::Debug => debug(&cluster, flags),
    }
}

/// The table of all nodes. The exit code is 1 if an agent did not answer.
fn top(cluster: &Cluster, flags: &KubeFlags) -> Result<ExitCode> {
    let agents = cluster.agents(&flags.agents).map_err(Error::Input)?;
    let (mut reports, mut missing) = (Vec::new(), Vec::new());
    // Each agent is asked by a kubectl process of its own, which waits for the network.
    for some in agents.chunks(AT_ONCE) {
        let told = std::thread::scope(|scope| {
            let asked: Vec<_> = some.iter().map(|agent| scope.spawn(|| cluster.report(agent))).collect();
            asked.into_iter().filter_map(|one| one.join().ok()).collect::<Vec<_>>()
        });
        for one in told {
            match one {
                Ok(report) => reports.push(report),
                Err(error) => missing.push(error),
            }
        }
    }
    if let Some(first) = missing.first().filter(|_| reports.is_empty()) {
        return Err(Error::Input(first.clone()));
    }
    let mut found = Fleet::of(reports);
    found.problems.extend(missing.iter().map(|error| format!("left out: {error}")));
    let printed = terminal::print(fleet::table(&found, flags.price, &terminal::look()).as_bytes())?;
    Ok(if missing.is_empty() { printed } else { ExitCode::from(1) })
}

/// The agent of a pod's node, and the pod's process with the most memory.
fn process(cluster: &Cluster, flags: &KubeFlags) -> Result<(AgentPod, u32)> {
    let pod = pod(cluster, flags)?;
    let agents = cluster.agents(&flags.agents).map_err(Error::Input)?;
    let Some(agent) = agents.into_iter().find(|agent| agent.node == pod.node) else {
        return Err(Error::Input(format!(
            "no agent runs on the node {} of pod {}: see `kubectl allocanary debug {} -n {}`",
            pod.node, pod.name, pod.name, pod.namespace
        )));
    };
    let report = cluster.report(&agent).map_err(Error::Input)?;
    let is_wanted = |row: &&ContainerState| flags.container.as_ref().is_none_or(|name| *name == row.container);
    let own = report.rows.iter().filter(|row| row.pod == pod.name && row.namespace == pod.namespace);
    let Some(row) = own.filter(is_wanted).max_by_key(|row| row.resident()) else {
        return Err(Error::Input(format!(
            "the agent {} does not know pod {}{}: it counts each minute, and needs the names of pods (node --kubelet)",
            agent.name,
            pod.name,
            flags.container.as_ref().map_or_else(String::new, |name| format!(" with a container {name}"))
        )));
    };
    let pid = row.pid.ok_or_else(|| {
        Error::Input(format!("the agent {} does not tell process IDs: wanted one of this release", agent.name))
    })?;
    Ok((agent, pid))
}

/// Prints the lines to paste: those for a manifest, or, if there are none, those for another place.
fn lines(cluster: &Cluster, flags: &KubeFlags) -> Result<ExitCode> {
    let (agent, pid) = process(cluster, flags)?;
    let text = cluster.exec(&agent, &["allocanary", &pid.to_string(), "--json"]).map_err(Error::Input)?;
    let found: Value = serde_json::from_str(&text).map_err(|error| {
        Error::Input(format!("agent {}: wanted JSON of `allocanary {pid} --json`: {error}", agent.name))
    })?;
    let out = pasted(&found);
    match out.is_empty() {
        true => {
            terminal::tell("no remedy has lines: see `kubectl allocanary why`");
            Ok(ExitCode::from(1))
        }
        false => terminal::print_plain(&out),
    }
}

/// The lines of all remedies, each below a comment with what it does and gives.
fn pasted(found: &Value) -> String {
    let mut out = String::new();
    for remedy in found["remedies"].as_array().into_iter().flatten() {
        let lines: Vec<(&str, &str)> = { remedy["lines"].as_array().into_iter().flatten() }
            .filter_map(|line| Some((line["place"].as_str()?, line["text"].as_str()?)))
            .collect();
        let of = |place: &str| lines.iter().filter(|(at, _)| *at == place).map(|(_, text)| *text).collect::<Vec<_>>();
        // Lines for a shell are left out. They are for a running process, which a pod's user cannot reach.
        let wanted = ["Kubernetes", "environment", "Rust"].into_iter().map(of).find(|lines| !lines.is_empty());
        let Some(wanted) = wanted else { continue };
        let gives = match (remedy["gives"]["bound"].as_str(), remedy["gives"]["reclaimable_bytes"].as_u64()) {
            (Some("exact"), Some(bytes)) => allocanary_text::units::Bytes(bytes).to_string(),
            (Some("at_most"), Some(bytes)) => format!("at most {}", allocanary_text::units::Bytes(bytes)),
            _ => "gain not known".into(),
        };
        let what = harmless(remedy["what"].as_str().unwrap_or_default()).replace('\n', " ");
        out.push_str(&format!("# {what}: {gives}\n"));
        wanted.into_iter().for_each(|line| out.push_str(&format!("{}\n", harmless(line))));
    }
    out
}

/// The commands that read a pod without an agent.
fn debug(cluster: &Cluster, flags: &KubeFlags) -> Result<ExitCode> {
    let pod = pod(cluster, flags)?;
    let container = match (&flags.container, pod.containers.as_slice()) {
        (Some(name), known) if known.contains(name) => name,
        (None, [first, ..]) => first,
        (name, known) => {
            let wanted = name.as_deref().unwrap_or_default();
            return Err(Error::Input(format!(
                "pod {} has no container `{wanted}`: wanted one of {}",
                pod.name,
                known.join(", ")
            )));
        }
    };
    let image = flags.image.clone().unwrap_or_else(|| format!("allocanary:{}", env!("CARGO_PKG_VERSION")));
    let rights =
        json!({"securityContext": {"runAsUser": 0, "runAsNonRoot": false, "capabilities": {"add": ["SYS_PTRACE"]}}});
    let context = flags.context.iter().flat_map(|context| ["--context", context]);
    let line = CommandLine::new("kubectl")
        .words(context)
        .word("-n")
        .word(&pod.namespace)
        .words(["debug", "-it"])
        .word(&pod.name);
    let line = line.word(format!("--target={container}")).word(format!("--image={image}"));
    let text = format!(
        "# Nothing was changed. These lines add a container to the pod for as long as the pod\n\
         # lives; it sees the processes of `{container}`, whose first one is 1 there. The image is\n\
         # yours (docs/install.md). The name space must allow SYS_PTRACE and user 0.\n\
         echo '{rights}' > allocanary-debug.json\n\
         {line} \\\n    \
         --profile=general --custom=allocanary-debug.json -- allocanary 1\n",
    );
    terminal::print_plain(&text)
}

fn pod(cluster: &Cluster, flags: &KubeFlags) -> Result<ClusterPod> {
    let (namespace, name) = pod_of(flags.pod.as_deref().unwrap_or_default(), flags.namespace.as_deref())?;
    cluster.pod(name, namespace).map_err(Error::Input)
}

/// The namespace and the name in POD. `top` shows a pod with its namespace, as NAMESPACE/POD/CONTAINER.
fn pod_of<'a>(pod: &'a str, namespace: Option<&'a str>) -> Result<(Option<&'a str>, &'a str)> {
    let name = pod.strip_prefix("pod/").unwrap_or(pod);
    match (name.split_once('/'), namespace) {
        (None, _) => Ok((namespace, name)),
        (Some((own, name)), None) if !name.contains('/') => Ok((Some(own), name)),
        _ => Err(Error::Input(format!(
            "{pod}: wanted a pod, as POD -n NAMESPACE or NAMESPACE/POD: `kubectl get pods -A` lists them"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_a_manifest_come_before_those_for_other_places() {
        let found = json!({"remedies": [
            {"what": "fewer arenas", "gives": {"bound": "at_most", "reclaimable_bytes": 3 << 20}, "lines": [
                {"place": "environment", "text": "A=1"}, {"place": "Kubernetes", "text": "- name: A"}, {"place": "Kubernetes", "text": "  value: \"1\""}]},
            {"what": "give back", "gives": {"bound": "exact", "reclaimable_bytes": 1}, "lines": [{"place": "shell", "text": "allocanary give-back 7"}]},
            {"what": "a\nb", "gives": {"bound": "unknown"}, "lines": [{"place": "Rust", "text": "install!"}]},
        ]});
        let wanted =
            "# fewer arenas: at most 3.00 MiB\n- name: A\n  value: \"1\"\n# a\u{fffd}b: gain not known\ninstall!\n";
        assert_eq!(pasted(&found), wanted);
        assert_eq!(pasted(&json!({"remedies": 7})), "");
    }
}
