//! The manifests and discovery against a real API server, with the rights that the manifests give; and the agent of a node
//! behind it (`fleet`). Needs the files that
//! `build.sh` makes, and etcd, kubectl and openssl.

mod fleet;
mod plane;
mod pod;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::canary::{in_time, until};
use crate::need;
use crate::net::Net;
use plane::Plane;
use pod::Pod;

/// A namespace that admits only pods without special rights.
fn restricted(plane: &Plane, namespace: &str) {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    plane.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}));
    // A controller usually makes this object, but no controller runs here.
    plane.apply(
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}),
    );
}

/// The pod that the DaemonSet's controller would make.
fn pod_of(plane: &Plane, namespace: &str, daemon_set: &str) -> Value {
    let template = plane.object(namespace, "daemonset", daemon_set)["spec"]["template"].take();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "pod-", "namespace": namespace, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    })
}

#[test]
#[ignore = "needs a real API server: apiserver/build.sh makes one in a quarter of an hour"]
fn the_manifests_are_valid_and_their_pods_need_no_rights() {
    need!("ip", "etcd", "kubectl", "openssl");
    let Some(built) = plane::built() else { return };
    let net = Net::new(2);
    let plane = Plane::start(&net, &built);
    plane.define(&built.join("podmonitors.yaml"), "podmonitors");
    for (folder, namespace, daemon_set) in [
        ("base", "base", "kube-canary"),
        ("overlays/kubernetes", "by-api", "kube-canary"),
        ("overlays/full", "kube-canary", "kube-canary"),
        ("study", "study", "allocanary-study"),
    ] {
        restricted(&plane, namespace);
        plane.deploy(folder, namespace);
        let create = |pod: &Value| plane.kubectl(&["create", "-f", "-"], &pod.to_string());
        let pod = pod_of(&plane, namespace, daemon_set);
        create(&pod).unwrap_or_else(|said| panic!("{folder}: {said}"));
        // The namespace refuses such pods. So the pod that was admitted above was really checked.
        for (field, value, why) in [
            ("/spec/containers/0/securityContext/capabilities/add", json!(["NET_RAW"]), "unrestricted capabilities"),
            ("/spec/hostNetwork", json!(true), "host namespaces"),
            ("/spec/securityContext/runAsNonRoot", json!(false), "runAsNonRoot != true"),
            ("/spec/securityContext/sysctls", json!([{"name": "kernel.msgmax", "value": "1"}]), "forbidden sysctls"),
        ] {
            let mut pod = pod.clone();
            if field.ends_with("hostNetwork") {
                // The host's network has its own sysctls. With sysctls the pod would be refused for another reason.
                pod["spec"]["securityContext"].as_object_mut().unwrap().remove("sysctls");
            }
            let (parent, name) = field.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[name] = value;
            let said = create(&pod).expect_err(field);
            assert!(said.contains("violates PodSecurity") && said.contains(why), "{folder}, {field}: {said}");
        }
    }
}

#[test]
#[ignore = "needs a real API server: apiserver/build.sh makes one in a quarter of an hour"]
fn peers_follow_the_api_through_its_outages() {
    need!("ip", "ss", "nft", "etcd", "etcdctl", "kubectl", "openssl");
    let Some(built) = plane::built() else { return };
    let net = Net::new(3);
    let mut plane = Plane::start(&net, &built);
    plane.define(&built.join("podmonitors.yaml"), "podmonitors");
    restricted(&plane, SPACE);
    plane.deploy("overlays/full", SPACE);
    for node in 0..3 {
        node_object(&plane, node);
    }
    slice(&plane, "a", &[(net.address(0), "node-0"), (net.address(1), "node-1"), (net.address(2), "node-2")]);
    let pods: Vec<Pod> = (0..3).map(|node| Pod::start(&net, &plane, SPACE, node)).collect();
    let pod = &pods[0];
    let expect = |wanted: &[&str], what: &str| {
        let wanted: BTreeSet<String> = wanted.iter().map(|name| name.to_string()).collect();
        let held = in_time(|| pod.known() == wanted && pod.problem().is_empty());
        assert!(
            held,
            "{what}: wanted {wanted:?}, found {:?}, {:?}; it said {}",
            pod.known(),
            pod.problem(),
            pod.said()
        );
    };

    // The canary finds, places and probes each named pod, with the account and the role of the manifests.
    expect(&["node-1/zone-1", "node-2/zone-2"], "the others");
    until(|| pod.metric("peer_up", "peer_node", "node-1") > 0.0, "node-1 is up");
    slice(&plane, "b", &[([10, 77, 0, 99].into(), "node-9")]);
    expect(&["node-1/zone-1", "node-2/zone-2", "node-9/"], "one more");
    gone(&plane, "endpointslice", "b");
    expect(&["node-1/zone-1", "node-2/zone-2"], "one less");

    // One node takes no new pods. Another is deleted while its pod is still an endpoint.
    plane.must(&["cordon", "node-1"], "");
    until(|| pod.metric("peer_cordoned", "peer_node", "node-1") == 1.0, "node-1 is cordoned");
    plane.must(&["uncordon", "node-1"], "");
    until(|| pod.metric("peer_cordoned", "peer_node", "node-1") == 0.0, "node-1 is uncordoned");
    gone(&plane, "node", "node-1");
    expect(&["node-1/", "node-2/zone-2"], "a peer without its node");

    // The connection to the API server is cut, and nothing changes meanwhile. The canary reports the problem for as
    // long as it lasts.
    net.nft(
        0,
        "table inet cut {
            chain output {
                type filter hook output priority 0;
                tcp dport 6443 reject with tcp reset
            }
        }",
    );
    net.with_input(0, "ss --kill dport = 6443", "");
    until(|| pod.problem().contains("endpointslices") && pod.problem().contains("nodes"), "the trouble is named");
    assert_eq!(pod.known().len(), 2);
    net.with_input(0, "nft delete table inet cut", "");
    expect(&["node-1/", "node-2/zone-2"], "the way is free again");

    // The API server crashes. The peers stay, the canary reports the problem, and afterwards it finds what came
    // meanwhile.
    plane.stop();
    until(|| pod.problem().contains("onnect"), "the outage is named");
    assert_eq!(pod.known().len(), 2);
    assert!(pod.failures() > 0.0);
    plane.restart();
    node_object(&plane, 1);
    expect(&["node-1/zone-1", "node-2/zone-2"], "after the outage");

    // The API server no longer remembers what happened while the canary slept, so it answers 410 Gone.
    pod.signal(libc::SIGSTOP);
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices");
    let list: Value = serde_json::from_str(&plane.must(&["get", "--raw", &slices], "")).unwrap();
    gone(&plane, "endpointslice", "a");
    slice(&plane, "c", &[(net.address(2), "node-2"), ([10, 77, 0, 98].into(), "node-8")]);
    plane.compact();
    plane.restart();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let answer = plane.kubectl(&["get", "--raw", &format!("{slices}?watch=true&resourceVersion={version}")], "");
    assert!(format!("{answer:?}").contains("too old resource version"), "{answer:?}");
    pod.signal(libc::SIGCONT);
    expect(&["node-2/zone-2", "node-8/"], "after 410");

    // Without its role the canary reports which rights it needs, and keeps its peers. Once it is bound again, it reports
    // no problem.
    let binding = plane.object(SPACE, "rolebinding", "kube-canary");
    gone(&plane, "rolebinding", "kube-canary");
    plane.restart();
    let wanted = format!("wanted the verbs list and watch on endpointslices of namespace {SPACE}, found 403");
    until(|| pod.problem().contains(&wanted), "the right that is missing is named");
    assert_eq!(pod.known().len(), 2);
    let failures = pod.failures();
    until(|| pod.failures() > failures, "it asks again");
    plane.apply(&plain(binding));
    expect(&["node-2/zone-2", "node-8/"], "with its role again");

    // When the account is deleted, its token is no longer valid.
    gone(&plane, "serviceaccount", "kube-canary");
    plane.restart();
    until(|| pod.problem().contains("does not know this service account (401)"), "a stranger is told so");
    assert_eq!(pod.known().len(), 2);
}

const SPACE: &str = "kube-canary";

/// An endpoint slice as its controller writes it.
fn slice(plane: &Plane, name: &str, endpoints: &[(std::net::IpAddr, &str)]) {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(address, node)| json!({"addresses": [address], "nodeName": node, "conditions": {"ready": true}}))
        .collect();
    plane.apply(&json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": SPACE, "labels": {"kubernetes.io/service-name": "kube-canary"}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 9427, "protocol": "TCP"}],
    }));
}

/// A node as its kubelet registers it.
fn node_object(plane: &Plane, node: usize) {
    let labels = json!({"topology.kubernetes.io/zone": format!("zone-{node}")});
    plane.apply(
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{node}"), "labels": labels}}),
    );
}

fn gone(plane: &Plane, kind: &str, name: &str) {
    plane.must(&["delete", "--namespace", SPACE, kind, name, "--wait=false"], "");
}

/// An object without the fields that the API server added to it.
fn plain(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["name", "namespace", "labels"].contains(&field.as_str()));
    object
}
