//! An agent that wants a token. In: its pod. Out: its report. The API server takes a token away from what it passes on by `pods/proxy`, so
//! kubectl forwards a port of this machine to the agent. The token is that of an account of the chart: a user may have none, but a
//! certificate, and then nothing that the agent could ask the API server about.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use allocanary_node::client::{Token, Trust, fetch, runtime};
use serde_json::{Value, json};

use super::cluster::{AgentPod, Cluster, no_kubectl};

/// For how many seconds a token is good: the least that an API server gives.
const GOOD: u64 = 600;
/// What kubectl prints before the port of this machine.
const FORWARDED: &str = "Forwarding from 127.0.0.1:";

/// A kubectl that forwards. It ends with the question.
struct Forwarding(Child);

impl Drop for Forwarding {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cluster {
    /// A token of an account, which the user must be allowed to create.
    pub fn token(&self, namespace: &str, account: &str) -> Result<String, String> {
        let spec = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": GOOD}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let wanted = |error: String| {
            format!(
                "{error}: wanted a token of the account {account} (roles=true in the chart, and its role {account})"
            )
        };
        let text = self.ask_with(["create", "--raw", &path, "-f", "-"], &spec.to_string()).map_err(wanted)?;
        let answer: Option<Value> = serde_json::from_str(&text).ok();
        let token = answer.and_then(|answer| Some(answer["status"]["token"].as_str()?.to_string()));
        token.ok_or_else(|| format!("kubectl create --raw {path}: wanted a TokenRequest as JSON"))
    }

    /// What an agent tells to whoever shows this token.
    pub fn forwarded(&self, agent: &AgentPod, token: String) -> Result<String, String> {
        let (pod, to) = (format!("pod/{}", agent.name), format!(":{}", agent.port));
        let words = ["port-forward", "-n", &agent.namespace, "--address", "127.0.0.1", &pod, &to];
        let started = self.kubectl(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut forwarding = Forwarding(started.map_err(no_kubectl)?);
        let port = port(&mut forwarding.0).map_err(|said| {
            format!("kubectl port-forward {pod}: {said}: wanted the right to create pods/portforward")
        })?;
        let scheme = if agent.is_secure { "https" } else { "http" };
        // The way to the pod is that of the API server, which kubectl has verified. The agent's certificate is for its service, not for
        // this machine's port.
        let trust = Trust { unverified: true, token: Some(Token::Text(token)), ..Trust::default() };
        let answer = runtime()?.block_on(fetch(&format!("{scheme}://127.0.0.1:{port}/report.json"), &trust))?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The port of this machine that kubectl has taken. The error is what it says before it ends.
fn port(kubectl: &mut Child) -> Result<u16, String> {
    let mut line = String::new();
    if let Some(out) = kubectl.stdout.as_mut() {
        let _ = BufReader::new(out).read_line(&mut line);
    }
    let digits =
        line.strip_prefix(FORWARDED).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    if let Some(port) = digits.and_then(|digits| digits.parse().ok()) {
        return Ok(port);
    }
    let _ = kubectl.kill();
    let mut said = String::new();
    if let Some(error) = kubectl.stderr.as_mut() {
        let _ = error.take(4096).read_to_string(&mut said);
    }
    Err(said.trim().to_string())
}
