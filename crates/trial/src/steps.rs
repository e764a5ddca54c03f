//! The patch for one replica, as commands that a person runs. In: a workload, variables, and what is known of its replicas. Out: steps.
//! Nothing is changed here. All is done by kubectl itself: a patch of the whole workload would restart every replica.

use serde_json::{Value, json};

use crate::target::{CANARY, Target, Variable};

/// A step: why, and the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// A sentence or two.
    pub why: String,
    /// The command; lines of a shell.
    pub command: String,
}

/// The label of a canary's pods.
pub const LABEL: &str = "allocanary-try";
/// Others that are restarted together with the changed one.
const RESTARTED: usize = 3;

/// The steps: how one replica gets the lines, which others are restarted, and how it is undone. `container` is the one that gets the
/// variables, and `pods` are replicas that are known.
pub fn steps(target: &Target, namespace: &str, container: &str, lines: &[Variable], pods: &[String]) -> Vec<Step> {
    let env: Vec<Value> = lines.iter().map(|one| json!({"name": one.name, "value": one.value})).collect();
    let spec = json!({"containers": [{"name": container, "env": env}]});
    let (kubectl, what) = (format!("kubectl -n {namespace}"), format!("{} {}", target.kind, target.name));
    let (why, change, undo) = match target.kind.as_str() {
        "statefulset" => of_stateful_set(&kubectl, &what, &spec),
        "daemonset" => of_daemon_set(&kubectl, &what, &spec, pods.first().map_or("POD", String::as_str)),
        _ => of_deployment(&kubectl, &what, &target.name, &spec),
    };
    // A StatefulSet's changed replica is its last. Of a DaemonSet the first pod is taken.
    let changed = match target.kind.as_str() {
        "statefulset" => last(pods),
        "daemonset" => pods.first(),
        _ => None,
    };
    let others: Vec<&str> =
        pods.iter().filter(|pod| Some(*pod) != changed).take(RESTARTED).map(String::as_str).collect();
    let others = if others.is_empty() { "POD POD".to_string() } else { others.join(" ") };
    let why_others = "Memory grows with age: restart others at the same time, two or more. They keep their settings, and are what the \
                      changed one is compared with.";
    vec![
        Step { why, command: change },
        Step { why: why_others.into(), command: format!("{kubectl} delete pod {others}") },
        Step { why: "Afterwards, whatever comes out:".into(), command: undo },
    ]
}

/// Why, the change, and how it is undone.
type Change = (String, String, String);

fn of_stateful_set(kubectl: &str, what: &str, spec: &Value) -> Change {
    let why =
        "A StatefulSet updates from its last replica down to its partition: only the last replica gets the lines.";
    let count = format!("$({kubectl} get {what} -o jsonpath='{{.spec.replicas}}')");
    // The partition comes first, in a patch of its own. It is a number that only the shell knows.
    let hold = r#"{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":'"#;
    let hold = format!("{kubectl} patch {what} -p '{hold}$(({count} - 1))'}}}}}}}}'");
    let change = patch(kubectl, what, &json!({"spec": {"template": {"spec": spec}}}));
    let all = r#"'{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'"#;
    let undo = format!("{kubectl} rollout undo {what} &&\n{kubectl} patch {what} -p {all}");
    (why.into(), format!("{hold} &&\n{change}"), undo)
}

fn of_daemon_set(kubectl: &str, what: &str, spec: &Value, pod: &str) -> Change {
    let why = "A DaemonSet with the strategy OnDelete gives the lines to a pod when this is deleted: to one alone. Note the strategy that it \
               has now, to set it again.";
    let strategy = json!({"type": "OnDelete", "rollingUpdate": null});
    let change = patch(kubectl, what, &json!({"spec": {"updateStrategy": strategy, "template": {"spec": spec}}}));
    let undo = format!("{kubectl} rollout undo {what} && {kubectl} delete pod CHANGED_POD");
    (why.into(), format!("{change} &&\n{kubectl} delete pod {pod}"), undo)
}

fn of_deployment(kubectl: &str, what: &str, name: &str, spec: &Value) -> Change {
    let why = format!(
        "A second Deployment of one replica, made from the first: a patch of {name} itself would change all replicas. Its pod has the labels \
         of the others, so that services send it the same traffic; an autoscaler of {name} counts it."
    );
    let (canary, label) = (format!("{name}{CANARY}"), json!({ LABEL: name }));
    let of_the_first = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "annotations",
        "ownerReferences",
        "managedFields",
    ];
    let mut metadata: serde_json::Map<String, Value> =
        of_the_first.map(|key| (key.into(), Value::Null)).into_iter().collect();
    metadata.insert("name".into(), canary.clone().into());
    let change = json!({
        "metadata": metadata,
        "spec": {"replicas": 1, "selector": {"matchLabels": label}, "template": {"metadata": {"labels": label}, "spec": spec}},
        "status": null,
    });
    let command = format!(
        "{kubectl} get {what} -o json |\n  kubectl patch --local -f - --type strategic -o json -p {} |\n  {kubectl} create -f -",
        quoted(&change.to_string())
    );
    (why, command, format!("{kubectl} delete deployment {canary}"))
}

/// The pod with the highest number behind its name.
fn last(pods: &[String]) -> Option<&String> {
    pods.iter().max_by_key(|pod| pod.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok()))
}

fn patch(kubectl: &str, what: &str, patch: &Value) -> String {
    format!("{kubectl} patch {what} --type strategic -p {}", quoted(&patch.to_string()))
}

/// In single quotes, as a shell reads it back.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, pods: &[&str]) -> Vec<String> {
        let lines = Variable::parse_all("MALLOC_ARENA_MAX=1 \"X=it's\"").unwrap();
        let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_string()).collect();
        let steps = steps(&Target::parse(target).unwrap(), "shop", "web", &lines, &pods);
        steps.into_iter().map(|step| step.command).collect()
    }

    #[test]
    fn a_deployment_gets_a_canary_and_is_not_changed() {
        let steps = of("deploy/web", &["web-1-a", "web-1-b"]);
        assert!(
            steps[0].starts_with("kubectl -n shop get deployment web -o json |\n  kubectl patch --local"),
            "{}",
            steps[0]
        );
        assert!(steps[0].contains(r#""name":"web-allocanary""#) && steps[0].contains(r#""value":"it'\''s""#));
        assert_eq!(steps[1], "kubectl -n shop delete pod web-1-a web-1-b");
        assert_eq!(steps[2], "kubectl -n shop delete deployment web-allocanary");
    }

    #[test]
    fn a_statefulset_is_held_by_its_partition_before_it_is_patched() {
        let steps = of("sts/db", &["db-0", "db-1", "db-10", "db-2"]);
        let (hold, change) = steps[0].split_once(" &&\n").unwrap();
        assert!(
            hold.contains(
                r#""partition":'$(($(kubectl -n shop get statefulset db -o jsonpath='{.spec.replicas}') - 1))'}}}}'"#
            ),
            "{hold}"
        );
        assert!(change.contains("MALLOC_ARENA_MAX") && !hold.contains("MALLOC"), "{change}");
        assert_eq!(steps[1], "kubectl -n shop delete pod db-0 db-1 db-2", "db-10 is the changed one");
        assert!(steps[2].contains("rollout undo") && steps[2].contains(r#""partition":0"#));
    }

    #[test]
    fn of_a_daemonset_one_pod_is_deleted() {
        let steps = of("ds/log", &["log-a", "log-b", "log-c"]);
        assert!(steps[0].contains("OnDelete") && steps[0].ends_with("delete pod log-a"), "{}", steps[0]);
        assert_eq!(steps[1], "kubectl -n shop delete pod log-b log-c");
        assert_eq!(of("ds/log", &[])[1], "kubectl -n shop delete pod POD POD");
    }

    #[test]
    fn a_shell_reads_the_patches_back() {
        // kubectl prints its words, a line each; of a StatefulSet it knows the replicas.
        let kubectl =
            "kubectl() { case \"$*\" in *jsonpath*) echo 3 ;; *) cat >/dev/null; printf '%s\\n' \"$@\" ;; esac; }\n";
        let patches = |target: &str| -> Vec<Value> {
            let script =
                format!("{kubectl}{}", of(target, &["x-0", "x-1"])[0].replace("kubectl -n shop create -f -", "cat"));
            let ran = std::process::Command::new("sh")
                .args(["-c", &script])
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
            let text = String::from_utf8(ran.stdout).unwrap();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
        };
        let env = |patch: &Value| patch["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        let wanted = json!([{"name": "MALLOC_ARENA_MAX", "value": "1"}, {"name": "X", "value": "it's"}]);
        let of_set = patches("sts/db");
        assert_eq!(of_set[0]["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 2);
        assert_eq!(env(&of_set[1]), wanted);
        assert_eq!(env(&patches("ds/log")[0]), wanted);
        let canary = patches("deploy/web");
        assert_eq!((env(&canary[0]), &canary[0]["spec"]["replicas"]), (wanted, &json!(1)));
    }
}
