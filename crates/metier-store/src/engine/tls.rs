//! Encrypted connections to PostgreSQL, for `sslmode=require`.
//!
//! The server's certificate is always checked, name included, against the system's roots, or those in the file that the
//! environment variable `SSL_CERT_FILE` names. That is stricter than libpq's `require`, which accepts anybody; an
//! encrypted line to nobody in particular protects little.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What makes connections encrypted; the error says why it cannot.
pub(super) fn connector() -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(format!(
            "sslmode=require needs root certificates and this system has none ({:?}); install the package ca-certificates \
             or name a file of them in SSL_CERT_FILE",
            found.errors
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
