//! Bounded HTTP downloads for all crates.
//!
//! reqwest implements the protocol. This crate adds the common policy: one cryptography provider,
//! no redirect from https to http, a byte limit on bodies whatever their `Content-Length`, and
//! error reasons without the address, which may contain secrets. Files, resuming and retries are
//! left to the caller.

use std::io;
use std::sync::OnceLock;

use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Error, Response};

const MAX_REDIRECTS: usize = 10;

/// A client builder without timeouts; redirects never lead from https to http.
pub fn client_builder() -> ClientBuilder {
    // Installed once per process; an earlier provider works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let no_downgrade = Policy::custom(|attempt| {
        let was_safe = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("more than 10 redirections")
        } else if was_safe && attempt.url().scheme() != "https" {
            attempt.error("redirected from https to http")
        } else {
            attempt.follow()
        }
    });
    let builder = reqwest::Client::builder()
        .redirect(no_downgrade)
        .user_agent(concat!("metier/", env!("CARGO_PKG_VERSION")));
    // Without any authority reqwest makes no client at all, although plain HTTP needs none.
    if has_authorities() { builder } else { builder.tls_certs_only([]) }
}

/// Whether this host has certificates of authorities; looked up once.
pub fn has_authorities() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| !rustls_native_certs::load_native_certs().certs.is_empty())
}

/// Reason why a body was not read completely.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("it has more than {max} bytes, the limit")]
    TooLarge { max: u64 },
    #[error("it broke off after {received} bytes: {reason}")]
    Broken { received: u64, reason: String },
    /// The sink returned an error.
    #[error(transparent)]
    Sink(#[from] io::Error),
}

/// Passes at most `max` bytes of a body to `sink` in chunks; returns their total.
pub async fn copy_body(
    mut response: Response,
    max: u64,
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64, BodyError> {
    if response.content_length().is_some_and(|length| length > max) {
        return Err(BodyError::TooLarge { max });
    }
    let mut received = 0;
    loop {
        match response.chunk().await {
            Ok(Some(piece)) if piece.len() as u64 > max - received => {
                return Err(BodyError::TooLarge { max });
            }
            Ok(Some(piece)) => {
                sink(&piece)?;
                received += piece.len() as u64;
            }
            Ok(None) => return Ok(received),
            Err(error) => return Err(BodyError::Broken { received, reason: failure_reason(&error) }),
        }
    }
}

/// Reads a body of at most `max` bytes.
pub async fn read_body(response: Response, max: u64) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    copy_body(response, max, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    Ok(body)
}

/// Reads the beginning of a body as far as it arrives, to quote a refusal.
pub async fn read_beginning(mut response: Response, max: usize) -> Vec<u8> {
    let mut beginning = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        beginning.extend_from_slice(&piece[..piece.len().min(max - beginning.len())]);
        if beginning.len() == max {
            break;
        }
    }
    beginning
}

/// Innermost cause of an error, without the address, which may contain secrets.
pub fn failure_reason(error: &Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_string();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    if text.contains("://") { "the transfer failed".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Runs a server that sends these bytes and then closes the connection.
    fn answer_of<T>(sent: &'static str, read: impl AsyncFnOnce(Response) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("http://{}/?secret", listener.local_addr().unwrap());
            let server = async move {
                let mut stream = listener.accept().await.unwrap().0;
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                stream.write_all(sent.as_bytes()).await.unwrap();
            };
            let client = client_builder().no_proxy().build().unwrap();
            let server = tokio::spawn(server);
            let response = client.get(address).send().await.unwrap();
            server.await.unwrap();
            read(response).await
        })
    }

    const SIZED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const UNSIZED: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
    const CUT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";

    #[test]
    fn a_body_is_bounded_with_and_without_a_stated_length() {
        for sent in [SIZED, UNSIZED] {
            let body = answer_of(sent, async |response| read_body(response, 5).await.unwrap());
            assert_eq!(body, b"hello");
            let error = answer_of(sent, async |response| read_body(response, 4).await.unwrap_err());
            assert!(matches!(error, BodyError::TooLarge { max: 4 }), "{error}");
            assert_eq!(answer_of(sent, async |response| read_beginning(response, 4).await), b"hell");
        }
    }

    #[test]
    fn a_body_that_breaks_off_is_an_error_without_the_address() {
        let error = answer_of(CUT, async |response| read_body(response, 99).await.unwrap_err()).to_string();
        assert!(error.starts_with("it broke off after 5 bytes: ") && !error.contains("secret"), "{error}");
        assert_eq!(answer_of(CUT, async |response| read_beginning(response, 99).await), b"hello");
    }
}
