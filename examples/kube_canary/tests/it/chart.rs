//! The Helm chart, linted and rendered by the real helm. In: `deploy/helm` with values. Out: whether each set of values renders,
//! gives the canary only flags that it knows, and equals the manifests.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::canary::{command, ended_within};
use crate::manifests::flags;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm");

/// A kind of object, and the number of such objects.
type Kind = (&'static str, usize);

/// Runs helm. Returns whether it succeeded, and its output; `None`, with a message, if helm is not installed.
fn helm(arguments: &[&str]) -> Option<(bool, String)> {
    let gopath = std::env::var("GOPATH").unwrap_or_else(|_| std::env::var("HOME").unwrap_or_default() + "/go");
    let path = std::env::var("PATH").unwrap_or_default() + ":" + &gopath + "/bin";
    let out = match Command::new("helm").args(arguments).env("PATH", path).output() {
        Ok(out) => out,
        Err(error) => {
            let how = "go install helm.sh/helm/v3/cmd/helm@latest";
            allocanary_testing::skipped::skipped(format_args!("helm is not installed ({error}): {how}"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + if out.status.success() { "" } else { "\n" };
    let said = if out.status.success() { said } else { said + &String::from_utf8_lossy(&out.stderr) };
    Some((out.status.success(), said))
}

fn rendered(values: &[&str]) -> Option<String> {
    let mut arguments = vec!["template", "kube-canary", CHART, "--namespace=monitoring", "--kube-version=1.34.0"];
    arguments.extend(values.iter().flat_map(|value| ["--set", value]));
    let (is_well, said) = helm(&arguments)?;
    assert!(is_well, "{values:?}: {said}");
    Some(said)
}

/// The number of objects of a kind.
fn count(manifests: &str, kind: &str) -> usize {
    manifests.lines().filter(|line| *line == format!("kind: {kind}")).count()
}

#[test]
fn helm_lints_it() {
    let Some((is_well, said)) = helm(&["lint", "--strict", CHART]) else { return };
    assert!(is_well && said.contains("0 chart(s) failed"), "{said}");
}

#[test]
fn every_choice_renders_and_has_flags_that_the_canary_takes() {
    let choices: [(&[&str], &[Kind]); 5] = [
        (
            &[],
            &[
                ("DaemonSet", 1),
                ("Service", 1),
                ("ServiceAccount", 1),
                ("NetworkPolicy", 1),
                ("Role", 0),
                ("ClusterRole", 0),
            ],
        ),
        (&["discovery=kubernetes"], &[("Role", 1), ("RoleBinding", 1), ("ClusterRole", 0)]),
        (&["discovery=kubernetes", "watchNodes=true"], &[("Role", 1), ("ClusterRole", 1), ("ClusterRoleBinding", 1)]),
        (&["hostNetwork=true", "networkPolicy.enabled=false"], &[("NetworkPolicy", 0)]),
        (
            &[
                "podMonitor.enabled=true",
                "prometheusRule.enabled=true",
                "priorityClass.create=true",
                "extraArgs={--series=all}",
            ],
            &[("PodMonitor", 1), ("PrometheusRule", 1), ("PriorityClass", 1)],
        ),
    ];
    for (values, kinds) in choices {
        let Some(manifests) = rendered(values) else { return };
        for (kind, wanted) in kinds {
            assert_eq!(count(&manifests, kind), *wanted, "{values:?}: {kind}");
        }
        let flags = flags(&manifests);
        assert!(flags.len() >= 6 && flags.iter().any(|flag| flag == "--peers-max=32"), "{values:?}: {flags:?}");
        let in_host = values.contains(&"hostNetwork=true");
        assert_eq!(in_host, !manifests.contains("ping_group_range"), "{values:?}");
        assert_eq!(in_host, flags.contains(&"--protocol=udp".to_string()), "{values:?}: {flags:?}");
        assert_eq!(values.contains(&"priorityClass.create=true"), manifests.contains("priorityClassName: kube-canary"));
        // An unknown flag ends the canary with 2. If it knows all flags, it ends with 1, because this host does not
        // have the address of `--listen`.
        let taken = flags
            .iter()
            .filter(|flag| !flag.starts_with("--listen="))
            .map(|flag| flag.replace("$(POD_NAMESPACE)", "a"));
        let mut child = command(&["--listen=192.0.2.1:1"]).args(taken).stderr(Stdio::null()).spawn().unwrap();
        let status = ended_within(&mut child, Duration::from_secs(60)).unwrap_or_else(|| {
            let _ = child.kill();
            panic!("{values:?}: {flags:?} did not end")
        });
        assert_eq!(status.code(), Some(1), "{values:?}: {flags:?}");
    }
}

#[test]
fn the_rules_of_the_chart_are_those_that_are_tested() {
    let Some(manifests) = rendered(&["prometheusRule.enabled=true"]) else { return };
    let rules = include_str!("../../deploy/monitoring/rules.yaml");
    let names = |text: &str| {
        text.lines().filter(|line| line.contains("- alert: ")).map(|line| line.trim().to_string()).collect::<Vec<_>>()
    };
    assert!(names(rules).len() > 10 && names(&manifests) == names(rules));
    // Helm must not evaluate the templates that are Prometheus's.
    assert!(manifests.contains("{{ $labels.node }} reaches nobody"));
}

#[test]
fn a_value_that_cannot_be_is_refused_by_name() {
    for (value, named) in [("peersMax=0", "peersMax"), ("discovery=etcd", "discovery"), ("protocls={icmp}", "protocls")]
    {
        let arguments = ["template", "kube-canary", CHART, "--kube-version=1.34.0", "--set", value];
        let Some((is_well, said)) = helm(&arguments) else { return };
        assert!(!is_well && said.contains(named), "{value}: {said}");
    }
}
