//! What is shipped with the agent, by the tools that read it: rules, dashboard, chart. In: `deploy/node`. Out: whether each is taken, and
//! names only what the agent tells.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use allocanary_node::metrics;
use allocanary_rows::fleet::{Bound, ContainerState, NodeReport, OtlpDelivery, Own, PARTS, Parts};
use allocanary_testing::skipped::skipped;

const RUNBOOKS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/deploy/node/monitoring/runbooks.md");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/node");

/// Runs a tool in the folder; `None`, with a message, if it is not installed.
fn tool(name: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let home = std::env::var("GOPATH").unwrap_or_else(|_| std::env::var("HOME").unwrap_or_default() + "/go");
    let path = std::env::var("PATH").unwrap_or_default() + ":" + &home + "/bin";
    match Command::new(name).args(arguments).current_dir(FOLDER).env("PATH", path).output() {
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            let said = if out.status.success() { said } else { said + &String::from_utf8_lossy(&out.stderr) };
            Some((out.status.success(), said))
        }
        Err(error) => {
            skipped(format_args!("{name} is not installed ({error})"));
            None
        }
    }
}

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
}

/// The metrics that an agent tells.
fn told() -> BTreeSet<String> {
    let mut parts = Parts::default();
    PARTS.iter().for_each(|part| parts.add(*part, 1));
    let some = Some(1);
    let row = ContainerState {
        parts,
        arenas: some,
        quota_milli: some,
        charged: some,
        mapped: some,
        mmapped: some,
        active: some,
        read: some,
        bounds: vec![Bound { remedy: "give-back".into(), bytes: 1, exact: true }],
        ..ContainerState::default()
    };
    let own =
        Own { names: some, sent: Some(OtlpDelivery::default()), hides_by: Some("hidepid=2".into()), ..Own::default() };
    let page = metrics::page(Arc::new(NodeReport { rows: vec![row], own, taken: 1, ..NodeReport::default() })).unwrap();
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(['{', ' ']).next().unwrap().to_string()).collect()
}

/// The chart as helm renders it for a version of Kubernetes; or what helm says.
fn render_for(version: &str, more: &[&str]) -> (bool, String) {
    let version = format!("--kube-version={version}");
    tool("helm", &[&["template", "x", "helm", &version], more].concat()).expect("it was there a moment ago")
}

fn render(more: &[&str]) -> (bool, String) {
    render_for("1.34.0", more)
}

/// The names in a text that begin as ours do.
fn named(text: &str, begin: &str) -> BTreeSet<String> {
    let is_of_name = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == ':';
    let words = text.split(|one: char| !is_of_name(one)).filter(|word| word.starts_with(begin));
    words.map(String::from).collect()
}

#[test]
fn the_rules_are_right_and_each_alert_fires_in_its_case_alone() {
    let Some((is_well, said)) = tool("promtool", &["check", "rules", "monitoring/rules.yaml"]) else { return };
    assert!(is_well, "{said}");
    let Some((is_well, said)) = tool("promtool", &["test", "rules", "monitoring/rules.test.yaml"]) else { return };
    assert!(is_well, "{said}");
    let (rules, tests, runbooks) =
        (file("monitoring/rules.yaml"), file("monitoring/rules.test.yaml"), file("monitoring/runbooks.md"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 5);
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}")), "{alert} is not tested");
        assert!(runbooks.contains(&format!("## {alert}\n")), "{alert} has no runbook");
        let url = format!("{RUNBOOKS}#{}", alert.to_lowercase());
        assert!(rules.contains(&format!("runbook_url: {url}\n")), "{alert} does not name {url}");
    }
}

#[test]
fn rules_and_dashboard_name_only_what_the_agent_tells_or_a_rule_records() {
    let (told, rules) = (told(), file("monitoring/rules.yaml"));
    let recorded: BTreeSet<String> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).map(String::from).collect();
    let board: serde_json::Value = serde_json::from_str(&file("monitoring/dashboard.json")).unwrap();
    let targets = board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= 10);
    let rules: String = rules
        .lines()
        .filter(|line| !line.trim().starts_with('#') && !line.contains("name: "))
        .collect::<Vec<_>>()
        .join("\n");
    for text in queries.into_iter().chain([rules.as_str()]) {
        let unknown: Vec<String> = named(text, "allocanary_").into_iter().filter(|name| !told.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} in {text}");
        let unknown: Vec<String> =
            named(text, "allocanary:").into_iter().filter(|name| !recorded.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} in {text}");
    }
}

#[test]
fn the_chart_is_taken_by_helm_and_has_the_rights_that_it_needs_and_no_others() {
    let Some((is_well, said)) = tool("helm", &["lint", "--strict", "helm"]) else { return };
    assert!(is_well, "{said}");
    let from = "--set-json=networkPolicy.from=[{\"namespaceSelector\":{\"matchLabels\":{\"a\":\"monitoring\"}}}]";
    let (is_well, whole) = render(&["--set=serviceMonitor.enabled=true,prometheusRule.enabled=true", from]);
    assert!(is_well, "{whole}");
    for wanted in [
        "hostPID: true",
        "capabilities: {drop: [ALL], add: [SYS_PTRACE, DAC_READ_SEARCH]}",
        "appArmorProfile: {type: Unconfined}",
        "readOnlyRootFilesystem: true",
        "resources: [nodes/pods]",
        "httpGet: {path: /healthz, port: http, scheme: HTTP}",
        "kind: ServiceMonitor",
        "      scheme: http\n",
        "--listen=[::]:9912",
        "a: monitoring",
        "honorLabels: true",
        "- alert: AllocanaryOverheadMoreThanLive",
        "{{ $labels.container }}",
    ] {
        assert!(whole.contains(wanted), "{wanted}: {whole}");
    }
    assert!(
        !whole.contains("privileged: true") && !whole.contains("hostPath") && !whole.contains("hostNetwork"),
        "{whole}"
    );
    assert!(
        !whole.contains("unverified") && !whole.contains("resources: [nodes/proxy]") && !whole.contains("ingress: []"),
        "{whole}"
    );
    let (is_well, early) = render_for("1.29.0", &["--set=kubelet.unverified=true"]);
    assert!(is_well && early.contains("resources: [nodes/proxy]") && early.contains("--kubelet-unverified"), "{early}");
    assert!(early.contains("beta.kubernetes.io/agent: unconfined") && !early.contains("appArmorProfile:"), "{early}");
    assert!(early.contains("ingress: []"), "nobody may scrape by default: {early}");
    assert!(!whole.contains("--auth") && !whole.contains("--tls") && !whole.contains("auth-delegator"), "{whole}");
    assert!(!whole.contains("pods/exec"), "roles for people come if they are wanted: {whole}");
    let (is_well, people) = render(&["--set=roles=true,hostPID=false"]);
    assert!(is_well && people.contains("hostPID: false"), "{people}");
    // What `kubectl allocanary top` and `why` ask of the API server, and nothing is bound to it.
    for (name, rules) in [
        ("x-allocanary-top", vec![("pods/proxy", "[get]")]),
        ("x-allocanary-why", vec![("pods", "[get]"), ("pods/exec", "[create]")]),
        ("default-x-allocanary-find", vec![("pods", "[get, list]")]),
    ] {
        let role = people.split("\n---\n").find(|one| one.contains(&format!("  name: {name}\n"))).expect(name);
        assert_eq!(role.matches("verbs:").count(), rules.len(), "{role}");
        for (resources, verbs) in rules {
            assert!(role.contains(&format!("resources: [{resources}]\n    verbs: {verbs}")), "{role}");
        }
        assert!(!people.contains(&format!("  name: {name}\nsubjects")), "{people}");
    }
    let (is_well, said) = render(&["--set=serviceMonitor.enabled=true"]);
    assert!(!is_well && said.contains("networkPolicy.from"), "{said}");
    let (is_well, alone) = render(&["--set=kubelet.enabled=false"]);
    assert!(is_well && !alone.contains("ClusterRole") && !alone.contains("--kubelet"), "{alone}");
    assert!(alone.contains("egress: []"), "{alone}");
    assert!(!whole.contains("--profiles") && !whole.contains("--otlp") && !whole.contains("port: 53"), "{whole}");
    let url = "--set=otlp.url=http://c.monitoring:4318,kubelet.enabled=false";
    let to = "--set-json=otlp.to=[{\"namespaceSelector\":{\"matchLabels\":{\"a\":\"collectors\"}}}]";
    let (is_well, more) = render(&[url, to]);
    assert!(is_well && more.contains("- --otlp=http://c.monitoring:4318\n"), "{more}");
    assert!(more.contains("a: collectors") && more.contains("{port: 53, protocol: UDP}"), "{more}");
    let (is_well, said) = render(&[url]);
    assert!(!is_well && said.contains("otlp.to"), "{said}");
    let (is_well, said) = render(&["--set=otlp.url=https://c:4318", to]);
    assert!(!is_well && said.contains("otlp"), "the agent refuses it as well: {said}");
    let (is_well, said) = render(&["--set=resources.limits.cpu=1"]);
    assert!(!is_well && said.contains("cpu"), "a limit of CPU is refused: {said}");
    let (is_well, said) = render(&["--set=cpuPercent=0"]);
    assert!(!is_well && said.contains("cpuPercent"), "{said}");
    for every in ["0s", "500ms"] {
        let (is_well, said) = render(&[&format!("--set=every={every}")]);
        assert!(!is_well && said.contains("every"), "the agent refuses it as well: {said}");
    }
}

#[test]
fn with_auth_the_chart_asks_the_api_server_and_speaks_tls_and_without_it_passes_no_profile() {
    if tool("helm", &["version"]).is_none() {
        return;
    }
    let from = "--set-json=networkPolicy.from=[{\"podSelector\":{}}]";
    let guarded = "--set=auth=kubernetes,tls.secretName=cert,kubelet.enabled=false";
    let (is_well, whole) = render(&[guarded, from, "--set=profiles=true,roles=true,serviceMonitor.enabled=true"]);
    assert!(is_well, "{whole}");
    for wanted in [
        "- --auth=kubernetes\n",
        "- --tls-certificate=/tls/tls.crt\n",
        "- --tls-key=/tls/tls.key\n",
        "- --profiles\n",
        "automountServiceAccountToken: true",
        "secret: {secretName: cert, defaultMode: 0400",
        "{name: https, containerPort: 9912, protocol: TCP}",
        // A probe needs neither.
        "httpGet: {path: /healthz, port: https, scheme: HTTP}",
        "name: system:auth-delegator",
        "- {port: 6443, protocol: TCP}",
        "      scheme: https\n",
        "serverName: x-allocanary.default.svc",
        "ca: {secret: {name: cert, key: ca.crt}}",
        "bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
        "nonResourceURLs: [\"/metrics\"]",
        "nonResourceURLs: [\"/debug/pprof/*\"]",
    ] {
        assert!(whole.contains(wanted), "{wanted}: {whole}");
    }
    let role =
        whole.split("\n---\n").find(|one| one.contains("kind: Role\n") && one.contains("  name: x-allocanary-top\n"));
    let role = role.expect("a role for `top`");
    for wanted in [
        "resources: [serviceaccounts/token]\n    resourceNames: [x-allocanary-top]\n    verbs: [create]",
        "resources: [pods/portforward]\n    verbs: [create]",
        "resources: [pods]\n    verbs: [get]",
    ] {
        assert!(role.contains(wanted), "{wanted}: {role}");
    }
    // Of the roles for pages, only that of `top` is bound, and to its own account.
    let bound: Vec<&str> = whole.split("\n---\n").filter(|one| one.contains("kind: ClusterRoleBinding")).collect();
    assert_eq!(bound.len(), 2, "{bound:?}");
    assert!(
        bound
            .iter()
            .any(|one| one.contains("name: default-x-allocanary-report") && one.contains("name: x-allocanary-top,"))
    );
    let own = "--set=serviceMonitor.enabled=true,serviceMonitor.tlsConfig.insecureSkipVerify=true,serviceMonitor.authorization.credentials.name=s";
    let (is_well, own) = render(&[guarded, from, own]);
    assert!(is_well && own.contains("insecureSkipVerify: true") && own.contains("name: s"), "{own}");
    assert!(!own.contains("bearerTokenFile") && !own.contains("ca.crt"), "{own}");
    let (is_well, only_tls) = render(&["--set=tls.secretName=cert"]);
    assert!(is_well && only_tls.contains("--tls-key=") && !only_tls.contains("--auth="), "{only_tls}");
    for (more, wanted) in
        [("auth=kubernetes", "tls.secretName"), ("profiles=true,tls.secretName=cert", "auth: kubernetes")]
    {
        let (is_well, said) = render(&[&format!("--set={more}")]);
        assert!(!is_well && said.contains(wanted), "{more}: {said}");
    }
}
