//! An HTTP client. In: a URL. Out: the server's answer, within a limit of time and of size. It also speaks TLS, and
//! shows a token: the pod's own, or that of a user.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allocanary_sys::input;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::metrics::plain;

/// The largest answer: a kubelet's list of 500 pods has some 10 MiB.
const MOST: usize = 16 << 20;
/// The longest text of an error that is read.
const MOST_SAID: usize = 64 << 10;
/// The time limit for connecting, sending and the whole answer.
const WITHIN: Duration = Duration::from_secs(10);
/// The folder where a pod has its token, and the certificate of its cluster's authority.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Which servers a client trusts, and the token that it shows them.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The file with the certificates of authorities. By default that of the cluster.
    pub authority: Option<PathBuf>,
    /// Whether the certificate is left unchecked. Most kubelets have one that nobody has signed.
    pub unverified: bool,
    /// The token, if there is one. It is shown only over TLS, or to this machine.
    pub token: Option<Token>,
}

/// A token.
#[derive(Clone)]
pub enum Token {
    /// The file that has it. It is read for each request, because the kubelet renews it.
    File(PathBuf),
    /// The token itself.
    Text(String),
}

impl std::fmt::Debug for Token {
    /// No token is shown by accident.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::File(file) => write!(out, "the token in {}", file.display()),
            Token::Text(_) => out.write_str("a token"),
        }
    }
}

impl Token {
    fn read(&self) -> Result<String, String> {
        match self {
            Token::File(file) => input::text(file).map_err(|error| format!("{}: {error}", file.display())),
            Token::Text(text) => Ok(text.clone()),
        }
    }
}

impl Trust {
    /// The trust of a client in a pod. It shows the pod's token, if there is one.
    pub fn of_pod(authority: Option<PathBuf>, unverified: bool) -> Trust {
        let token = Path::new(ACCOUNT).join("token");
        Trust { authority, unverified, token: token.exists().then_some(Token::File(token)) }
    }
}

/// A runtime on the calling thread, for requests.
pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("starting a runtime: {error}"))
}

/// The body of a request: its content type, and its bytes.
pub type HttpBody = (&'static str, Bytes);

/// The server's answer to a GET. The error names the URL, and what was wanted.
pub async fn fetch(url: &str, trust: &Trust) -> Result<Bytes, String> {
    within(url, trust, None).await
}

/// The server's answer to a POST of this body.
pub async fn post(url: &str, trust: &Trust, sent: HttpBody) -> Result<Bytes, String> {
    within(url, trust, Some(sent)).await
}

async fn within(url: &str, trust: &Trust, sent: Option<HttpBody>) -> Result<Bytes, String> {
    let told = |error: String| format!("{url}: {error}");
    match timeout(WITHIN, ask(url, trust, sent)).await {
        Ok(answer) => answer.map_err(told),
        Err(_) => Err(told(format!("no answer within {} s", WITHIN.as_secs()))),
    }
}

/// How many servers are asked at a time.
const AT_ONCE: usize = 16;

/// The answers of many servers, in the order of their URLs. Several are asked at a time, so that one that does not answer delays few
/// others. The outer error is that of starting the runtime.
pub fn fetch_all(urls: &[String], trust: &Trust) -> Result<Vec<Result<Bytes, String>>, String> {
    runtime()?.block_on(async {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let ask = |url: &String| {
            let (url, trust, room) = (url.clone(), trust.clone(), room.clone());
            tokio::spawn(async move {
                // The semaphore is never closed.
                let _permit = room.acquire().await;
                fetch(&url, &trust).await
            })
        };
        let all: Vec<_> = urls.iter().map(ask).collect();
        let mut answers = Vec::with_capacity(all.len());
        for (asked, url) in all.into_iter().zip(urls) {
            answers.push(asked.await.unwrap_or_else(|error| Err(format!("{url}: {error}"))));
        }
        Ok(answers)
    })
}

async fn ask(url: &str, trust: &Trust, sent: Option<HttpBody>) -> Result<Bytes, String> {
    let uri: Uri = bracketed(url).parse().map_err(|error| format!("wanted http://HOST:PORT/PATH: {error}"))?;
    let host = uri.host().ok_or("wanted http://HOST:PORT/PATH, found no host")?.to_string();
    let secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err("wanted http:// or https://".into()),
    };
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_string();
    let stream =
        TcpStream::connect((bare.as_str(), port)).await.map_err(|error| format!("could not be reached: {error}"))?;
    let request = request(&uri, trust, sent)?;
    match secure {
        false => exchange(stream, request).await,
        true => {
            let connector = TlsConnector::from(Arc::new(config(trust)?));
            let name = ServerName::try_from(bare).map_err(text)?;
            let stream = connector.connect(name, stream).await.map_err(|error| {
                format!(
                    "its certificate is not trusted ({error}): name its authority, or say that it is not to be verified"
                )
            })?;
            exchange(stream, request).await
        }
    }
}

/// The URL with brackets around an address of version 6, which URLs require. The manifest of a pod cannot add them. The last colon is that
/// of the port.
pub(crate) fn bracketed(url: &str) -> String {
    let bracket = || {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = authority.rsplit_once(':')?;
        let is_bare = host.parse::<std::net::Ipv6Addr>().is_ok();
        is_bare.then(|| format!("{scheme}://[{host}]:{port}{path}"))
    };
    bracket().unwrap_or_else(|| url.to_string())
}

/// Whether a host is this machine, so that nothing goes over a wire.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn request(uri: &Uri, trust: &Trust, sent: Option<HttpBody>) -> Result<Request<Full<Bytes>>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = match &sent {
        None => Request::get(path),
        Some((kind, _)) => Request::post(path).header(CONTENT_TYPE, *kind),
    };
    request = request.header(HOST, authority);
    // Without TLS, anybody on the way could read the token and use it.
    let is_safe = uri.scheme_str() == Some("https") || uri.host().is_some_and(is_this_machine);
    if let Some(token) = trust.token.as_ref().filter(|_| is_safe) {
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.read()?.trim()));
    }
    request.body(Full::new(sent.map_or_else(Bytes::new, |(_, bytes)| bytes))).map_err(text)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(text)?;
    let status = response.status();
    let most = if status.is_success() { MOST } else { MOST_SAID };
    let body = Limited::new(response.into_body(), most).collect().await;
    connection.abort();
    if !status.is_success() {
        let said = body.map_or_else(|_| String::new(), |body| said(&body.to_bytes()));
        return Err(format!("wanted status 200, found {status}{said}"));
    }
    body.map(|body| body.to_bytes())
        .map_err(|error| format!("reading the answer (at most {} MiB): {error}", MOST >> 20))
}

/// What a server says with an error: the message of a status of Kubernetes, or the first line.
fn said(body: &[u8]) -> String {
    let message = serde_json::from_slice(body).ok().and_then(|status: serde_json::Value| {
        let message = status["message"].as_str()?;
        Some(message.to_string())
    });
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line = plain(message.trim().lines().next().unwrap_or_default());
    if line.is_empty() { String::new() } else { format!(": {line}") }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn config(trust: &Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let versions = versions.map_err(text)?;
    if trust.unverified {
        let anybody = Arc::new(Anybody(provider));
        return Ok(versions.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth());
    }
    let file = trust.authority.clone().unwrap_or_else(|| Path::new(ACCOUNT).join("ca.crt"));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(format!("{}: wanted certificates of authorities, found none", file.display()));
    }
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// Accepts any certificate, because the user asked for that. Signatures are still checked.
#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server that reads a request and answers with these bytes, then waits.
    fn server(answer: Vec<u8>) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/pods", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).unwrap();
            let _ = stream.write_all(&answer);
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        (url, served)
    }

    fn fetched(url: &str, trust: &Trust) -> Result<Bytes, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(fetch(url, trust))
    }

    #[test]
    fn an_answer_is_read_and_the_token_is_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret\n").unwrap();
        let (url, served) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec());
        let trust = Trust { token: Some(Token::File(file.path().into())), ..Trust::default() };
        assert_eq!(fetched(&url, &trust).unwrap(), "{}");
        let request = served.join().unwrap();
        assert!(
            request.starts_with("GET /pods HTTP/1.1") && request.contains("authorization: Bearer secret"),
            "{request}"
        );
    }

    #[test]
    fn a_token_is_not_shown_where_others_may_listen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret").unwrap();
        let trust = Trust { token: Some(Token::File(file.path().into())), ..Trust::default() };
        let shows = |url: &str| {
            request(&bracketed(url).parse().unwrap(), &trust, None).unwrap().headers().contains_key(AUTHORIZATION)
        };
        for url in [
            "https://10.0.0.1:10250/pods",
            "https://fd00::1:10250/pods",
            "http://127.0.0.1:1/",
            "http://[::1]:1/",
            "http://localhost/",
        ] {
            assert!(shows(url), "{url}");
        }
        for url in
            ["http://10.0.0.1:10255/pods", "http://node/pods", "http://127.evil.example/", "http://localhost.example/"]
        {
            assert!(!shows(url), "{url}");
        }
    }

    #[test]
    fn many_are_asked_at_a_time_and_answer_in_their_order() {
        // Each answers only when all of them were asked.
        let all = Arc::new(std::sync::Barrier::new(AT_ONCE));
        let server = |number: usize| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (url, all) = (format!("http://{}/", listener.local_addr().unwrap()), all.clone());
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                all.wait();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{number:02}").unwrap();
            });
            url
        };
        let mut urls: Vec<String> = (0..AT_ONCE).map(server).collect();
        urls.push("http://127.0.0.1:1/".into());
        let answers = fetch_all(&urls, &Trust::default()).unwrap();
        for (number, answer) in answers[..AT_ONCE].iter().enumerate() {
            assert_eq!(answer.as_ref().unwrap(), &format!("{number:02}"));
        }
        assert!(answers[AT_ONCE].as_ref().unwrap_err().contains("could not be reached"));
    }

    #[test]
    fn an_address_of_version_6_gets_its_brackets() {
        assert_eq!(bracketed("https://fd00::1:10250/pods"), "https://[fd00::1]:10250/pods");
        for url in ["https://[fd00::1]:10250/pods", "https://10.0.0.1:10250/pods", "http://node", "x", "http://::1"] {
            assert_eq!(bracketed(url), url);
        }
    }

    #[test]
    fn what_is_no_answer_is_told_with_its_url() {
        let said = |answer: &[u8]| {
            let (url, served) = server(answer.to_vec());
            let error = fetched(&url, &Trust::default()).unwrap_err();
            served.join().unwrap();
            assert!(error.starts_with(&url), "{error}");
            error
        };
        assert!(said(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").ends_with("found 401 Unauthorized"));
        let line = said(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nu may\x07not\n");
        assert!(line.ends_with("found 403 Forbidden: u may\u{fffd}not"), "{line}");
        let message = said(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 18\r\n\r\n{\"message\":\"u x\"} ");
        assert!(message.ends_with("found 403 Forbidden: u x"), "{message}");
        assert!(!said(b"garbage\r\n\r\n").is_empty());
        let endless = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; MOST + 1]].concat();
        assert!(said(&endless).contains("at most 16 MiB"));
        assert!(fetched("http://127.0.0.1:1/", &Trust::default()).unwrap_err().contains("could not be reached"));
        assert!(fetched("ftp://x/", &Trust::default()).unwrap_err().contains("wanted http://"));
        assert!(fetched("https://127.0.0.1:1/", &Trust::default()).is_err());
    }

    #[test]
    fn without_an_authority_a_server_is_not_believed() {
        let trust = Trust { authority: Some("/nonexistent/ca.crt".into()), ..Trust::default() };
        assert!(config(&trust).unwrap_err().contains("/nonexistent/ca.crt"));
        assert!(config(&Trust { unverified: true, ..trust }).is_ok());
    }
}
