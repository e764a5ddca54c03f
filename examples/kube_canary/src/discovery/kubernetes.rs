//! Peers from the API server: the EndpointSlices of a service, and nodes where zones and cordons are wanted. In: a service
//! account or a kubeconfig. Out: peers, within a second of a change.
//!
//! The watcher of the kube crate resumes after disconnects, lists again after 410 Gone, and backs off after errors. Objects
//! are not kept: of a slice we keep addresses, of a node its zone and whether it takes pods.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{ApiResource, NotUsed, Object};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watching};
use kube::{Api, Client, Config, ResourceExt};
use serde::{Deserialize, Serialize};

use super::Own;
use crate::mesh::Shared;
use crate::options::Kubernetes;
use crate::peer::Peer;

/// Objects of one list request: a node is some 20 kB of JSON, most of it the images that it has.
const PAGE: u32 = 50;
const ZONE: &str = "topology.kubernetes.io/zone";

/// A node without all that we do not read.
type SmallNode = Object<NodeSpec, NotUsed>;

/// Of a node's specification, whether it takes new pods.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct NodeSpec {
    #[serde(default)]
    unschedulable: bool,
}

/// What changed.
enum Change {
    Slices(Event<EndpointSlice>),
    Nodes(Event<SmallNode>),
}

/// All that we know from the API, by the objects' names.
#[derive(Default)]
struct Known {
    slices: Table<Vec<Peer>>,
    nodes: Table<(Box<str>, bool)>,
}

/// A table that is filled anew behind the old one while a list comes in.
struct Table<T> {
    rows: HashMap<String, T>,
    coming: Option<HashMap<String, T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { rows: HashMap::new(), coming: None }
    }
}

impl<T> Table<T> {
    /// Takes a change. True where the rows are whole afterwards.
    fn take<K: ResourceExt>(&mut self, event: Event<K>, row: impl Fn(&K) -> T) -> bool {
        match event {
            Event::Init => self.coming = Some(HashMap::new()),
            Event::InitApply(object) => {
                self.coming.get_or_insert_default().insert(object.name_any(), row(&object));
            }
            Event::InitDone => self.rows = self.coming.take().unwrap_or_default(),
            Event::Apply(object) => drop(self.rows.insert(object.name_any(), row(&object))),
            Event::Delete(object) => drop(self.rows.remove(&object.name_any())),
        }
        self.coming.is_none()
    }
}

/// Watches for ever.
pub async fn watch(options: Kubernetes, own: Own, mesh: Shared) {
    let client = loop {
        match connect().await {
            Ok(client) => break client,
            Err(problem) => super::fail(&mesh, "kubernetes", problem),
        }
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    };
    follow(client, options, own, mesh).await;
}

/// Follows one API server; the watchers in it never end by themselves.
async fn follow(client: Client, options: Kubernetes, own: Own, mesh: Shared) {
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_string());
    let mut changes = pin!(changes(&client, &options, &namespace));
    let mut known = Known::default();
    while let Some(change) = changes.next().await {
        match change {
            Ok(change) => {
                let whole = match change {
                    Change::Slices(event) => known.slices.take(event, peers_of),
                    Change::Nodes(event) => known.nodes.take(event, place_of),
                };
                // Until slices and nodes are there in full, peers would be named without their zones.
                if whole && known.slices.coming.is_none() && known.nodes.coming.is_none() {
                    // This canary's own pod is an endpoint: none at all is a service that is being made anew.
                    match known.slices.rows.values().flatten().next() {
                        Some(_) => super::succeed(&mesh, "kubernetes", peers(&known, &own)),
                        None => super::fail(&mesh, "kubernetes", format!("{} has no endpoints", options.service)),
                    }
                }
            }
            Err(problem) => super::fail(&mesh, "kubernetes", problem),
        }
    }
}

async fn connect() -> Result<Client, String> {
    let config = Config::infer().await.map_err(|error| {
        format!("neither a service account (is automountServiceAccountToken off?) nor a kubeconfig: {error}")
    })?;
    Client::try_from(config).map_err(|error| format!("the API server's address or certificates: {error}"))
}

fn changes(
    client: &Client,
    options: &Kubernetes,
    namespace: &str,
) -> impl Stream<Item = Result<Change, String>> + use<> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of_service =
        watcher::Config::default().labels(&format!("kubernetes.io/service-name={}", options.service)).page_size(PAGE);
    let place = format!("namespace {namespace}");
    let slices = watching(slices, of_service)
        .default_backoff()
        .map(move |event| event.map(Change::Slices).map_err(|error| explain(&error, "endpointslices", &place)));
    let nodes = match options.nodes {
        true => {
            let nodes: Api<SmallNode> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
            let nodes = watching(nodes, watcher::Config::default().page_size(PAGE)).default_backoff();
            nodes.map(|event| event.map(Change::Nodes).map_err(|error| explain(&error, "nodes", "the cluster"))).boxed()
        }
        false => stream::empty().boxed(),
    };
    stream::select(slices, nodes)
}

/// The endpoints of a slice. One that is ending is none: a pod that is replaced is no alarm. One that does not serve yet is:
/// a canary that cannot be reached must show.
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

fn peers(known: &Known, own: &Own) -> Vec<Peer> {
    let named = known.slices.rows.values().flatten().filter(|peer| own.admits(peer.address));
    let placed = named.map(|peer| match known.nodes.rows.get(&*peer.node) {
        Some((zone, cordoned)) => {
            let zone = if peer.zone.is_empty() { zone.clone() } else { peer.zone.clone() };
            Peer { zone, cordoned: *cordoned, ..peer.clone() }
        }
        None => peer.clone(),
    });
    placed.collect()
}

/// What failed, and what to do where it is a matter of rights.
fn explain(error: &watcher::Error, what: &str, place: &str) -> String {
    let code = match error {
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    };
    match code {
        Some(401) => format!("the API server does not know this service account (401) for {what} of {place}: {error}"),
        Some(403) => format!("wanted the verbs list and watch on {what} of {place}, found 403: bind a role with them"),
        _ => format!("{what} of {place}: {error}"),
    }
}

#[cfg(test)]
#[path = "kubernetes_test.rs"]
mod tests;
