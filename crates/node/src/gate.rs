//! Who may have a page. In: a bearer token and a path. Out: whether the API server says that its owner may get the path. It is asked as
//! kube-rbac-proxy and controller-runtime ask it: by a TokenReview, and then by a SubjectAccessReview of the path.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::client::{Trust, post};
use crate::metrics::plain;
use crate::pages::PageRefusal;
use crate::verdicts::{Asked, Verdict, Verdicts};

/// The time for a verdict. A client waits, and its connection may last for twice as long.
const WITHIN: Duration = Duration::from_secs(5);
/// Verdicts that are asked for at a time, so that a crowd of unknown tokens here is none at the API server.
const AT_ONCE: usize = 2;

/// The API server that says who may have pages.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// `https://10.96.0.1:443`.
    pub url: String,
    /// Its authority, and the agent's own token.
    pub trust: Trust,
}

impl ApiServer {
    /// That of the pod's cluster, as the kubelet tells it to each pod.
    pub fn of_pod(trust: Trust) -> Result<ApiServer, String> {
        let told = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (host, port) = (told("KUBERNETES_SERVICE_HOST"), told("KUBERNETES_SERVICE_PORT"));
        match (host, port, &trust.token) {
            (Some(host), Some(port), Some(_)) => Ok(ApiServer { url: format!("https://{host}:{port}"), trust }),
            _ => Err("wanted a pod's token and KUBERNETES_SERVICE_HOST, which a pod of the chart has".into()),
        }
    }
}

/// Lets in who may.
pub struct Gate {
    server: ApiServer,
    verdicts: Mutex<Verdicts>,
    turns: Semaphore,
    begun: Instant,
}

/// What is read of an answer.
#[derive(Deserialize)]
struct Reviewed<T> {
    status: T,
}

#[derive(Deserialize)]
struct TokenStatus {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: User,
}

/// What the second question says as the first answer did.
#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    extra: Value,
}

#[derive(Deserialize)]
struct AccessStatus {
    #[serde(default)]
    allowed: bool,
}

impl Gate {
    /// A gate that asks this server.
    pub fn new(server: ApiServer) -> Gate {
        Gate { server, verdicts: Mutex::default(), turns: Semaphore::new(AT_ONCE), begun: Instant::now() }
    }

    /// Whether whoever sends these headers may have this page. The error is what they are told.
    pub async fn admit(&self, headers: &HeaderMap, path: &str) -> Result<(), PageRefusal> {
        let refuse = |status, why: String| Err(PageRefusal { status, why });
        let Some(token) = bearer(headers) else {
            return refuse(
                StatusCode::UNAUTHORIZED,
                "wanted a token of this cluster: Authorization: Bearer TOKEN".into(),
            );
        };
        match self.verdict(token, path).await {
            Ok(Verdict::Allowed) => Ok(()),
            Ok(Verdict::Unknown) => refuse(StatusCode::UNAUTHORIZED, "the API server does not know this token".into()),
            Ok(Verdict::Refused(user)) => refuse(
                StatusCode::FORBIDDEN,
                format!("{} may not get {path}: wanted a ClusterRole with nonResourceURLs: [{path}]", plain(&user)),
            ),
            Err(why) => refuse(StatusCode::SERVICE_UNAVAILABLE, format!("the API server could not be asked: {why}")),
        }
    }

    async fn verdict(&self, token: &str, path: &str) -> Result<Verdict, String> {
        let asked = Asked::new(token, path);
        let known = || self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = known().get(&asked, self.begun.elapsed()) {
            return Ok(verdict);
        }
        let review = async {
            // Closed never.
            let _turn = self.turns.acquire().await;
            self.review(token, path).await
        };
        let verdict = timeout(WITHIN, review).await;
        let verdict = verdict.map_err(|_| format!("no answer within {} s", WITHIN.as_secs()))??;
        known().put(asked, self.begun.elapsed(), verdict.clone());
        Ok(verdict)
    }

    async fn review(&self, token: &str, path: &str) -> Result<Verdict, String> {
        let told: TokenStatus =
            self.ask("authentication.k8s.io/v1", "TokenReview", "tokenreviews", json!({"token": token})).await?;
        let user = told.user;
        if !told.authenticated || user.username.is_empty() {
            return Ok(Verdict::Unknown);
        }
        let may = json!({
            "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": "get"},
        });
        let told: AccessStatus =
            self.ask("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", may).await?;
        Ok(if told.allowed { Verdict::Allowed } else { Verdict::Refused(user.username) })
    }

    async fn ask<T: for<'a> Deserialize<'a>>(
        &self,
        version: &str,
        kind: &str,
        kinds: &str,
        spec: Value,
    ) -> Result<T, String> {
        let url = format!("{}/apis/{version}/{kinds}", self.server.url);
        let asked = json!({"apiVersion": version, "kind": kind, "spec": spec}).to_string();
        let answer = post(&url, &self.server.trust, ("application/json", asked.into())).await;
        let answer = answer.map_err(|error| match error.contains("found 403") {
            true => format!("{error}: the agent's account needs the ClusterRole system:auth-delegator"),
            false => error,
        })?;
        let answer: Result<Reviewed<T>, _> = serde_json::from_slice(&answer);
        answer.map(|answer| answer.status).map_err(|error| format!("{url}: wanted a {kind} as JSON: {error}"))
    }
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
#[path = "gate_test.rs"]
mod tests;
