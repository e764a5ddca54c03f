//! TLS to a target. In: a connection and the name that its certificate must have. Out: the encrypted connection, or the problem of
//! the certificate.
//!
//! Trusted authorities are the cluster's CA, if the pod has a service account, and the system's list, if there is one. Both are read
//! again for each check and not kept: the CA is rotated, and a hundred certificates use more memory than all peers.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::causes;

/// Each of these files is used if it exists.
const AUTHORITIES: [&str; 2] =
    ["/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "/etc/ssl/certs/ca-certificates.crt"];

/// Encrypts the connection.
pub(super) async fn over(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    over_by(stream, host, &authorities()).await
}

/// The files with certificates of authorities. `SSL_CERT_FILE` names another file instead, as for other programs.
fn authorities() -> Vec<String> {
    match std::env::var("SSL_CERT_FILE") {
        Ok(file) => vec![file],
        Err(_) => AUTHORITIES.iter().filter(|file| Path::new(file).exists()).map(|file| file.to_string()).collect(),
    }
}

async fn over_by(stream: TcpStream, host: &str, files: &[String]) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    for file in files {
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| format!("{file}: {error}"))?;
        roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    }
    if roots.is_empty() {
        return Err(format!(
            "nobody is trusted: wanted certificates in {} or in the file that SSL_CERT_FILE names",
            AUTHORITIES.join(", ")
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name =
        ServerName::try_from(host.trim_end_matches('.').to_string()).map_err(|error| format!("{host}: {error}"))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|error| causes(&error))
}
