//! Certificates of a test, and an agent that shows them.

use std::process::Command;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::client::Trust;
use crate::gate::{ApiServer, Gate};
use crate::pages::{Get, HEALTH, HttpPage};
use crate::server::{Guard, serve};

/// Makes a certificate for `localhost`, with this name in it. `None` if no openssl is installed.
fn make(folder: &Path, name: &str) -> Option<CertificateFiles> {
    let files = CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "30",
    ]);
    command.args([
        "-subj",
        &format!("/CN={name}"),
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]);
    command.arg("-out").arg(&files.certificate).arg("-keyout").arg(&files.key);
    let Ok(made) = command.output() else {
        allocanary_testing::skipped::skipped("needs openssl");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(files)
}

/// What the agent at an address answers by TLS to a client that trusts only this certificate.
async fn get(address: std::net::SocketAddr, trusted: &[u8], path: &str) -> Result<String, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(trusted).map(Result::unwrap));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await;
    let mut stream = stream.map_err(|error| error.to_string())?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(|error| error.to_string())?;
    Ok(answer)
}

async fn plain(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// An agent with this guard.
fn served(guard: Guard) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = |path, text: &'static [u8]| HttpPage {
        path,
        kind: "text/plain",
        get: Get::Now(Box::new(move || Ok(bytes::Bytes::from_static(text)))),
    };
    let pages = vec![page("/metrics", b"x 1\n"), page(HEALTH, b"well\n")];
    std::thread::spawn(move || crate::client::runtime().unwrap().block_on(serve(listener, pages, guard)));
    address
}

#[test]
fn pages_are_served_by_tls_and_health_also_without() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = make(folder.path(), "one") else { return };
    let trusted = std::fs::read(&files.certificate).unwrap();
    let certificate = Arc::new(Certificate::read(files).unwrap());
    let address = served(Guard { certificate: Some(certificate), gate: None });
    crate::client::runtime().unwrap().block_on(async {
        let page = get(address, &trusted, "/metrics").await.unwrap();
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("\r\n\r\nx 1\n"), "{page}");
        assert!(get(address, &trusted, HEALTH).await.unwrap().ends_with("well\n"));
        assert!(plain(address, HEALTH).await.ends_with("well\n"));
        let told = plain(address, "/metrics").await;
        assert!(told.starts_with("HTTP/1.1 400") && told.ends_with("wanted https://, found http://\n"), "{told}");
        // What begins as TLS and goes on as something else.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"\x16\x03\x01\0\x04abcd").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.windows(4).any(|piece| piece == b"HTTP"), "{answer:?}");
    });
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart_and_one_that_does_not_fit_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = make(folder.path(), "one") else { return };
    let first = std::fs::read(&files.certificate).unwrap();
    let certificate = Arc::new(Certificate::read(files.clone()).unwrap());
    let address = served(Guard { certificate: Some(certificate.clone()), gate: None });
    let other = tempfile::tempdir().unwrap();
    let others = make(other.path(), "two").unwrap();
    let second = std::fs::read(&others.certificate).unwrap();
    crate::client::runtime().unwrap().block_on(async {
        // The certificate was replaced, and its key not yet.
        std::fs::copy(&others.certificate, &files.certificate).unwrap();
        let error = certificate.renew().unwrap_err();
        assert!(error.contains("tls.crt") && error.contains("tls.key"), "{error}");
        assert!(get(address, &first, "/metrics").await.unwrap().ends_with("x 1\n"));
        std::fs::copy(&others.key, &files.key).unwrap();
        certificate.renew().unwrap();
        assert!(get(address, &second, "/metrics").await.unwrap().ends_with("x 1\n"));
        assert!(get(address, &first, "/metrics").await.is_err());
        std::fs::write(&files.certificate, "no PEM").unwrap();
        assert!(certificate.renew().unwrap_err().contains("wanted certificates as PEM"));
        std::fs::remove_file(&files.certificate).unwrap();
        assert!(certificate.renew().unwrap_err().contains("tls.crt"));
        assert!(get(address, &second, "/metrics").await.unwrap().ends_with("x 1\n"));
    });
}

#[test]
fn a_page_needs_a_token_and_health_does_not() {
    let trust = Trust::default();
    let gate = Gate::new(ApiServer { url: "http://127.0.0.1:1".into(), trust });
    let address = served(Guard { certificate: None, gate: Some(gate) });
    crate::client::runtime().unwrap().block_on(async {
        let told = plain(address, "/metrics").await;
        assert!(told.starts_with("HTTP/1.1 401") && told.contains("www-authenticate: Bearer\r\n"), "{told}");
        assert!(plain(address, HEALTH).await.ends_with("well\n"));
        assert!(plain(address, "/other").await.starts_with("HTTP/1.1 404"));
    });
}
