//! Encrypted connections to PostgreSQL, for `sslmode=require`.
//!
//! The server's certificate and host name are always checked. The trusted roots are the system's,
//! or those in the file named by `SSL_CERT_FILE`. This is stricter than libpq's `require`, which
//! accepts any certificate and so does not prevent interception.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Builds the TLS connector; the error explains why it cannot.
pub(super) fn tls_connector() -> Result<MakeRustlsConnect, String> {
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
