//! Peers from the API server: the EndpointSlices of a service, and nodes if zones and cordons are wanted. In: a service
//! account or a kubeconfig. Out: peers, within a second of a change.
//!
//! Objects are not kept. Of a slice, only the addresses are kept. Of a node, only its zone is kept, and whether it takes new pods.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{ApiResource, NotUsed, Object};
use kube::{Api, Client, Config, Error, ResourceExt};
use serde::{Deserialize, Serialize};

use super::own::{self, Own};
use super::reflect::{self, Change, reflect};
use crate::clock;
use crate::error::causes;
use crate::mesh::Shared;
use crate::options::Kubernetes;
use crate::peer::Peer;

const SOURCE: &str = "kubernetes";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A node with only the fields that we read.
type SmallNode = Object<NodeSpec, NotUsed>;

/// The part of a node's specification that says whether it takes new pods.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct NodeSpec {
    #[serde(default)]
    unschedulable: bool,
}

/// Everything that is known from the API.
#[derive(Default)]
struct Known {
    slices: Table<Vec<Peer>>,
    nodes: Table<(Box<str>, bool)>,
}

/// The data that are kept of the objects of one kind, by name.
struct Table<T> {
    /// `None` until the objects were listed.
    rows: Option<HashMap<String, T>>,
    /// The error of the last event, if it was a failure.
    problem: Option<String>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { rows: None, problem: None }
    }
}

impl<T> Table<T> {
    /// Applies a change of these objects. Returns false after a failure. In the error, the objects are called `what` of `place`.
    fn take(&mut self, change: Change<T>, what: &str, place: &str) -> bool {
        self.problem = None;
        match change {
            Change::All(rows) => self.rows = Some(rows),
            Change::One(name, Some(row)) => drop(self.rows.get_or_insert_default().insert(name, row)),
            Change::One(name, None) => drop(self.rows.get_or_insert_default().remove(&name)),
            Change::Stands => {}
            Change::Failed(error) => self.problem = Some(explain(&error, what, place)),
        }
        self.problem.is_none()
    }

    /// Whether the state of this kind is known, even if the state is that nothing can be read.
    fn is_told(&self) -> bool {
        self.rows.is_some() || self.problem.is_some()
    }
}

/// Watches for ever.
pub async fn watch(options: Kubernetes, own: Own, mesh: Shared) {
    let client = loop {
        match connect().await {
            Ok(client) => break client,
            Err(problem) => super::fail(&mesh, SOURCE, problem),
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    follow(client, options, own, mesh).await;
}

/// Follows one API server for ever.
async fn follow(client: Client, options: Kubernetes, own: Own, mesh: Shared) {
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_string());
    let place = format!("namespace {namespace}");
    // One task follows both kinds, so it never waits for the lock.
    let known = Mutex::new(Known::default());
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let publish = |went_well| publish(&lock(), went_well, &options, &own, &mesh);
    let slices = reflect(
        Api::<EndpointSlice>::namespaced(client.clone(), &namespace),
        Some(format!("kubernetes.io/service-name={}", options.service)),
        peers_of,
        |change| {
            let went_well = lock().slices.take(change, "endpointslices", &place);
            publish(went_well);
        },
    );
    if !options.nodes {
        lock().nodes.rows = Some(HashMap::new());
        match slices.await {}
    }
    let nodes =
        reflect(Api::<SmallNode>::all_with(client, &ApiResource::erase::<Node>(&())), None, place_of, |change| {
            let went_well = lock().nodes.take(change, "nodes", "the cluster");
            publish(went_well);
        });
    tokio::join!(slices, nodes);
}

/// Updates the mesh with the known peers, and with whether the last change was successful.
fn publish(known: &Known, went_well: bool, options: &Kubernetes, own: &Own, mesh: &Shared) {
    let problems = [&known.slices.problem, &known.nodes.problem].into_iter().flatten();
    let problems = problems.map(String::as_str).collect::<Vec<_>>().join("; ");
    if !went_well {
        super::fail(mesh, SOURCE, problems.clone());
    }
    // Waits for both slices and nodes, because otherwise peers would have no zones. If nodes cannot be read, peers have no
    // zones.
    let Some(slices) = known.slices.rows.as_ref().filter(|_| known.nodes.is_told()) else { return };
    // This canary's own pod is an endpoint, so no endpoint at all means that the service is being created again.
    if slices.values().all(Vec::is_empty) {
        if went_well {
            super::fail(mesh, SOURCE, format!("{} has no endpoints", options.service));
        }
        return;
    }
    // The next change tries again.
    let peers = match own.others(peers(slices, known.nodes.rows.as_ref())) {
        Ok(peers) => peers,
        Err(error) => return super::fail(mesh, SOURCE, format!("{}: {error}", own::ASKING)),
    };
    // A failure to watch one kind of objects is still a failure, even if the other kind can be watched.
    match problems.is_empty() {
        true => super::succeed(mesh, SOURCE, peers),
        false => mesh.lock().update(SOURCE, peers, clock::now()),
    }
}

async fn connect() -> Result<Client, String> {
    let mut config = Config::infer().await.map_err(|error| {
        let why = causes(&error);
        format!("neither a service account (is automountServiceAccountToken off?) nor a kubeconfig: {why}")
    })?;
    // A request that is never answered must end. Watches, which may be silent, end themselves before this time.
    config.read_timeout = Some(reflect::SILENCE + Duration::from_secs(10));
    Client::try_from(config).map_err(|error| format!("the API server's address or certificates: {}", causes(&error)))
}

/// The peers in a slice. A terminating endpoint is left out, because the replacement of a pod must not raise an alarm.
/// An endpoint that is not ready is a peer, because an unreachable canary must be visible.
fn peers_of(slice: &EndpointSlice) -> Vec<Peer> {
    let ending = |endpoint: &Endpoint| endpoint.conditions.as_ref().and_then(|is| is.terminating).unwrap_or(false);
    let peers = slice.endpoints.iter().filter(|endpoint| !ending(endpoint)).flat_map(|endpoint| {
        let node = endpoint.node_name.as_deref().unwrap_or_default();
        let zone = endpoint.zone.as_deref().unwrap_or_default();
        let addresses = endpoint.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
        addresses.map(move |address| Peer { zone: zone.into(), ..Peer::on(address, node) })
    });
    peers.collect()
}

fn place_of(node: &SmallNode) -> (Box<str>, bool) {
    (node.labels().get(ZONE).map(String::as_str).unwrap_or_default().into(), node.spec.unschedulable)
}

fn peers(slices: &HashMap<String, Vec<Peer>>, nodes: Option<&HashMap<String, (Box<str>, bool)>>) -> Vec<Peer> {
    let placed = slices.values().flatten().map(|peer| match nodes.and_then(|nodes| nodes.get(&*peer.node)) {
        Some((zone, cordoned)) => {
            let zone = if peer.zone.is_empty() { zone.clone() } else { peer.zone.clone() };
            Peer { zone, cordoned: *cordoned, ..peer.clone() }
        }
        None => peer.clone(),
    });
    placed.collect()
}

/// What to do about a certificate that was refused.
fn hint(causes: &str) -> &'static str {
    if !causes.contains("certificate") {
        return "";
    }
    "; the API server's certificate is rejected: is the cluster's CA (ca.crt of the service account, or of the kubeconfig) the one that \
     signed it, and does the address stand in it?"
}

/// The text of a failure, with the next step if rights are missing.
fn explain(error: &Error, what: &str, place: &str) -> String {
    match error {
        Error::Api(status) => match status.code {
            401 => format!("the API server does not know this service account (401) for {what} of {place}"),
            403 => format!("wanted the verbs list and watch on {what} of {place}, found 403: bind a role with them"),
            code => format!("{what} of {place}: {code} {}", status.message),
        },
        _ => format!("{what} of {place}: {}{}", causes(error), hint(&causes(error))),
    }
}

#[cfg(test)]
#[path = "kubernetes_test.rs"]
mod tests;
