//! Fetches one file over HTTP. An interrupted fetch resumes where it stopped, also in a later
//! process.
//!
//! A partial file is resumed with `Range` only if the server proves that the file is unchanged
//! (`If-Range` with its ETag or date), or if the digest of the whole is known. Otherwise the fetch
//! starts again.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_fetch::{BodyError, copy_body, failure_reason, read_beginning};
use reqwest::header::{
    CONTENT_RANGE, ETAG, HeaderMap, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use reqwest::{Client, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::cache::write_whole;
use super::error::{check_free_space, file_error};
use super::{DatasetError, FetchWatch};

/// Most consecutive attempts without a new byte.
const MAX_STALLED_TRIES: u32 = 5;
/// Read timeout, after which the connection counts as broken.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an error page that are read.
const MAX_ERROR_PAGE_BYTES: usize = 4096;

/// HTTP validators of a file (ETag, Last-Modified), to detect changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpValidator {
    etag: Option<String>,
    modified: Option<String>,
}

impl HttpValidator {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_string);
        Self { etag: text(ETAG), modified: text(LAST_MODIFIED) }
    }

    /// From the ETag of a listing.
    pub fn from_etag(etag: String) -> Self {
        Self { etag: Some(etag), modified: None }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Validator for `If-Range`. A weak ETag does not guarantee the same bytes (RFC 9110, 8.8.1).
    fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/")).or(self.modified.as_deref())
    }
}

/// Result of a fetch.
pub enum HttpFetchOutcome {
    /// The file has not changed since the known fetch.
    Unchanged,
    /// The file is complete.
    Whole(HttpValidator),
}

/// The fetch of one file.
pub struct HttpFetch<'a> {
    /// Target path.
    pub to: &'a Path,
    /// Whether the digest of the whole is known. Then a part may be resumed without a validator.
    pub is_proven: bool,
    /// Validator of the cached copy, if any.
    pub known: Option<&'a HttpValidator>,
    /// Progress display and stop request.
    pub watch: &'a FetchWatch<'a>,
}

/// Metadata of a partial file, stored beside it.
#[derive(Default, Serialize, Deserialize)]
struct FetchPartRecord {
    validator: HttpValidator,
}

/// The HTTP client for all fetches.
pub fn client() -> Result<Client, String> {
    let client =
        metier_fetch::client_builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(SILENCE_TIMEOUT);
    client.build().map_err(|error| failure_reason(&error))
}

/// Failure of one attempt.
enum FetchFailure {
    Retry(String),
    Final(DatasetError),
}

impl From<DatasetError> for FetchFailure {
    fn from(error: DatasetError) -> Self {
        Self::Final(error)
    }
}

impl HttpFetch<'_> {
    /// Fetches the file. `locate` gives the address for each attempt, since signatures expire.
    pub async fn run(
        &self,
        client: &Client,
        locate: impl AsyncFn() -> Result<String, DatasetError>,
    ) -> Result<HttpFetchOutcome, DatasetError> {
        let mut failures = 0;
        loop {
            let before = self.length();
            let address = locate().await?;
            let reason = match self.attempt(client, &address).await {
                Ok(fetched) => return Ok(fetched),
                Err(FetchFailure::Final(error)) => return Err(error),
                Err(FetchFailure::Retry(reason)) => reason,
            };
            failures = if self.length() > before { 1 } else { failures + 1 };
            if failures >= MAX_STALLED_TRIES {
                let reason = format!("{reason} (tried {failures} times)");
                return Err(DatasetError::Unreachable { source_name: self.watch.source.clone(), reason });
            }
            self.watch.wait(Duration::from_millis(100 << failures)).await?;
        }
    }

    fn length(&self) -> u64 {
        fs::metadata(self.to).map(|meta| meta.len()).unwrap_or(0)
    }

    fn part_record_path(&self) -> PathBuf {
        self.to.with_extension("beside.json")
    }

    async fn attempt(&self, client: &Client, address: &str) -> Result<HttpFetchOutcome, FetchFailure> {
        let beside: FetchPartRecord = fs::read(self.part_record_path())
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let mut here = self.length();
        if here > 0 && beside.validator.strong().is_none() && !self.is_proven {
            self.begin_anew()?;
            here = 0;
        }
        let mut request = client.get(address);
        if here > 0 {
            request = request.header(RANGE, format!("bytes={here}-"));
            if let Some(strong) = beside.validator.strong() {
                request = request.header(IF_RANGE, strong);
            }
        } else if let Some(known) = self.known {
            match (&known.etag, &known.modified) {
                (Some(etag), _) => request = request.header(IF_NONE_MATCH, etag),
                (None, Some(modified)) => request = request.header(IF_MODIFIED_SINCE, modified),
                (None, None) => {}
            }
        }
        let sent = self.watch.guard(request.send()).await?;
        let response = sent.map_err(|error| self.connection_failure(&error))?;
        let validator = HttpValidator::of(response.headers());
        match response.status() {
            StatusCode::NOT_MODIFIED if self.known.is_some() && here == 0 => {
                return Ok(HttpFetchOutcome::Unchanged);
            }
            StatusCode::PARTIAL_CONTENT if here > 0 && starts_at(&response, here) => {}
            StatusCode::RANGE_NOT_SATISFIABLE if here > 0 => {
                // The file may be complete already; only the digest can confirm it.
                if self.is_proven && whole_of(&response) == Some(here) {
                    return Ok(HttpFetchOutcome::Whole(beside.validator));
                }
                self.begin_anew()?;
                return Err(FetchFailure::Retry("the file became shorter".into()));
            }
            StatusCode::OK => {
                if here > 0 {
                    self.watch.progress.back(here);
                }
                self.begin_anew()?;
                here = 0;
            }
            status => return Err(self.refusal(status, response).await),
        }
        if here > 0 {
            self.watch.resumed(here);
        }
        let written =
            write_whole(&self.part_record_path(), &FetchPartRecord { validator: validator.clone() });
        written.map_err(file_error("writing", self.to, &self.watch.source)).map_err(FetchFailure::Final)?;
        self.append_body(response, here).await?;
        Ok(HttpFetchOutcome::Whole(validator))
    }

    /// Maps a connection error. An invalid certificate is final; everything else is retried.
    fn connection_failure(&self, error: &reqwest::Error) -> FetchFailure {
        let reason = failure_reason(error);
        if !reason.contains("certificate") {
            return FetchFailure::Retry(reason);
        }
        let advice = "is its issuer trusted here? SSL_CERT_FILE names additional certificates";
        FetchFailure::Final(DatasetError::Refused { source_name: self.watch.source.clone(), reason, advice })
    }

    fn begin_anew(&self) -> Result<(), FetchFailure> {
        match fs::remove_file(self.to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FetchFailure::Final(file_error("clearing", self.to, &self.watch.source)(error)))
            }
            _ => Ok(()),
        }
    }

    async fn append_body(&self, response: Response, here: u64) -> Result<(), FetchFailure> {
        let expected = response.content_length();
        if let Some(more) = expected {
            self.watch.expects(here, more);
            check_free_space(more, self.to.parent().unwrap_or(self.to), &self.watch.source)?;
        }
        let failed = || file_error("writing", self.to, &self.watch.source);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.to);
        let mut file = file.map_err(failed()).map_err(FetchFailure::Final)?;
        let copied = copy_body(response, u64::MAX, |bytes| {
            file.write_all(bytes)?;
            self.watch.progress.advanced(bytes.len() as u64);
            Ok(())
        });
        match self.watch.guard(copied).await? {
            Ok(came) if expected.is_some_and(|expected| came < expected) => {
                Err(FetchFailure::Retry("the connection was cut".into()))
            }
            Ok(_) => Ok(()),
            Err(BodyError::Sink(error)) => Err(FetchFailure::Final(failed()(error))),
            Err(BodyError::Broken { reason, .. }) => Err(FetchFailure::Retry(reason)),
            Err(error) => Err(FetchFailure::Retry(error.to_string())),
        }
    }

    async fn refusal(&self, status: StatusCode, response: Response) -> FetchFailure {
        let bytes = read_beginning(response, MAX_ERROR_PAGE_BYTES).await;
        let text = String::from_utf8_lossy(&bytes);
        // S3 stores give their own error code in the body.
        let code = text.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next());
        let code = code.filter(|code| code.len() < 80 && code.bytes().all(|b| b.is_ascii_alphanumeric()));
        let reason = match code {
            Some(code) => format!("the store answered {} ({code})", status.as_u16()),
            None => format!("the server answered {status}"),
        };
        if status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
        {
            return FetchFailure::Retry(reason);
        }
        let advice = match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => "is it still there, and the address spelt right?",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "are the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or in the address) right?"
            }
            _ => "is the address right?",
        };
        FetchFailure::Final(DatasetError::Refused { source_name: self.watch.source.clone(), reason, advice })
    }
}

fn range_of(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")
}

/// Whether the response starts at the end of the local part; else the parts would not fit together.
fn starts_at(response: &Response, here: u64) -> bool {
    range_of(response).and_then(|range| range.split('-').next()?.parse().ok()) == Some(here)
}

/// Total length of the file, from `Content-Range`.
fn whole_of(response: &Response) -> Option<u64> {
    range_of(response)?.rsplit('/').next()?.parse().ok()
}
