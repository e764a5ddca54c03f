//! `allocanary kube`, which is `kubectl allocanary`, with a kubectl that answers from files.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::bounded::Bounded;
use super::support::{Ran, command, words};

/// A kubectl of a cluster with two nodes; the agent of the second does not answer. It says how it was called.
const KUBECTL: &str = r##"#!/bin/sh
echo "$*" >> calls
case "$*" in
*"get pods --all-namespaces -l app.kubernetes.io/name=allocanary-node --field-selector status.phase=Running -o json") cat agents.json ;;
*"get --request-timeout=20s --raw /api/v1/namespaces/monitoring/pods/agent-1:9912/proxy/report.json") cat report.json ;;
*"create --raw /api/v1/namespaces/monitoring/serviceaccounts/agents-top/token -f -") cat > asked.json; cat token.json ;;
*"port-forward -n monitoring --address 127.0.0.1 pod/agent-1 :9912") echo "Forwarding from 127.0.0.1:$(cat port) -> 9912"; exec sleep 60 ;;
*"port-forward "*) echo "error: pods \"agent-2\" is forbidden" >&2; exit 1 ;;
*"--raw "*) echo "Error from server (ServiceUnavailable): the server is currently unable" >&2; exit 1 ;;
*"get pod -o json -n shop -- web-1") cat pod.json ;;
*"get pod -o json -n shop -- web-2") sed 's/"n1"/"n3"/; s/web-1/web-2/' pod.json ;;
*"exec -n monitoring agent-1 -- allocanary 42") echo "the page of 42" ;;
*"exec -n monitoring agent-1 -- allocanary 42 --json") cat remedies.json ;;
*) echo "Error from server (NotFound): $*" >&2; exit 1 ;;
esac
"##;

const AGENTS: &str = r#"{"items":[
  {"metadata":{"name":"agent-2","namespace":"monitoring"},"spec":{"nodeName":"n2","containers":[{"name":"agent"}]}},
  {"metadata":{"name":"agent-1","namespace":"monitoring"},"spec":{"nodeName":"n1","containers":[{"name":"agent","ports":[{"containerPort":9912}]}]}}]}"#;

const POD: &str = r#"{"metadata":{"name":"web-1","namespace":"shop"},"spec":{"nodeName":"n1","containers":[{"name":"web"},{"name":"side"}]}}"#;

const REPORT: &str = r#"{"schema":1,"node":"n1","taken_timestamp_seconds":1,"boot":"","host":{"cores":8,"thp":"madvise","page_bytes":4096,"arch":"x86_64"},"problems":[],
  "own":{"cpu_seconds":0,"cpu_counts_seconds":0,"cpu_walks_seconds":0,"up_seconds":0,"resident_bytes":0,"processes":0,"denied":0,"walks":0,"failed":0,"names_timestamp_seconds":null,"nameless":0},
  "rows":[
    {"namespace":"shop","pod":"web-1","container":"web","workload":"deployment/web","image":"","allocator":"glibc","version":"","settings":[],
     "follows":"host","processes":1,"unread":0,"parts_bytes":{"live":1000000,"free_pages":5000000},"reclaimable":[],"pid":42,"profiled":[]},
    {"namespace":"shop","pod":"web-1","container":"side","workload":"deployment/web","image":"","allocator":"glibc","version":"","settings":[],
     "follows":"host","processes":1,"unread":0,"parts_bytes":{"live":1000},"reclaimable":[],"profiled":[]}]}"#;

const REMEDIES: &str = r#"{"remedies":[{"what":"fewer arenas","gives":{"bound":"at_most","reclaimable_bytes":1048576},"lines":[
  {"place":"environment","text":"MALLOC_ARENA_MAX=2"},{"place":"Kubernetes","text":"- name: MALLOC_ARENA_MAX"}]}]}"#;

fn cluster() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [("agents.json", AGENTS), ("pod.json", POD), ("report.json", REPORT), ("remedies.json", REMEDIES)];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::fs::write(folder.path().join("kubectl"), KUBECTL).unwrap();
    std::fs::set_permissions(folder.path().join("kubectl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn told(folder: &Path, line: &str) -> Ran {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    command(folder).args(words(line)).env("PATH", path).finish().unwrap().into()
}

#[test]
fn the_agents_are_asked_through_the_api_server() {
    let folder = cluster();
    let top = told(folder.path(), "kube top --context home");
    assert_eq!(top.code, Some(1), "an agent did not answer: {top:?}");
    assert!(top.out.contains("shop/deployment/web/web: 1 x glibc") && top.out.contains("left out: node n2"), "{top:?}");
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(calls.lines().all(|line| line.starts_with("--context home get ")), "{calls}");

    let why = told(folder.path(), "kube why web-1 -n shop");
    assert_eq!((why.code, why.out.as_str()), (Some(0), "the page of 42\n"), "{why:?}");
    let lines = told(folder.path(), "kube lines pod/web-1 -n shop");
    assert_eq!(lines.out, "# fewer arenas: at most 1.00 MiB\n- name: MALLOC_ARENA_MAX\n", "{lines:?}");
    assert_eq!(told(folder.path(), "kube lines shop/web-1").out, lines.out, "as `top` lists it");
}

#[test]
fn what_an_agent_cannot_tell_is_said_with_what_to_do() {
    let folder = cluster();
    let debug = told(folder.path(), "kube debug web-1 -n shop --image registry/a:1");
    assert_eq!(debug.code, Some(0), "{debug:?}");
    assert!(debug.out.contains("kubectl -n shop debug -it web-1 --target=web --image=registry/a:1"), "{debug:?}");
    for (line, wanted) in [
        ("kube why web-2 -n shop", "kubectl allocanary debug web-2 -n shop"),
        ("kube why web-1 -n shop -c side", "does not tell process IDs"),
        ("kube why web-1 -n shop -c other", "does not know pod web-1 with a container other"),
        ("kube why gone -n shop", "NotFound"),
        ("kube debug web-1 -n shop -c other", "wanted one of web, side"),
        ("kube why", "POD"),
        ("kube why shop/deployment/web", "wanted a pod, as POD -n NAMESPACE or NAMESPACE/POD"),
        ("kube top --agents app=none", "NotFound"),
    ] {
        let ran = told(folder.path(), line);
        assert!(ran.code == Some(2) && ran.err.contains(wanted), "{line}: {ran:?}");
    }
    std::fs::write(folder.path().join("agents.json"), "{\"items\":[]}").unwrap();
    assert!(told(folder.path(), "kube top").err.contains("helm install allocanary"));
    std::fs::write(folder.path().join("agents.json"), "[").unwrap();
    assert!(told(folder.path(), "kube top").err.contains("wanted a list of pods"));
}

/// Answers one request with the report, and gives its head.
fn agent(port: &Path) -> std::thread::JoinHandle<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(port, listener.local_addr().unwrap().port().to_string()).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{REPORT}", REPORT.len()).unwrap();
        String::from_utf8(head).unwrap()
    })
}

#[test]
fn an_agent_that_wants_a_token_is_asked_by_a_forwarded_port() {
    let folder = cluster();
    let guarded = AGENTS
        .replace("\"containers\"", "\"serviceAccountName\":\"agents\",\"containers\"")
        .replace("\"name\":\"agent\"", "\"name\":\"agent\",\"args\":[\"node\",\"--auth=kubernetes\"]");
    std::fs::write(folder.path().join("agents.json"), guarded).unwrap();
    std::fs::write(folder.path().join("token.json"), r#"{"status":{"token":"s3cret"}}"#).unwrap();
    let asked = agent(&folder.path().join("port"));
    let top = told(folder.path(), "kube top");
    assert!(top.code == Some(1) && top.out.contains("shop/deployment/web/web: 1 x glibc"), "{top:?}");
    let missing = "left out: node n2: kubectl port-forward pod/agent-2: error: pods \"agent-2\" is forbidden: wanted the right to create";
    let out = top.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.contains(missing), "{top:?}");
    let wanted = std::fs::read_to_string(folder.path().join("asked.json")).unwrap();
    assert!(wanted.contains("\"kind\":\"TokenRequest\"") && wanted.contains("\"expirationSeconds\":600"), "{wanted}");
    let head = asked.join().unwrap();
    assert!(head.starts_with("GET /report.json ") && head.contains("authorization: Bearer s3cret\r\n"), "{head}");

    std::fs::write(folder.path().join("token.json"), "{}").unwrap();
    let top = told(folder.path(), "kube top");
    assert!(top.code == Some(2) && top.err.contains("wanted a TokenRequest as JSON"), "{top:?}");
}
