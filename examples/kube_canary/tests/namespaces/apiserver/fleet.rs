//! The agent of a node with `auth: kubernetes`, by the chart's objects, against the real API server: who may scrape it, and who
//! may use `kubectl allocanary top`. kubectl, Prometheus and the kubelet's code for forwarded ports are real ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::plane::{self, PORT, Plane};
use crate::canary::until;
use crate::need;
use crate::net::{Net, Running, SERVER};
use crate::prometheus::Prometheus;

const SPACE: &str = "fleet";
const PAGE_PORT: u16 = 9912;
/// The name in the agent's certificate.
const NAME: &str = "x-allocanary.fleet.svc";

/// The command, which Cargo builds beside the canary.
fn allocanary() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_kube_canary")).with_file_name("allocanary")
}

/// The chart as helm renders it; `None` if helm is not installed.
fn chart() -> Option<String> {
    let home = std::env::var("GOPATH").unwrap_or_else(|_| std::env::var("HOME").unwrap_or_default() + "/go");
    let path = format!("{}:{home}/bin", std::env::var("PATH").unwrap_or_default());
    let values = "auth=kubernetes,tls.secretName=cert,roles=true,profiles=true,serviceMonitor.enabled=true,kubelet.enabled=false";
    let from = "networkPolicy.from=[{\"podSelector\":{}}]";
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/node/helm");
    let version = "--kube-version=1.34.0";
    let all = ["template", "x", folder, "--namespace", SPACE, version, "--set", values, "--set-json", from];
    let Ok(out) = Command::new("helm").args(all).env("PATH", path).output() else {
        allocanary_testing::skipped::skipped("needs helm");
        return None;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}

/// A certificate for the agent, signed by itself.
fn certificate(folder: &Path) {
    let out = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"])
        .args([
            "-subj",
            "/CN=agent",
            "-addext",
            &format!("subjectAltName=DNS:{NAME}"),
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .arg("-out")
        .arg(folder.join("tls.crt"))
        .arg("-keyout")
        .arg(folder.join("tls.key"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// The agent as a kubelet would run it, and the part of a kubelet that forwards ports.
struct Agent<'a> {
    net: &'a Net,
    folder: tempfile::TempDir,
    _processes: [Running; 2],
}

impl<'a> Agent<'a> {
    fn start(net: &'a Net, plane: &Plane, built: &Path) -> Agent<'a> {
        let mut template = plane.object(SPACE, "daemonset", "x-allocanary")["spec"]["template"].take();
        // What a controller, a scheduler and a kubelet would write.
        let address = net.address(0);
        plane.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}));
        let kubelet = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}});
        status(plane, &["node", "node-0"], &kubelet.to_string());
        template["spec"]["nodeName"] = "node-0".into();
        plane.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "agent", "namespace": SPACE, "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        }));
        let running = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        status(plane, &["--namespace", SPACE, "pod", "agent"], &running.to_string());

        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path());
        std::fs::copy(plane.certificates(), folder.path().join("ca.crt")).unwrap();
        let token = plane.must(&["create", "token", "--namespace", SPACE, "x-allocanary"], "");
        std::fs::write(folder.path().join("token"), token.trim()).unwrap();
        let words = template["spec"]["containers"][0]["args"].as_array().unwrap().clone();
        let mounted = format!("={}/", folder.path().display());
        let words = words.iter().map(|word| word.as_str().unwrap().replace("=/tls/", &mounted));
        // Only this process sees the folder there, because `ip netns exec` gives it separate mounts.
        let script = "mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io \
                      && ln -s \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
        let agent = net
            .command(0, "sh -c")
            .arg(script)
            .arg(folder.path())
            .arg(allocanary())
            .args(words)
            .env("NODE_NAME", "node-0")
            .env("KUBERNETES_SERVICE_HOST", SERVER)
            .env("KUBERNETES_SERVICE_PORT", PORT.to_string())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("said")).unwrap())
            .spawn()
            .unwrap();
        let forwarder = net.spawn(0, &format!("{} {address}:10250", built.join("port-forwarder").display()));
        let agent = Agent { net, folder, _processes: [Running(agent), forwarder] };
        until(|| !agent.net.get(0, &format!("127.0.0.1:{PAGE_PORT}"), "/healthz").is_empty(), "the agent serves");
        agent
    }

    /// The status and the body that an agent answers to a token; an empty one is none.
    fn asked(&self, token: &str, path: &str) -> (String, String) {
        let address = self.net.address(0);
        let mut command = self.net.command("b", "curl -s -w \n%{http_code}");
        command.arg("--cacert").arg(self.folder.path().join("tls.crt"));
        command.arg("--connect-to").arg(format!("{NAME}:{PAGE_PORT}:{address}:{PAGE_PORT}"));
        if !token.is_empty() {
            command.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        let out = command.arg(format!("https://{NAME}:{PAGE_PORT}{path}")).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_string(), body.to_string())
    }

    /// A Prometheus that scrapes the agent as the chart's ServiceMonitor says, with the token of an account.
    fn scraped_by(&self, token: &str) -> Prometheus<'a> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), token).unwrap();
        let config = json!({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{
                "job_name": "fleet", "scheme": "https", "metrics_path": "/metrics", "honor_labels": true,
                "authorization": {"credentials_file": folder.path().join("token")},
                "tls_config": {"ca_file": self.folder.path().join("tls.crt"), "server_name": NAME},
                "static_configs": [{"targets": [format!("{}:{PAGE_PORT}", self.net.address(0))]}],
            }],
        });
        Prometheus::with(self.net, folder, &config.to_string())
    }
}

/// `kubectl allocanary top`, by one of the people.
fn top(net: &Net, plane: &Plane, person: &str) -> (Option<i32>, String) {
    let mut command = net.command("b", &format!("{} kube top", allocanary().display()));
    let Output { status, stdout, stderr } = command.env("KUBECONFIG", plane.config_of(person)).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

/// Writes the status of an object, as a kubelet does.
fn status(plane: &Plane, object: &[&str], patch: &str) {
    plane.must(&[&["patch"], object, &["--subresource=status", "--type=merge", "--patch", patch]].concat(), "");
}

/// An account with its token.
fn account(plane: &Plane, name: &str) -> String {
    plane.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SPACE}}));
    plane.must(&["create", "token", "--namespace", SPACE, name], "").trim().to_string()
}

#[test]
#[ignore = "needs a real API server: apiserver/build.sh makes one in a quarter of an hour"]
fn the_agent_is_asked_by_those_who_may() {
    need!("ip", "etcd", "kubectl", "openssl", "curl", "prometheus");
    let Some(built) = plane::built() else { return };
    let Some(chart) = chart() else { return };
    let net = Net::new(2);
    let plane = Plane::start(&net, &built);
    plane.define(&built.join("servicemonitors.yaml"), "servicemonitors");
    let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
    plane.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}}));
    // A field that the API does not know is an error.
    plane.must(&["apply", "--server-side", "--validate=strict", "-f", "-"], &chart);
    let agent = Agent::start(&net, &plane, &built);

    // Without a token, with one that nobody has given, and with one whose owner may not.
    let (status, said) = agent.asked("", "/metrics");
    assert!(status == "401" && said.contains("wanted a token"), "{status}: {said}");
    let (status, said) = agent.asked("eyJhbGciOiJub25lIn0.e30.", "/metrics");
    assert!(status == "401" && said.contains("does not know this token"), "{status}: {said}");
    let other = account(&plane, "other");
    let (status, said) = agent.asked(&other, "/metrics");
    assert_eq!(status, "403", "{said}");
    assert!(said.starts_with("system:serviceaccount:fleet:other may not get /metrics"), "{said}");

    // Prometheus with its token, by the chart's role.
    let prometheus = account(&plane, "prometheus");
    bind(
        &plane,
        "clusterrolebinding",
        "scrapes",
        "clusterrole=fleet-x-allocanary-metrics",
        "serviceaccount=fleet:prometheus",
    );
    let scraping = agent.scraped_by(&prometheus);
    until(|| scraping.one("up{job=\"fleet\"}") == Some(1.0), "Prometheus is answered");
    until(|| scraping.one("count(allocanary_node_processes)").is_some_and(|count| count > 0.0), "it has the metrics");
    drop(scraping);
    let refused = agent.scraped_by(&other);
    until(|| refused.one("up{job=\"fleet\"}") == Some(0.0), "another account is refused");
    let targets = refused.get("/api/v1/targets").to_string();
    assert!(targets.contains("server returned HTTP status 403"), "{targets}");
    drop(refused);
    let (status, said) = agent.asked(&prometheus, "/debug/pprof/");
    assert_eq!(status, "403", "a right is for a path: {said}");

    // `top` says to each what is missing, and works with both roles.
    let (code, said) = top(&net, &plane, "bob");
    assert!(code == Some(2) && said.contains("User \"bob\" cannot list resource \"pods\""), "{said}");
    assert!(said.contains("the ClusterRole NAMESPACE-NAME-find of the chart"), "{said}");
    for person in ["ann", "bob"] {
        let (binding, user) = (format!("{person}-finds"), format!("user={person}"));
        bind(&plane, "clusterrolebinding", &binding, "clusterrole=fleet-x-allocanary-find", &user);
    }
    let (code, said) = top(&net, &plane, "bob");
    assert!(code == Some(2) && said.contains("serviceaccounts/token"), "{said}");
    assert!(said.contains("wanted a token of the account x-allocanary-top"), "{said}");
    bind(&plane, "rolebinding", "ann-tops", "role=x-allocanary-top", "user=ann");
    let (code, said) = top(&net, &plane, "ann");
    assert!(code == Some(0) && said.contains("on this node") && said.contains("resident"), "{said}");
    // The account of `top` has lost its right. The verdict of before is good for two minutes, so this is another agent.
    drop(agent);
    plane.must(&["delete", "clusterrolebinding", "fleet-x-allocanary-report"], "");
    plane.must(&["delete", "--namespace", SPACE, "pod", "agent", "--force"], "");
    let agent = Agent::start(&net, &plane, &built);
    let (code, said) = top(&net, &plane, "ann");
    assert!(code == Some(2) && said.contains("x-allocanary-top may not get /report.json"), "{said}");
    // Nobody is let in by an agent that may not ask.
    drop(agent);
    plane.must(&["delete", "clusterrolebinding", "fleet-x-allocanary-asks"], "");
    plane.must(&["delete", "--namespace", SPACE, "pod", "agent", "--force"], "");
    let agent = Agent::start(&net, &plane, &built);
    let (status, said) = agent.asked(&prometheus, "/metrics");
    assert!(status == "503" && said.contains("system:auth-delegator"), "{status}: {said}");
}

/// Binds a role to somebody.
fn bind(plane: &Plane, kind: &str, name: &str, role: &str, to: &str) {
    plane.must(&["create", kind, "--namespace", SPACE, name, &format!("--{role}"), &format!("--{to}")], "");
}
