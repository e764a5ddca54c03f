//! The certificate that the agent shows. In: two files. Out: what TLS needs. The files are read anew while the agent runs, so whoever
//! renews them restarts nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allocanary_sys::input;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::desk::Desk;

/// How often the files are looked at.
const AGAIN: Duration = Duration::from_secs(10);

/// Where a certificate is: PEM, as in a Secret of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those of its authorities.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What both files had in them.
#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate that is renewed with its files.
pub struct Certificate {
    files: CertificateFiles,
    shown: Mutex<(Pem, Arc<ServerConfig>)>,
}

impl Certificate {
    /// Reads both files.
    pub fn read(files: CertificateFiles) -> Result<Certificate, String> {
        let pem = Pem::read(&files)?;
        let config = pem.config(&files)?;
        Ok(Certificate { files, shown: Mutex::new((pem, Arc::new(config))) })
    }

    /// What is shown to the next client.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Reads the files again. If they cannot be used, the earlier certificate stays. A pair that does not fit may be one of which only one
    /// file was replaced yet.
    pub fn renew(&self) -> Result<(), String> {
        let pem = Pem::read(&self.files)?;
        if pem == self.shown.lock().unwrap_or_else(PoisonError::into_inner).0 {
            return Ok(());
        }
        let config = Arc::new(pem.config(&self.files)?);
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = (pem, config);
        Ok(())
    }

    /// Looks at the files for ever. Their problem, if they have one, is put on the desk.
    pub async fn follow(self: Arc<Self>, desk: Arc<Desk>) {
        loop {
            tokio::time::sleep(AGAIN).await;
            desk.say_of_certificate(self.renew().err());
        }
    }
}

impl Pem {
    fn read(files: &CertificateFiles) -> Result<Pem, String> {
        let bytes = |file: &Path| input::bytes(file).map_err(|error| format!("{}: {error}", file.display()));
        Ok(Pem { certificate: bytes(&files.certificate)?, key: bytes(&files.key)? })
    }

    fn config(&self, files: &CertificateFiles) -> Result<ServerConfig, String> {
        let (file, key_file) = (files.certificate.display(), files.key.display());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| format!("{file}: wanted certificates as PEM, found none"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|error| format!("{key_file}: wanted a private key as PEM: {error}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let made = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let made = made.and_then(|made| made.with_no_client_auth().with_single_cert(chain, key));
        let mut config = made.map_err(|error| format!("{file} and {key_file}: {error}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

#[cfg(test)]
#[path = "certificate_test.rs"]
pub(crate) mod tests;
