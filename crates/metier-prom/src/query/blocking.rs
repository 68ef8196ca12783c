//! A blocking query client for callers without an async runtime.

use tokio::runtime::{Builder, Handle, Runtime};

use super::client::Client;
use super::endpoint::Endpoint;
use super::error::Error;

/// A client whose calls block.
#[derive(Debug)]
pub struct Blocking {
    client: Client,
    runtime: Runtime,
}

impl Blocking {
    /// Makes a client for an endpoint.
    pub fn new(endpoint: Endpoint) -> Result<Self, Error> {
        let bad = |reason: String| Error::BadEndpoint { url: endpoint.to_string(), reason };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| bad(format!("no runtime: {error}")))?;
        Ok(Self { client: Client::new(endpoint)?, runtime })
    }

    /// Runs a query and blocks until its end: `blocking.ask(async |client| client.instant("up",
    /// None).await)`.
    pub fn ask<T>(&self, question: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        if Handle::try_current().is_ok() {
            let reason = "a task of a runtime would wait for itself; ask with `Client` there".to_string();
            return Err(Error::BadEndpoint { url: self.client.endpoint().to_string(), reason });
        }
        self.runtime.block_on(question(&self.client))
    }
}
