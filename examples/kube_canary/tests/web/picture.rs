//! Tests /peers and /mesh. The page draws its picture from them.

use kube_canary::histogram::Bounds;
use kube_canary::mesh::{Mesh, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::protocol::{Loss, Protocol};
use serde_json::Value;

use crate::client::{ask, get};
use crate::fixture::{mesh, one_peer, options, serve};

/// Each protocol counts: one that is answered does not hide another one that is not.
#[test]
fn a_row_has_the_loss_of_each_protocol() {
    for (answered, cell) in [(true, "[[1000,0],150]"), (false, "[[1000,1000],null]")] {
        let mesh = one_peer(|mesh, id| {
            for protocol in [Protocol::Icmp, Protocol::Udp] {
                let book = mesh.book(id, protocol).unwrap();
                let sequence = book.send(0);
                if answered && protocol == Protocol::Udp {
                    book.answer(sequence, 150_000, None);
                } else {
                    book.lost(sequence, Loss::Timeout);
                }
            }
        });
        let brief: Value = serde_json::from_str(&get(serve(&options(), mesh), "/peers?brief").text()).unwrap();
        let seen = Value::from(brief["peers"][0].as_array().unwrap()[2..].to_vec());
        assert_eq!(seen.to_string(), cell, "{brief}");
    }
}

#[test]
fn peers_in_json() {
    let peers: Value = serde_json::from_str(&get(serve(&options(), mesh(3)), "/peers").text()).unwrap();
    assert_eq!(peers["node"], "node-000");
    let mut nodes: Vec<&Value> = peers["peers"].as_array().unwrap().iter().collect();
    nodes.sort_by_key(|peer| peer["node"].to_string());
    assert_eq!(
        (&nodes[1]["node"], &nodes[1]["address"], &nodes[1]["zone"]),
        (&"node-001".into(), &"10.0.0.2".into(), &"zone-b".into())
    );
    let icmp = &nodes[1]["protocols"]["icmp"];
    let number = |name: &str| icmp[name].as_u64().unwrap();
    let lost = icmp["lost"].as_object().unwrap().values().map(|lost| lost.as_u64().unwrap()).sum::<u64>();
    assert_eq!(number("sent"), number("replies") + lost + number("in_flight"));
    assert_eq!(icmp["recent"].as_str().unwrap().len(), 64);
}

/// Two servers, each the other's peer: the picture has both rows.
#[test]
fn the_mesh_is_gathered_from_the_peers() {
    let seen = |from: &str, other: std::net::IpAddr, name: &str| {
        let mut mesh = Mesh::new(Bounds::default(), 0, 9, from);
        mesh.update("flags", vec![Peer::on(other, name), Peer::at([127, 0, 0, 9].into())], 0);
        let (id, _) = mesh.at(other).unwrap();
        let book = mesh.book(id, Protocol::Udp).unwrap();
        let sequence = book.send(0);
        book.answer(sequence, 150_000, None);
        Shared::new(mesh)
    };
    let listen = |last: u8, port: u16| std::net::SocketAddr::from(([127, 0, 0, last], port));
    let far = Options { node: "far".into(), listen: listen(3, 0), ..options() };
    let far = serve(&far, seen("far", [127, 0, 0, 2].into(), "near"));
    let near = Options { node: "near".into(), listen: listen(2, 0), peer_port: far.port(), ..options() };
    let near = serve(&near, seen("near", [127, 0, 0, 3].into(), "far"));
    let picture: Value = serde_json::from_str(&get(near, "/mesh").text()).unwrap();
    let nodes = picture["nodes"].as_array().unwrap();
    let names: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["", "far", "near"], "{picture}");
    assert!(nodes[0]["problem"].is_string() && nodes[1]["problem"].is_null() && nodes[2]["own"] == true, "{picture}");
    let cells = picture["cells"].as_array().unwrap();
    assert_eq!((cells.len(), &cells[3 + 2][0], &cells[6 + 1][0]), (9, &0.into(), &0.into()), "{picture}");
    assert!(cells[3].is_null());
}

/// UDP that is lost beside ICMP that is answered is a fault, as it is for the alerts.
#[test]
fn cluster_health_names_the_worst_protocol() {
    let silent = [127, 0, 0, 9].into();
    let mut mesh = Mesh::new(Bounds::default(), 0, 9, "node-000");
    mesh.update("flags", vec![Peer::on(silent, "b")], 0);
    let (id, _) = mesh.at(silent).unwrap();
    for protocol in [Protocol::Icmp, Protocol::Udp] {
        let book = mesh.book(id, protocol).unwrap();
        for at in 0..59 {
            let sequence = book.send(at);
            match protocol {
                Protocol::Icmp => _ = book.answer(sequence, 150_000, None),
                _ => _ = book.lost(sequence, Loss::Timeout),
            }
        }
    }
    let health = get(serve(&options(), Shared::new(mesh)), "/cluster_health");
    assert_eq!(health.status, 503);
    let verdict: Value = serde_json::from_str(&health.text()).unwrap();
    assert_eq!(verdict["says"], serde_json::json!(["From node-000 to b 100 % of udp is lost."]));
}

/// The verdict of `/mesh`, and a status for monitors that do not read JSON.
#[test]
fn cluster_health_is_the_verdict_and_503_while_there_is_a_fault() {
    let well = "All is well: of 1 paths each answers, nothing is lost.";
    for (answered, status, says) in [(true, 200, well), (false, 503, "node-000 does not reach b.")] {
        // Nothing listens at this address, so the request for its row is refused at once.
        let silent = [127, 0, 0, 9].into();
        let mut mesh = Mesh::new(Bounds::default(), 0, 9, "node-000");
        mesh.update("flags", vec![Peer::on(silent, "b")], 0);
        let (id, _) = mesh.at(silent).unwrap();
        let book = mesh.book(id, Protocol::Icmp).unwrap();
        let sequence = book.send(0);
        if answered {
            book.answer(sequence, 150_000, None);
        } else {
            book.lost(sequence, Loss::Timeout);
        }
        let server = serve(&options(), Shared::new(mesh));
        let health = get(server, "/cluster_health");
        assert_eq!((health.status, health.header("content-type")), (status, Some("application/json")));
        let verdict: Value = serde_json::from_str(&health.text()).unwrap();
        assert_eq!(verdict, serde_json::json!({ "ok": answered, "says": [says] }));
        let picture: Value = serde_json::from_str(&get(server, "/mesh").text()).unwrap();
        assert_eq!(picture["verdict"], verdict);
        let zipped = ask(server, "GET", "/cluster_health", "accept-encoding: gzip\r\n");
        assert_eq!((zipped.status, zipped.gunzipped()), (status, health.text()), "gzipped it is the same");
        let head = ask(server, "HEAD", "/cluster_health", "");
        assert_eq!((head.status, head.body.len()), (status, 0));
    }
}
