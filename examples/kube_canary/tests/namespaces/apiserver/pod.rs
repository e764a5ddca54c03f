//! A canary as a kubelet would run it: in a node's namespace, with the flags of the manifest and the service account's
//! files in their folder. In: a DaemonSet of the API server. Out: what the canary knows, from its own pages.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Stdio;

use serde_json::Value;

use super::plane::{PORT, Plane};
use crate::canary::{Page, until};
use crate::net::{Net, Running, SERVER};

/// A running canary.
pub struct Pod<'a> {
    net: &'a Net,
    node: usize,
    account: tempfile::TempDir,
    process: Running,
}

impl<'a> Pod<'a> {
    /// Starts it on a node, from the DaemonSet `kube-canary` of a namespace.
    pub fn start(net: &'a Net, plane: &Plane, namespace: &str, node: usize) -> Pod<'a> {
        let daemon_set = plane.object(namespace, "daemonset", "kube-canary");
        let flags: Vec<&str> = daemon_set["spec"]["template"]["spec"]["containers"][0]["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|flag| flag.as_str().unwrap())
            .collect();
        let account = tempfile::tempdir().unwrap();
        std::fs::copy(plane.certificates(), account.path().join("ca.crt")).unwrap();
        std::fs::write(account.path().join("namespace"), namespace).unwrap();
        // Only this process and its children see the folder there, because `ip netns exec` gives it separate mounts.
        let script = "mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io \
                      && ln -s \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
        let said = File::create(account.path().join("said")).unwrap();
        let token = plane.must(&["create", "token", "--namespace", namespace, "kube-canary"], "");
        std::fs::write(account.path().join("token"), token.trim()).unwrap();
        let process = net
            .command(node, "sh -c")
            .arg(script)
            .arg(account.path())
            .arg(env!("CARGO_BIN_EXE_kube_canary"))
            .args(flags)
            .args(["--interval=200ms", "--grace=1s"])
            .env("NODE_NAME", format!("node-{node}"))
            .env("POD_IP", net.address(node).to_string())
            .env("KUBERNETES_SERVICE_HOST", SERVER)
            .env("KUBERNETES_SERVICE_PORT", PORT.to_string())
            .env("HOME", account.path())
            .env_remove("KUBECONFIG")
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .unwrap();
        let pod = Pod { net, node, account, process: Running(process) };
        until(|| !pod.page("/healthz").is_empty(), "the canary serves");
        pod
    }

    /// A page of its web server.
    pub fn page(&self, path: &str) -> String {
        self.net.get(self.node, "127.0.0.1:9427", path)
    }

    /// `/peers`; null if the canary does not answer.
    pub fn peers(&self) -> Value {
        serde_json::from_str(&self.page("/peers")).unwrap_or_default()
    }

    /// The peers that it knows now, each as its node's name, a slash, and its zone.
    pub fn known(&self) -> BTreeSet<String> {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_string();
        let peers = self.peers();
        let peers = peers["peers"].as_array().into_iter().flatten().filter(|peer| peer["gone"] == false);
        peers.map(|peer| format!("{}/{}", text(&peer["node"]), text(&peer["zone"]))).collect()
    }

    /// The canary's text about a problem of discovery; empty without one.
    pub fn problem(&self) -> String {
        self.peers()["sources"]["kubernetes"]["problem"].as_str().unwrap_or_default().to_string()
    }

    /// The sum of a metric over the series that have this label.
    pub fn metric(&self, name: &str, label: &str, value: &str) -> f64 {
        Page { text: self.page("/metrics") }.sum(name, &[(label, value)])
    }

    /// Refreshes that failed.
    pub fn failures(&self) -> f64 {
        self.metric("discovery_refreshes_total", "result", "failure")
    }

    /// Its lines on standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.account.path().join("said")).unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the process is a child that is not waited for yet.
        assert_eq!(unsafe { libc::kill(self.process.0.id() as i32, signal) }, 0);
    }
}
