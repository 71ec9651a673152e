//! TLS: by whose signature a server's certificate is believed.

use std::path::Path;

use redis::TlsCertificates;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::store::StoreError;

/// Reads the certificates of those who sign servers'.
///
/// # Errors
/// The file, and what is wrong with it.
pub(super) fn read(path: &Path) -> Result<TlsCertificates, StoreError> {
    let unusable = |what: &str| StoreError::Unusable {
        reason: format!("store.redis.ca_file = {path:?}: {what}; name a file with the CA's certificates, as PEM"),
    };
    let pem = std::fs::read(path).map_err(|error| unusable(&format!("it cannot be read ({error})")))?;
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Err(unusable("it holds no certificate"));
    }
    Ok(TlsCertificates { client_tls: None, root_cert: Some(pem) })
}

/// The library takes the cryptography that the process has chosen, and panics where it has to choose itself. A program
/// that has chosen keeps its choice.
pub(super) fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // Somebody else may have been quicker.
        drop(aws_lc_rs::default_provider().install_default());
    }
}
