//! The patch for one replica, as commands that a person runs. In: a workload, variables, and what is known of its replicas. Out:
//! steps. This code changes nothing. The steps need only kubectl. They do not just patch the whole workload, because that would
//! restart every replica.
//!
//! No step restarts a replica other than the changed one. The cluster itself keeps what the undo needs: an annotation of the changed
//! template names the revision before it. The undo stops if the newest revision is not the one after that.

use allocanary_text::paste::{CommandLine, quoted};
use serde::Serialize;
use serde_json::{Value, json};

use crate::trial::target::{CANARY, TrialTarget, TrialVariable, is_name};

/// A step of a trial: the reason, and the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrialStep {
    /// A sentence or two.
    pub why: String,
    /// The command; lines of a shell.
    pub command: String,
}

/// What is known of the workload.
#[derive(Clone, Debug)]
pub struct WorkloadFacts<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The container that gets the variables.
    pub container: &'a str,
    /// A replica that runs.
    pub pod: Option<&'a str>,
}

/// The label of a canary's pods, and the annotation of a changed template.
pub const LABEL: &str = "allocanary-try";

/// The steps: read the replicas before, give one replica the variables, read and judge (by the commands `read` and `judge`), and undo the
/// change. The error is a name that Kubernetes does not allow, because a shell would interpret it.
pub fn steps(
    target: &TrialTarget,
    known: &WorkloadFacts,
    lines: &[TrialVariable],
    read: CommandLine,
    judge: CommandLine,
) -> Result<Vec<TrialStep>, String> {
    let names = [Some(known.namespace), Some(known.container), known.pod, target.container.as_deref()];
    if let Some(bad) = names.into_iter().flatten().find(|name| !is_name(name)) {
        return Err(format!("{bad:?} in a report: wanted a name of Kubernetes (a-z, 0-9, - and .)"));
    }
    // `valueFrom: null` removes a reference that the variable had. In a value, `$` begins a reference to another variable, and `$$`
    // means `$`.
    let of = |one: &TrialVariable| json!({"name": one.name, "value": one.value.replace('$', "$$"), "valueFrom": null});
    let spec = json!({"containers": [{"name": known.container, "env": lines.iter().map(of).collect::<Vec<_>>()}]});
    let (kubectl, what) = (format!("kubectl -n {}", known.namespace), format!("{} {}", target.kind, target.name));
    let (why, change, undo) = match (target.kind.as_str(), known.pod) {
        ("statefulset", _) => of_stateful_set(&kubectl, &target.name, &spec),
        ("daemonset", Some(pod)) => of_daemon_set(&kubectl, &what, &spec, pod),
        ("daemonset", None) => {
            return Err(format!("{}: wanted agents that know a pod of it: one is deleted", target.workload()));
        }
        _ => of_deployment(&kubectl, &what, &target.name, &spec),
    };
    let before = format!(
        "Read what replicas have now. Replicas are compared at the same age, for memory grows with age, and of a StatefulSet or a DaemonSet only \
         those count that were restarted since. Nothing here restarts the others. Begin after the next rollout, or decide yourself on \
         `{kubectl} rollout restart {what}` between this reading and the change: it restarts all, by the workload's own strategy."
    );
    let step = |why: &str, command: String| TrialStep { why: why.into(), command };
    Ok(vec![
        step(&before, read.to_string()),
        step(&why, change),
        step("Wait and judge, with the readings from before.", judge.to_string()),
        step("Afterwards, whatever comes out: the way back.", undo),
    ])
}

/// The reason, the command that changes, and the command that undoes it.
type Change = (String, String, String);

fn of_stateful_set(kubectl: &str, name: &str, spec: &Value) -> Change {
    let what = format!("statefulset {name}");
    let why = "A StatefulSet updates from its last replica down to its partition: only the last replica gets the lines. The commands stop if \
               a rollout is under way, or if it has a partition already.";
    let state = "{.spec.updateStrategy.type}:{.spec.updateStrategy.rollingUpdate.partition}:{.spec.ordinals.start}";
    let check = check(kubectl, &what, state, "RollingUpdate::|RollingUpdate:0:|RollingUpdate::0|RollingUpdate:0:0");
    // Only the shell knows the partition's number. One patch sets it together with the lines, so that no pod is updated in between.
    let change = patched(&json!({
        "updateStrategy": {"rollingUpdate": {"partition": NUMBER}},
        "template": {"metadata": {"annotations": {LABEL: REVISION}}, "spec": spec},
    }));
    let change = format!(
        "{check}\n\
         last=$(({kubectl_get} -o jsonpath='{{.spec.replicas}}') - 1))\n\
         {kubectl} patch {what} -p {change}\n\
         {kubectl} rollout status {what} --timeout=15m )",
        kubectl_get = format_args!("$({kubectl} get {what}"),
    );
    // After the template is restored, all replicas but the changed one match it already, so none of them is restarted when the partition
    // goes back to 0. The controller does not replace a pod that never becomes ready. So the command deletes that pod if it still has the
    // variables.
    let undo = format!(
        "{}\n\
         last=$({kubectl} get {what} -o jsonpath='{{.spec.updateStrategy.rollingUpdate.partition}}')\n\
         hash=$({kubectl} get {what} -o jsonpath='{{.status.updateRevision}}')\n\
         {kubectl} rollout undo {what} --to-revision=\"$was\"\n\
         {kubectl} patch {what} -p '{{\"spec\":{{\"updateStrategy\":{{\"rollingUpdate\":{{\"partition\":0}}}}}}}}'\n\
         {kubectl} delete pod --field-selector \"metadata.name={name}-$last\" -l \"controller-revision-hash=$hash\"\n\
         {kubectl} rollout status {what} --timeout=15m )",
        check_undo(kubectl, &what)
    );
    (why.into(), change, undo)
}

fn of_daemon_set(kubectl: &str, what: &str, spec: &Value, pod: &str) -> Change {
    let why = "A DaemonSet with the strategy OnDelete gives the lines to a pod when this is deleted: one is. A pod that ends for another \
               reason gets them as well, until the way back. The commands stop if a rollout is under way.";
    let check = check(kubectl, what, "{.spec.updateStrategy.type}", "RollingUpdate");
    // The numbers of the old strategy stay in the object. They are in force again when its type is set back.
    let change = patched(&json!({
        "updateStrategy": {"type": "OnDelete"},
        "template": {"metadata": {"annotations": {LABEL: REVISION}}, "spec": spec},
    }));
    // If the pod has gone meanwhile, the command stops here, before the change.
    let change = format!(
        "{check}\n\
         {kubectl} get pod {pod} -o name\n\
         {kubectl} patch {what} -p {change}\n\
         {kubectl} delete pod {pod} )"
    );
    let undo = format!(
        "{}\n\
         {kubectl} rollout undo {what} --to-revision=\"$was\"\n\
         {kubectl} patch {what} -p '{{\"spec\":{{\"updateStrategy\":{{\"type\":\"RollingUpdate\"}}}}}}'\n\
         {kubectl} rollout status {what} --timeout=15m )",
        check_undo(kubectl, what)
    );
    (why.into(), change, undo)
}

fn of_deployment(kubectl: &str, what: &str, name: &str, spec: &Value) -> Change {
    let why = format!(
        "A second Deployment of one replica, made from the first: a patch of {name} itself would change all replicas. Its pod has the labels \
         of the others, so that services send it the same traffic; an autoscaler of {name} counts it."
    );
    // The label's value is `1`, because a workload's name may be longer than a label's value may be.
    let (canary, label) = (format!("{name}{CANARY}"), json!({LABEL: "1"}));
    // Labels are removed as well: other tools recognise their objects by labels.
    let of_the_first = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "annotations",
        "labels",
        "finalizers",
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
        quoted(change.to_string())
    );
    (why, command, format!("{kubectl} delete deployment {canary}"))
}

/// The number of the newest revision.
fn newest(kubectl: &str, what: &str) -> String {
    format!("$({kubectl} rollout history {what} | awk '$1 + 0 > n {{ n = $1 + 0 }} END {{ print n + 0 }}')")
}

/// The start of a subshell that ends at the first error. It goes on only if the strategy is in a usual state, there is no trial, and
/// no rollout is in progress.
fn check(kubectl: &str, what: &str, state: &str, usual: &str) -> String {
    let usual: Vec<String> = usual.split('|').map(|one| format!("{one}::")).collect();
    format!(
        "( set -eu\n\
         state=$({kubectl} get {what} -o jsonpath='{state}::{{.spec.template.metadata.annotations.{LABEL}}}')\n\
         case \"$state\" in ({}) ;; (*) echo \"not changed: {what} has $state, wanted {}\" >&2; exit 1 ;; esac\n\
         {kubectl} rollout status {what} --timeout=30s\n\
         was={}\n\
         [ \"$was\" -gt 0 ]",
        usual.join("|"),
        usual[0],
        newest(kubectl, what)
    )
}

/// The start of an undo. It goes on only if the trial made the newest revision.
fn check_undo(kubectl: &str, what: &str) -> String {
    format!(
        "( set -eu\n\
         was=$({kubectl} get {what} -o jsonpath='{{.spec.template.metadata.annotations.{LABEL}}}')\n\
         now={}\n\
         [ -n \"$was\" ] && [ \"$now\" -eq $((was + 1)) ] || {{ echo \"not undone: {what} is at revision $now, wanted the one after ${{was:-a trial}}\" >&2; exit 1; }}",
        newest(kubectl, what)
    )
}

/// A placeholder that the shell replaces by the partition, a number.
const NUMBER: &str = "@number@";
/// A placeholder that the shell replaces by the previous revision, a text.
const REVISION: &str = "@revision@";

/// A patch of the specification, for a shell that knows the variables `last` and `was`.
fn patched(spec: &Value) -> String {
    // A person's value may contain the same text as a placeholder. So each placeholder is replaced once, together with text around it that
    // no value can contain. The control character that takes its place does not occur in JSON, which escapes it.
    let text = json!({ "spec": spec }).to_string();
    let text = text.replacen(&format!("\"{LABEL}\":\"{REVISION}\""), &format!("\"{LABEL}\":\"\u{1}was\u{1}\""), 1);
    let text = text.replacen(&format!("\"partition\":\"{NUMBER}\""), "\"partition\":\u{1}last\u{1}", 1);
    let part = |(at, part): (usize, &str)| if at % 2 == 0 { quoted(part) } else { format!("\"${part}\"") };
    text.split('\u{1}').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(target: &str, container: &str, pod: Option<&str>) -> Result<Vec<TrialStep>, String> {
        let lines =
            TrialVariable::parse_all("MALLOC_ARENA_MAX=1 \"X=it's\" 'Y=$(HOME) \"allocanary-try\":\"@revision@\"'")
                .unwrap();
        let known = WorkloadFacts { namespace: "shop", container, pod };
        steps(&TrialTarget::parse(target).unwrap(), &known, &lines, CommandLine::new("read"), CommandLine::new("judge"))
    }

    /// The change, and its undo.
    fn of(target: &str) -> [String; 2] {
        let steps = steps_of(target, "web", Some("log-a")).unwrap();
        assert_eq!((steps[0].command.as_str(), steps[2].command.as_str()), ("read", "judge"));
        [steps[1].command.clone(), steps[3].command.clone()]
    }

    /// The commands that a script runs in a cluster with this state and this newest revision. Each line is a call, with `|` between
    /// its words.
    fn ran(script: &str, state: &str, newest: &str) -> (bool, Vec<String>) {
        let kubectl = r#"kubectl() { shift 2; case "$*" in
            "get "*annotations*) printf %s "$STATE" ;;
            "rollout history "*) printf 'x\nREVISION  CHANGE-CAUSE\n4  none\n%s  none\n' "$NEWEST" ;;
            *{.spec.replicas}*) echo 3 ;;
            *.partition}*) echo 2 ;;
            *updateRevision*) echo db-7f ;;
            "rollout status "*) ;;
            *) printf '%s|' "$@"; echo ;; esac; }"#;
        let ran = std::process::Command::new("sh")
            .args(["-c", &format!("{kubectl}\n{script}")])
            .envs([("STATE", state), ("NEWEST", newest)])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        (ran.status.success(), text.lines().map(String::from).collect())
    }

    fn patch_in(call: &str) -> Value {
        serde_json::from_str(call.split('|').find(|word| word.starts_with('{')).unwrap()).unwrap()
    }

    fn wanted() -> Value {
        json!([
            {"name": "MALLOC_ARENA_MAX", "value": "1", "valueFrom": null},
            {"name": "X", "value": "it's", "valueFrom": null},
            {"name": "Y", "value": "$$(HOME) \"allocanary-try\":\"@revision@\"", "valueFrom": null},
        ])
    }

    #[test]
    fn a_deployment_gets_a_canary_and_is_not_changed() {
        let [change, undo] = of("deploy/web");
        assert!(
            change.starts_with("kubectl -n shop get deployment web -o json |\n  kubectl patch --local"),
            "{change}"
        );
        assert_eq!(undo, "kubectl -n shop delete deployment web-allocanary");
        let long = "w".repeat(100);
        let [change, _] = of(&format!("deploy/{long}"));
        let words = change.replace("kubectl", "words").replace("words -n shop create -f -", "cat");
        let script = format!("words() {{ cat >/dev/null; printf '%s\\n' \"$@\"; }}\n{words}");
        let ran = std::process::Command::new("sh").args(["-c", &script]).stdin(std::process::Stdio::null()).output();
        let text = String::from_utf8(ran.unwrap().stdout).unwrap();
        let patch: Value =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).find(Value::is_object).unwrap();
        assert_eq!(patch["spec"]["template"]["spec"]["containers"][0]["env"], wanted());
        assert_eq!(patch["metadata"]["name"], format!("{long}-allocanary"));
        assert_eq!(patch["metadata"].get("labels"), Some(&Value::Null));
        assert!(patch["spec"]["selector"]["matchLabels"][LABEL].as_str().unwrap().len() < 64);
    }

    #[test]
    fn of_a_statefulset_the_last_replica_alone_is_changed_and_nothing_is_deleted() {
        let [change, _] = of("sts/db");
        let (is_done, calls) = ran(&change, "RollingUpdate:0:::", "7");
        assert!(is_done && calls.len() == 1 && calls[0].starts_with("patch|statefulset|db|-p|"), "{calls:?}");
        let patch = patch_in(&calls[0]);
        assert_eq!(patch["spec"]["updateStrategy"], json!({"rollingUpdate": {"partition": 2}}));
        let template = &patch["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"], json!({LABEL: "7"}));
        assert_eq!(template["spec"]["containers"][0]["env"], wanted());
        // A workload with a partition, one with another strategy, and one with a trial in progress.
        for state in ["RollingUpdate:1:::", "OnDelete::::", "RollingUpdate:0:5::", "RollingUpdate:0:::7"] {
            assert_eq!(ran(&change, state, "7"), (false, Vec::new()), "{state}");
        }
    }

    #[test]
    fn the_way_back_is_to_the_revision_before_and_not_over_the_work_of_another() {
        let [_, undo] = of("sts/db");
        let (is_done, calls) = ran(&undo, "7", "8");
        let wanted = [
            "rollout|undo|statefulset|db|--to-revision=7|",
            r#"patch|statefulset|db|-p|{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}|"#,
            "delete|pod|--field-selector|metadata.name=db-2|-l|controller-revision-hash=db-7f|",
        ];
        assert!(is_done && calls == wanted, "{calls:?}");
        let [_, of_daemon_set] = of("ds/log");
        for undo in [undo, of_daemon_set] {
            for (was, newest) in [("7", "9"), ("7", "7"), ("", "8")] {
                assert_eq!(ran(&undo, was, newest), (false, Vec::new()), "{was} {newest}");
            }
        }
    }

    #[test]
    fn of_a_daemonset_one_pod_is_deleted_and_its_strategy_comes_back() {
        let [change, undo] = of("ds/log");
        let (is_done, calls) = ran(&change, "RollingUpdate::", "7");
        assert!(is_done && calls.len() == 3 && calls[0] == "get|pod|log-a|-o|name|", "{calls:?}");
        assert_eq!(calls[2], "delete|pod|log-a|");
        let patch = patch_in(&calls[1]);
        assert_eq!(patch["spec"]["updateStrategy"], json!({"type": "OnDelete"}), "its numbers stay");
        assert_eq!(patch["spec"]["template"]["spec"]["containers"][0]["env"], wanted());
        assert_eq!(ran(&change, "OnDelete::", "7"), (false, Vec::new()));
        let (is_done, calls) = ran(&undo, "7", "8");
        assert!(is_done && calls[0] == "rollout|undo|daemonset|log|--to-revision=7|" && calls.len() == 2, "{calls:?}");
        assert!(calls[1].contains(r#"{"updateStrategy":{"type":"RollingUpdate"}}"#), "{calls:?}");
        assert!(steps_of("ds/log", "web", None).unwrap_err().contains("wanted agents that know a pod"));
    }

    #[test]
    fn a_name_that_a_shell_would_read_is_refused() {
        assert!(steps_of("ds/log", "web", Some("a; rm x")).unwrap_err().contains("wanted a name of Kubernetes"));
        assert!(steps_of("deploy/web", "$(x)", None).unwrap_err().contains("wanted a name of Kubernetes"));
        let all = ["deploy/web", "sts/db", "ds/log"].map(|target| steps_of(target, "web", Some("log-a")).unwrap());
        let deletes: usize = all.iter().flatten().map(|step| step.command.matches("delete pod").count()).sum();
        assert_eq!(deletes, 2, "one of a DaemonSet, and the changed one of a StatefulSet on the way back");
    }
}
