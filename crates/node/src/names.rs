//! The names of pods. In: the kubelet's `/pods`. Out: namespace, pod, container, workload and image by UID and container ID. Nothing here
//! reads a file. What a kubelet says is checked: a text that cannot be a name of Kubernetes is refused.

use std::collections::BTreeMap;

use allocanary_rows::fleet::of_replica;
use serde::Deserialize;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The workload that it is a replica of.
    pub workload: String,
    /// Its containers by ID. Each has its name and its image.
    pub containers: BTreeMap<String, (String, String)>,
}

/// The pods of a node, by UID. Static pods also have the hash that the kubelet uses instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNames {
    pods: BTreeMap<String, PodName>,
    /// How many pods have names that were refused.
    pub refused: usize,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    name: String,
    #[serde(default)]
    controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    container_statuses: Option<Vec<Container>>,
    #[serde(default)]
    init_container_statuses: Option<Vec<Container>>,
    #[serde(default)]
    ephemeral_container_statuses: Option<Vec<Container>>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default, rename = "containerID")]
    id: String,
}

/// The longest name of Kubernetes, and of an image.
const LONGEST: usize = 253;
/// The label with the hash of a Deployment's template.
const TEMPLATE: &str = "pod-template-hash";
/// The annotation with the hash that is in the names of a static pod's control groups.
const HASH: &str = "kubernetes.io/config.hash";

impl PodNames {
    /// Parses the kubelet's answer. The error says what was wanted.
    pub fn parse(text: &[u8]) -> Result<PodNames, String> {
        let list: List = serde_json::from_slice(text)
            .map_err(|error| format!("wanted a PodList as JSON, found something else: {error}"))?;
        let mut names = PodNames::default();
        for item in list.items.unwrap_or_default() {
            let uid = item.metadata.uid.to_ascii_lowercase();
            let hash =
                item.metadata.annotations.as_ref().and_then(|all| all.get(HASH)).map(|hash| hash.to_ascii_lowercase());
            match pod(item) {
                Some(pod) => {
                    names.pods.extend(hash.map(|hash| (hash, pod.clone())));
                    names.pods.insert(uid, pod);
                }
                None => names.refused += 1,
            }
        }
        Ok(names)
    }

    /// The pod with this UID or hash.
    pub fn pod(&self, uid: &str) -> Option<&PodName> {
        self.pods.get(uid)
    }
}

fn pod(item: Item) -> Option<PodName> {
    let Item { metadata, status } = item;
    let template = metadata.labels.as_ref().and_then(|all| all.get(TEMPLATE)).map(String::as_str);
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller);
    // A static pod is owned by its node. No two replicas share that, so it is no workload.
    let owner = owner.filter(|owner| owner.kind != "Node" && is_name(&owner.name));
    let workload = owner.map_or_else(String::new, |owner| of_replica(&owner.kind, &owner.name, template));
    let statuses = [status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses];
    let containers = statuses.into_iter().flatten().flatten().filter(|one| is_name(&one.name)).filter_map(|one| {
        let id = one.id.split_once("://")?.1.to_ascii_lowercase();
        let image = if one.image.len() <= 2 * LONGEST { one.image } else { String::new() };
        Some((id, (one.name, image)))
    });
    let containers = containers.collect();
    let named = is_name(&metadata.name) && is_name(&metadata.namespace);
    named.then_some(PodName { namespace: metadata.namespace, name: metadata.name, workload, containers })
}

/// Whether a text can be a name: lower-case letters, digits, `-` and `.`.
fn is_name(name: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= LONGEST && name.bytes().all(may_be)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f0d5a1e-9c1b-4e5e-8f11-0123456789ab";

    fn list(pod: &str) -> Vec<u8> {
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{pod}]}}"#).into_bytes()
    }

    fn web() -> String {
        format!(
            r#"{{"metadata":{{"name":"web-5d8f9c7b6-x2x4z","namespace":"shop","uid":"{UID}","labels":{{"pod-template-hash":"5d8f9c7b6"}},
            "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d8f9c7b6","uid":"u","controller":true}}]}},
            "spec":{{"containers":[{{"name":"web"}}]}},
            "status":{{"containerStatuses":[{{"name":"web","image":"web:1","containerID":"containerd://ab12"}}],
            "initContainerStatuses":[{{"name":"init","containerID":"containerd://cd34"}},{{"name":"late","containerID":""}}]}}}}"#
        )
    }

    #[test]
    fn pods_containers_and_workloads_have_names() {
        let names = PodNames::parse(&list(&web())).unwrap();
        let pod = names.pod(UID).unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("shop", "web-5d8f9c7b6-x2x4z"));
        assert_eq!(pod.workload, "deployment/web");
        assert_eq!(pod.containers["ab12"], ("web".to_string(), "web:1".to_string()));
        assert_eq!((pod.containers["cd34"].0.as_str(), pod.containers.len()), ("init", 2));
    }

    #[test]
    fn a_static_pod_is_known_by_its_hash_and_is_of_no_workload() {
        let pod = r#"{"metadata":{"name":"etcd-n1","namespace":"kube-system","uid":"U1","annotations":{"kubernetes.io/config.hash":"0abc"},
            "ownerReferences":[{"kind":"Node","name":"n1","controller":true}]},"status":{}}"#;
        let names = PodNames::parse(&list(pod)).unwrap();
        assert_eq!(names.pod("0abc").unwrap().name, "etcd-n1");
        assert_eq!((names.pod("u1").is_some(), names.pod("0abc").unwrap().workload.as_str()), (true, ""));
    }

    #[test]
    fn a_kubelet_that_lies_is_refused_and_one_without_pods_has_none() {
        let lie = web().replace("\"shop\"", "\"shop\\\"} 1\\n\"");
        let names = PodNames::parse(&list(&lie)).unwrap();
        assert_eq!((names.pod(UID), names.refused), (None, 1));
        assert!(PodNames::parse(b"<html>404</html>").unwrap_err().contains("PodList"));
        assert_eq!(PodNames::parse(b"{\"items\":null}").unwrap(), PodNames::default());
        assert!(PodNames::parse(&list("{\"metadata\":{}}")).is_err());
        let long = web().replace("shop", &"a".repeat(300));
        assert_eq!(PodNames::parse(&list(&long)).unwrap().refused, 1);
    }
}
