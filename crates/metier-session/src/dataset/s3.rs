//! Objects of an S3-compatible store: signed addresses, and the list of objects under a prefix.
//!
//! [`http`](super::http) does the fetching: a signed address supports `Range` and `If-Range` like
//! any other. Addresses are in path style, which every store supports. Credentials come from the
//! usual AWS_* variables; without them, requests are not signed.

use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::signer::Signer;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::{DatasetError, FetchWatch};

/// Most objects under one prefix.
const MAX_OBJECTS: usize = 100_000;
/// Lifetime of a signed address; each attempt gets a new address.
const SIGNATURE_LIFETIME: Duration = Duration::from_secs(3600);
/// Default region.
const DEFAULT_REGION: &str = "us-east-1";

pub struct S3Bucket {
    store: AmazonS3,
    name: String,
    endpoint: String,
    is_signed: bool,
}

/// An object under a prefix.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct S3Object {
    pub key: String,
    pub size: u64,
    /// ETag of the object.
    pub etag: Option<String>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl S3Bucket {
    /// The bucket of a store.
    pub fn open(
        name: &str,
        endpoint: Option<&str>,
        region: Option<&str>,
        watch: &FetchWatch<'_>,
    ) -> Result<Self, DatasetError> {
        let region = region
            .map(str::to_string)
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .unwrap_or_else(|| DEFAULT_REGION.to_string());
        let endpoint = endpoint
            .map(str::to_string)
            .or_else(|| variable("AWS_ENDPOINT_URL_S3"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.trim_end_matches('/').to_string();
        let is_signed = [
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ]
        .iter()
        .any(|name| variable(name).is_some());
        let retry =
            RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(20), ..RetryConfig::default() };
        let options = ClientOptions::new()
            // Without any authority no client could be made, although plain HTTP needs none.
            .with_no_system_certificates(!metier_fetch::has_authorities())
            .with_allow_http(true)
            .with_connect_timeout(Duration::from_secs(10))
            .with_timeout(Duration::from_secs(60));
        let store = AmazonS3Builder::from_env()
            .with_client_options(options)
            .with_retry(retry)
            .with_bucket_name(name)
            .with_endpoint(&endpoint)
            .with_region(region)
            .with_virtual_hosted_style_request(false)
            .with_skip_signature(!is_signed)
            .build()
            .map_err(|error| store_error(&error, watch))?;
        Ok(Self { store, name: name.to_string(), endpoint, is_signed })
    }

    /// The address of an object, signed if credentials are set.
    pub async fn address(&self, key: &str, watch: &FetchWatch<'_>) -> Result<String, DatasetError> {
        let path = Key::parse(key).map_err(|_| unfit(watch, format!("has the key {key:?}")))?;
        if !self.is_signed {
            return Ok(format!("{}/{}/{}", self.endpoint, self.name, encoded(key)));
        }
        let address = self.store.signed_url(reqwest::Method::GET, &path, SIGNATURE_LIFETIME).await;
        address.map(String::from).map_err(|error| store_error(&error, watch))
    }

    /// All objects under a prefix, in order.
    pub async fn list(&self, prefix: &str, watch: &FetchWatch<'_>) -> Result<Vec<S3Object>, DatasetError> {
        let path = Key::parse(prefix.trim_end_matches('/'))
            .map_err(|_| unfit(watch, format!("has the prefix {prefix:?}")))?;
        let mut objects = Vec::new();
        let mut stream = self.store.list(Some(&path));
        loop {
            let next = watch.guard(stream.try_next()).await?;
            let Some(meta) = next.map_err(|error| store_error(&error, watch))? else { break };
            let key = meta.location.to_string();
            // Entries that represent folders.
            if key.ends_with('/') || key == prefix.trim_end_matches('/') {
                continue;
            }
            objects.push(S3Object { key, size: meta.size, etag: meta.e_tag });
            if objects.len() > MAX_OBJECTS {
                return Err(unfit(watch, format!("has more than {MAX_OBJECTS} objects")));
            }
        }
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(objects)
    }
}

fn unfit(watch: &FetchWatch<'_>, what: String) -> DatasetError {
    DatasetError::Unfit {
        source_name: watch.source.clone(),
        what,
        want: "s3://bucket/key, or s3://bucket/prefix/ with at most 100000 objects",
    }
}

/// Percent-encodes a key for an address.
fn encoded(key: &str) -> String {
    let mut text = String::new();
    for byte in key.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                text.push(byte as char)
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn store_error(error: &object_store::Error, watch: &FetchWatch<'_>) -> DatasetError {
    let source_name = watch.source.clone();
    let mut innermost: &dyn std::error::Error = error;
    while let Some(next) = innermost.source() {
        innermost = next;
    }
    let whole = error.to_string();
    let code = whole.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next());
    match error {
        object_store::Error::NotFound { .. } => DatasetError::Refused {
            source_name,
            reason: format!("the store answered 404 ({})", code.unwrap_or("not found")),
            advice: "is it still there, and the address spelt right?",
        },
        object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
            DatasetError::Refused {
                source_name,
                reason: format!("the store denies access ({})", code.unwrap_or("permission denied")),
                advice: "are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY right?",
            }
        }
        _ => {
            let reason = match code {
                Some(code) => format!("the store answered {code}"),
                None => innermost.to_string(),
            };
            let reason =
                if reason.contains("://") { "the store does not answer".to_string() } else { reason };
            DatasetError::Unreachable { source_name, reason }
        }
    }
}
