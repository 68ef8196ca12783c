//! A blocking query client for callers without an async runtime.

use tokio::runtime::{Builder, Handle, Runtime};

use super::client::PromClient;
use super::endpoint::PromEndpoint;
use super::error::QueryError;

/// A client whose calls block.
#[derive(Debug)]
pub struct BlockingClient {
    client: PromClient,
    runtime: Runtime,
}

impl BlockingClient {
    /// Makes a client for an endpoint.
    pub fn new(endpoint: PromEndpoint) -> Result<Self, QueryError> {
        let bad = |reason: String| QueryError::BadEndpoint { url: endpoint.to_string(), reason };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| bad(format!("no runtime: {error}")))?;
        Ok(Self { client: PromClient::new(endpoint)?, runtime })
    }

    /// Runs a query and blocks until its end: `blocking.block_on(async |client|
    /// client.query_instant("up", None).await)`.
    pub fn block_on<T>(
        &self,
        question: impl AsyncFnOnce(&PromClient) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        if Handle::try_current().is_ok() {
            let reason =
                "a blocking call inside an async runtime would block it; use `PromClient` there".to_string();
            return Err(QueryError::BadEndpoint { url: self.client.endpoint().to_string(), reason });
        }
        self.runtime.block_on(question(&self.client))
    }
}
