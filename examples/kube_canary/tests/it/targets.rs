//! Targets outside of the mesh that speak TLS. In: a real server, with a certificate that the test has made. Out: what the canary
//! reports about the target.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::canary::{Canary, command, until};
use allocanary_testing::ports::free_port;

/// A self-signed certificate for 127.0.0.1, and its key. `None` if openssl is not installed.
fn certificate(folder: &Path, name: &str) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    let made = Command::new("openssl")
        .args(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=target -addext subjectAltName=IP:127.0.0.1".split(' '),
        )
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .args([&key, Path::new("-out"), &certificate])
        .output();
    match made {
        Ok(made) if made.status.success() => Some((certificate, key)),
        Ok(made) => panic!("openssl: {}", String::from_utf8_lossy(&made.stderr)),
        Err(error) => {
            allocanary_testing::skipped::skipped(format_args!("openssl is not installed ({error})"));
            None
        }
    }
}

/// A server that answers each request by TLS, at all addresses of this host; returns its port.
fn server(certificate: &Path, key: &Path) -> u16 {
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap());
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            let mut request = [0; 1024];
            // A client that does not trust the certificate ends the connection before it sends a request.
            if let Ok(length) = stream.read(&mut request) {
                let found = request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n");
                let status = if found { "200 OK" } else { "500 Internal Server Error" };
                let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        }
    });
    port
}

#[test]
fn a_target_by_tls_answers_where_its_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let Some((ours, key)) = certificate(folder.path(), "ours") else { return };
    let Some((others, _)) = certificate(folder.path(), "others") else { return };
    let port = server(&ours, &key);
    let own = format!("https://127.0.0.1:{port}/readyz");
    // The certificate does not name this address.
    let other_name = format!("https://127.0.0.2:{port}/readyz");
    let start = |trusted: &Path| {
        let flags = ["--peer=127.0.0.1", "--protocol=udp", "--interval=100ms", "--target-interval=100ms"];
        let mut command = command(&flags);
        let targets = [format!("--target={own}"), format!("--target={other_name}")];
        command.args(targets).arg(format!("--udp-port={}", free_port())).env("SSL_CERT_FILE", trusted);
        Canary::start(&mut command)
    };
    let checks = |canary: &Canary, target: &str, outcome: &str| {
        canary.sum("target_checks_total", &format!("target=\"{target}\",outcome=\"{outcome}\""))
    };
    let says = |canary: &Canary, what: &str| canary.json("/peers")["checks"].to_string().contains(what);

    let canary = start(&ours);
    until("it answers twice", || checks(&canary, &own, "ok") >= 2.0);
    assert_eq!(canary.sum("target_up", &format!("target=\"{own}\"")), 1.0);
    assert!(canary.sum("target_seconds_count", &format!("target=\"{own}\"")) >= 2.0);
    assert!(says(&canary, &format!("{own} answers")));
    until("the other name was refused", || checks(&canary, &other_name, "tls") >= 1.0);
    assert_eq!(checks(&canary, &other_name, "ok"), 0.0);
    assert!(says(&canary, "not valid for name"), "{}", canary.json("/peers")["checks"]);
    drop(canary);

    // A list with other certificates does not make this one trusted. With an empty list no certificate is trusted.
    let nobody = folder.path().join("nobody.pem");
    fs::write(&nobody, "").unwrap();
    for (trusted, why) in [(&others, "certificate"), (&nobody, "nobody is trusted: wanted certificates in")] {
        let canary = start(trusted);
        until("it was refused twice", || checks(&canary, &own, "tls") >= 2.0);
        assert_eq!((checks(&canary, &own, "ok"), canary.sum("target_up", &format!("target=\"{own}\""))), (0.0, 0.0));
        assert!(says(&canary, why), "{}", canary.json("/peers")["checks"]);
    }
}
