//! A gate, and an API server of a test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use hyper::header::HeaderValue;

use super::*;

/// What an API server of a test was asked: the paths and bodies.
type Questions = Arc<Mutex<Vec<(String, Value)>>>;

/// One that knows `good`, who may get /metrics, and `other`, who may get nothing. It answers nothing else.
fn server() -> (ApiServer, Questions) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let questions = Questions::default();
    let heard = questions.clone();
    std::thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), &heard)));
    (ApiServer { url, trust: Trust::default() }, questions)
}

fn answer(mut stream: TcpStream, heard: &Questions) {
    let mut text = String::new();
    let mut some = [0; 4096];
    while serde_json::from_str::<Value>(text.split_once("\r\n\r\n").map_or("", |(_, body)| body)).is_err() {
        let length = stream.read(&mut some).unwrap();
        text.push_str(std::str::from_utf8(&some[..length]).unwrap());
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let (path, body) = (head.split(' ').nth(1).unwrap().to_string(), serde_json::from_str::<Value>(body).unwrap());
    heard.lock().unwrap().push((path.clone(), body.clone()));
    let spec = &body["spec"];
    let (status, answer) = match (path.as_str(), body["kind"].as_str().unwrap()) {
        ("/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview") => match spec["token"].as_str().unwrap() {
            "broken" => ("500 Internal Server Error", json!({"message": "etcd is away"})),
            "mine" => ("403 Forbidden", json!({"message": "tokenreviews is forbidden"})),
            token @ ("good" | "other") => (
                "201 Created",
                json!({"status": {"authenticated": true, "user": {"username": token, "uid": "7", "groups": ["g"], "extra": {"e": ["x"]}}}}),
            ),
            _ => ("201 Created", json!({"status": {"user": {}, "error": "unknown"}})),
        },
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview") => {
            let wanted = json!({"path": "/metrics", "verb": "get"});
            let may = spec["user"] == "good" && spec["nonResourceAttributes"] == wanted;
            ("201 Created", json!({"status": {"allowed": may, "reason": ""}}))
        }
        _ => ("404 Not Found", json!({})),
    };
    let answer = answer.to_string();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
}

fn asked(gate: &Gate, authorization: &str, path: &str) -> Result<(), (u16, String)> {
    let mut headers = HeaderMap::new();
    if !authorization.is_empty() {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
    }
    let runtime = crate::client::runtime().unwrap();
    runtime.block_on(gate.admit(&headers, path)).map_err(|refusal| (refusal.status.as_u16(), refusal.why))
}

#[test]
fn who_may_is_let_in_and_the_server_is_asked_once() {
    let (server, questions) = server();
    let gate = Gate::new(server);
    for _ in 0..3 {
        assert_eq!(asked(&gate, "Bearer good", "/metrics"), Ok(()));
    }
    let questions = questions.lock().unwrap();
    assert_eq!(questions.len(), 2, "{questions:?}");
    // The second question has the user as the first answer had it.
    let user = json!({"user": "good", "uid": "7", "groups": ["g"], "extra": {"e": ["x"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
    assert_eq!(questions[1].1["spec"], user);
}

#[test]
fn who_may_not_is_told_why_and_is_remembered_for_a_while() {
    let (server, questions) = server();
    let gate = Gate::new(server);
    let count = || questions.lock().unwrap().len();
    for authorization in ["", "Basic Z29vZA==", "Bearer ", "Bearer"] {
        let (status, why) = asked(&gate, authorization, "/metrics").unwrap_err();
        assert_eq!((status, count()), (401, 0), "{authorization}: {why}");
    }
    for _ in 0..2 {
        let told = asked(&gate, "bearer nobody", "/metrics").unwrap_err();
        assert_eq!(told, (401, "the API server does not know this token".into()));
        assert_eq!(count(), 1);
    }
    for _ in 0..2 {
        let (status, why) = asked(&gate, "Bearer other", "/metrics").unwrap_err();
        assert_eq!((status, count()), (403, 3));
        assert!(why.starts_with("other may not get /metrics: wanted a ClusterRole with nonResourceURLs"), "{why}");
    }
    assert_eq!(asked(&gate, "Bearer good", "/debug/pprof/").unwrap_err().0, 403, "a right is for a path");
}

#[test]
fn without_an_answer_nobody_is_let_in_and_nothing_is_remembered() {
    let (server, questions) = server();
    let gate = Gate::new(server);
    for times in 1..3 {
        let (status, why) = asked(&gate, "Bearer broken", "/metrics").unwrap_err();
        assert!(status == 503 && why.ends_with("etcd is away"), "{status}: {why}");
        assert_eq!(questions.lock().unwrap().len(), times);
    }
    let (_, why) = asked(&gate, "Bearer mine", "/metrics").unwrap_err();
    assert!(why.ends_with("the agent's account needs the ClusterRole system:auth-delegator"), "{why}");
    let away = ApiServer { url: "http://127.0.0.1:1".into(), trust: Trust::default() };
    let (status, why) = asked(&Gate::new(away), "Bearer good", "/metrics").unwrap_err();
    assert!(status == 503 && why.contains("could not be reached"), "{why}");
}
