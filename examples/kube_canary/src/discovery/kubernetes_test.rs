//! Discovery with an API server that gives scripted answers: missing rights, broken watches, resource versions that are
//! too old. (A real API server is asked in `tests/namespaces/apiserver`.)

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::histogram::Bounds;
use crate::mesh::{Mesh, Shared};

/// The answers to requests for slices and for nodes, in order; each is a status and a body. Later requests wait for ever, like
/// a quiet watch.
struct Api1 {
    answers: Mutex<Vec<(u16, String)>>,
    of_nodes: Mutex<Vec<(u16, String)>>,
    asked: Mutex<Vec<String>>,
}

async fn serve(listener: TcpListener, api: Arc<Api1>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let api = api.clone();
        tokio::spawn(async move {
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece).await {
                    Ok(read) if read > 0 => request.extend(&piece[..read]),
                    _ => return,
                }
            }
            let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_string();
            let answers = if line.contains("/nodes") { &api.of_nodes } else { &api.answers };
            api.asked.lock().unwrap().push(line);
            let answer = {
                let mut answers = answers.lock().unwrap();
                (!answers.is_empty()).then(|| answers.remove(0))
            };
            match answer {
                Some((status, body)) => {
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                }
                None => std::future::pending().await,
            }
        });
    }
}

fn slice(name: &str, version: u32, endpoints: &[(&str, &str, bool)]) -> String {
    let endpoints: Vec<String> = endpoints
        .iter()
        .map(|(address, node, ending)| {
            format!(
                r#"{{"addresses":["{address}"],"nodeName":"{node}","zone":"z1","conditions":{{"terminating":{ending}}}}}"#
            )
        })
        .collect();
    format!(
        r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",
            "metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"endpoints":[{}]}}"#,
        endpoints.join(",")
    )
    .replace('\n', " ")
}

fn list(items: &[String]) -> (u16, String) {
    let body = format!(
        r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSliceList","metadata":{{"resourceVersion":"5"}},"items":[{}]}}"#,
        items.join(",")
    );
    (200, body)
}

/// One page of a list, and the token for the next.
fn page(items: &[String], token: &str) -> (u16, String) {
    let (code, body) = list(items);
    (code, body.replace(r#""resourceVersion":"5"}"#, &format!(r#""resourceVersion":"5","continue":"{token}"}}"#)))
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{reason}","reason":"{reason}","code":{code}}}"#
    )
}

/// Runs discovery with these answers until `done`, and returns the mesh and the requests.
fn against(answers: Vec<(u16, String)>, done: impl Fn(&Mesh) -> bool) -> (Shared, Vec<String>) {
    against_both(answers, None, done)
}

/// The same with nodes, if there are answers for them.
fn against_both(
    answers: Vec<(u16, String)>,
    of_nodes: Option<Vec<(u16, String)>>,
    done: impl Fn(&Mesh) -> bool,
) -> (Shared, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let nodes = of_nodes.is_some();
        let of_nodes = Mutex::new(of_nodes.unwrap_or_default());
        let api = Arc::new(Api1 { answers: Mutex::new(answers), of_nodes, asked: Mutex::default() });
        tokio::spawn(serve(listener, api.clone()));
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let mesh = Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "a"));
        let options = Kubernetes { namespace: Some("ns".into()), service: "kube-canary".into(), nodes };
        let own = Own { addresses: Vec::new(), probed: true };
        tokio::spawn(follow(Client::try_from(config).unwrap(), options, own, mesh.clone()));
        for _ in 0..3000 {
            if done(&mesh.lock()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(done(&mesh.lock()), "{:?} after {:?}", mesh.lock(), api.asked.lock().unwrap());
        let asked = api.asked.lock().unwrap().clone();
        (mesh, asked)
    })
}

fn problem(mesh: &Mesh) -> Option<String> {
    mesh.tallies.sources.get("kubernetes").and_then(|tally| tally.problem.clone())
}

fn probed(mesh: &Mesh) -> Vec<String> {
    let mut peers: Vec<String> = mesh
        .entries()
        .filter(|(_, entry)| entry.probed())
        .map(|(_, entry)| format!("{} {} {}", entry.peer.address, entry.peer.node, entry.peer.zone))
        .collect();
    peers.sort();
    peers
}

#[test]
fn slices_are_listed_and_followed() {
    let changes = [
        event("ADDED", &slice("b", 6, &[("10.0.0.3", "n3", false)])),
        event("MODIFIED", &slice("a", 7, &[("10.0.0.1", "n1", true), ("10.0.0.2", "n2", false)])),
    ];
    let answers =
        vec![list(&[slice("a", 5, &[("10.0.0.1", "n1", false), ("10.0.0.2", "n2", false)])]), (200, changes.concat())];
    let (mesh, asked) = against(answers, |mesh| probed(mesh).len() == 2 && mesh.at([10, 0, 0, 3].into()).is_some());
    assert_eq!(probed(&mesh.lock()), ["10.0.0.2 n2 z1", "10.0.0.3 n3 z1"]);
    assert!(asked[0].contains("/namespaces/ns/endpointslices") && asked[0].contains("service-name%3Dkube-canary"));
}

#[test]
fn after_a_break_it_resumes_and_after_410_it_lists_again() {
    let answers = vec![
        list(&[slice("a", 5, &[("10.0.0.1", "n1", false)])]),
        // The connection ends; the watch continues from the last version.
        (200, event("ADDED", &slice("b", 6, &[("10.0.0.2", "n2", false)]))),
        (200, event("ERROR", &status(410, "Expired"))),
        list(&[slice("c", 9, &[("10.0.0.9", "n9", false)])]),
    ];
    let (_, asked) = against(answers, |mesh| probed(mesh) == ["10.0.0.9 n9 z1"]);
    assert!(asked[2].contains("resourceVersion=6"), "{asked:?}");
    assert!(!asked[3].contains("watch=true"), "{asked:?}");
}

#[test]
fn what_is_deleted_goes_and_a_watch_goes_on_from_there_and_from_a_bookmark() {
    let mark = r#"{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"8"}}"#;
    let answers = vec![
        list(&[slice("a", 5, &[("10.0.0.1", "n1", false)]), slice("b", 5, &[("10.0.0.2", "n2", false)])]),
        (200, event("DELETED", &slice("a", 7, &[("10.0.0.1", "n1", false)]))),
        (200, event("BOOKMARK", mark)),
        (200, event("ADDED", &slice("c", 9, &[("10.0.0.3", "n3", false)]))),
    ];
    let (_, asked) = against(answers, |mesh| probed(mesh) == ["10.0.0.2 n2 z1", "10.0.0.3 n3 z1"]);
    assert!(asked[2].contains("resourceVersion=7") && asked[3].contains("resourceVersion=8"), "{asked:?}");
}

#[test]
fn a_watch_that_stands_again_ends_a_failure_though_nothing_changes() {
    let answers = vec![
        list(&[slice("a", 5, &[("10.0.0.1", "n1", false)])]),
        (403, status(403, "Forbidden")),
        (200, String::new()),
    ];
    let recovered = |mesh: &Mesh| mesh.tallies.sources.get("kubernetes").is_some_and(|tally| tally.failed == 1);
    let (mesh, _) = against(answers, |mesh| recovered(mesh) && problem(mesh).is_none());
    assert_eq!(probed(&mesh.lock()), ["10.0.0.1 n1 z1"]);
}

#[test]
fn a_service_without_endpoints_is_a_failure_and_the_peers_stay() {
    let answers = vec![
        list(&[slice("a", 5, &[("10.0.0.1", "n1", false)])]),
        (200, event("MODIFIED", &slice("a", 6, &[("10.0.0.1", "n1", true)]))),
    ];
    let (mesh, _) = against(answers, |mesh| problem(mesh).is_some());
    assert_eq!(problem(&mesh.lock()).as_deref(), Some("kube-canary has no endpoints"));
    assert_eq!(probed(&mesh.lock()), ["10.0.0.1 n1 z1"]);
}

#[test]
fn nodes_say_who_is_cordoned_and_where_they_may_not_be_read_peers_are_known_all_the_same() {
    let slices = || vec![list(&[slice("a", 5, &[("10.0.0.1", "n1", false), ("10.0.0.2", "n2", false)])])];
    let node = r#"{"metadata":{"name":"n1","resourceVersion":"5"},"spec":{"unschedulable":true}}"#;
    let nodes =
        format!(r#"{{"apiVersion":"v1","kind":"NodeList","metadata":{{"resourceVersion":"5"}},"items":[{node}]}}"#);
    let (mesh, _) = against_both(slices(), Some(vec![(200, nodes)]), |mesh| probed(mesh).len() == 2);
    let cordoned = |last| mesh.lock().at([10, 0, 0, last].into()).unwrap().1.peer.cordoned;
    assert_eq!([1, 2].map(cordoned), [true, false]);

    let refused = vec![(403, status(403, "Forbidden"))];
    let (mesh, _) = against_both(slices(), Some(refused), |mesh| probed(mesh).len() == 2);
    let said = problem(&mesh.lock()).unwrap();
    assert!(said.contains("list and watch on nodes of the cluster, found 403"), "{said}");
}

#[test]
fn a_long_list_comes_in_pages_and_one_that_grew_too_old_is_a_failure() {
    let (first, second) = (slice("a", 5, &[("10.0.0.1", "n1", false)]), slice("b", 5, &[("10.0.0.2", "n2", false)]));
    let answers = vec![
        page(std::slice::from_ref(&first), "more"),
        (410, status(410, "Expired")),
        page(&[first], "more"),
        list(&[second]),
    ];
    let (mesh, asked) = against(answers, |mesh| probed(mesh).len() == 2);
    assert!(asked[3].contains("continue=more"), "{asked:?}");
    assert_eq!(mesh.lock().tallies.sources["kubernetes"].failed, 1);
}

#[test]
fn missing_rights_are_named_and_the_peers_stay() {
    for (code, said) in [
        (403, "list and watch on endpointslices of namespace ns, found 403: bind a role"),
        (401, "does not know this service account (401) for endpointslices of namespace ns"),
    ] {
        let answers = vec![
            list(&[slice("a", 5, &[("10.0.0.1", "n1", false)])]),
            (200, event("ERROR", &status(410, "Expired"))),
            (code, status(code, "Refused")),
        ];
        let (mesh, _) = against(answers, |mesh| problem(mesh).is_some_and(|text| text.contains(said)));
        assert_eq!(probed(&mesh.lock()), ["10.0.0.1 n1 z1"]);
    }
}

#[test]
fn a_stranger_and_a_busy_server_are_told_and_asked_again() {
    let answers = vec![
        (401, status(401, "Unauthorized")),
        (429, status(429, "TooManyRequests")),
        (200, "not json".into()),
        list(&[slice("a", 5, &[("10.0.0.1", "n1", false)])]),
    ];
    let (mesh, _) = against(answers, |mesh| probed(mesh).len() == 1);
    let tally = mesh.lock().tallies.sources["kubernetes"].clone();
    // The client itself waits and asks again after a 429.
    assert_eq!((tally.failed, tally.problem), (2, None));
}

/// A server with a self-signed certificate: the outermost error says only "client error (Connect)".
#[test]
fn a_certificate_that_is_rejected_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=api", "-addext"])
        .args(["subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder.path())
        .stderr(std::process::Stdio::null())
        .status();
    let Ok(made) = made else { return allocanary_testing::skipped::skipped("openssl is not installed") };
    assert!(made.success());
    let port = allocanary_testing::ports::free_port();
    let mut server = std::process::Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-key", "key.pem", "-cert", "cert.pem", "-accept"])
        .arg(format!("127.0.0.1:{port}"))
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let begun = std::time::Instant::now();
        loop {
            let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
            // Another one's.
            config.root_cert = Some(vec![]);
            let client = Client::try_from(config).unwrap();
            let slices = Api::<EndpointSlice>::namespaced(client, "ns");
            let error = slices.list(&Default::default()).await.expect_err("its certificate is nobody's");
            let said = explain(&error, "endpointslices", "namespace ns");
            if !said.contains("refused (os error") || begun.elapsed() > Duration::from_secs(60) {
                break said;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let _ = server.kill();
    let _ = server.wait();
    assert!(said.contains("invalid peer certificate"), "{said}");
    assert!(said.contains("is rejected: is the cluster's CA"), "{said}");
}
