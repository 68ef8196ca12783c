//! TLS of a listener: certificate and key from files, and the handshake.
//!
//! The files are read once, at the start. rustls decides on protocol versions (1.2 and 1.3) and
//! cipher suites.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::error::Error;

/// Largest certificate or key file; a larger one was named by mistake.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// A certificate with its key.
#[derive(Clone)]
pub struct TlsIdentity(Arc<ServerConfig>);

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity(…)")
    }
}

impl TlsIdentity {
    /// Reads the certificate with its chain, and its key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let wrong = |path: &Path, why: String| Error::TlsFile { path: path.to_path_buf(), why };
        let chain: Result<Vec<_>, pem::Error> =
            CertificateDer::pem_slice_iter(&read_pem(certificate)?).collect();
        let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
        if chain.is_empty() {
            let why = "has no certificate; want PEM with BEGIN CERTIFICATE, the server's own first";
            return Err(wrong(certificate, why.into()));
        }
        let private = PrivateKeyDer::from_pem_slice(&read_pem(key)?).map_err(|error| match error {
            pem::Error::NoItemsFound => {
                let why = "has no private key; want PEM with BEGIN PRIVATE KEY, without a passphrase";
                wrong(key, why.into())
            }
            error => wrong(key, error.to_string()),
        })?;
        let config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(certificate, error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, private);
        let mut config = config.map_err(|error| {
            let why = format!("does not fit the certificate {}: {error}", certificate.display());
            wrong(key, why)
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn read_pem(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_PEM_BYTES).read_to_end(&mut bytes))
        .map_err(|error| Error::TlsFile { path: path.to_path_buf(), why: error.to_string() })?;
    Ok(bytes)
}

/// A connection, encrypted or not.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Completes the handshake within a time, where there is an identity.
pub async fn accept_stream(
    identity: Option<&TlsIdentity>,
    stream: impl ByteStream + 'static,
    time: Duration,
) -> io::Result<Box<dyn ByteStream>> {
    let Some(identity) = identity else { return Ok(Box::new(stream)) };
    let handshake = TlsAcceptor::from(identity.0.clone()).accept(stream);
    let stream = tokio::time::timeout(time, handshake).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(Box::new(stream))
}
