//! Fetching one file over HTTP, as far as it goes: what breaks off goes on where it stopped, also in a later process.
//!
//! A part on the disk is continued with `Range` only if the server proves that it still has the same file (`If-Range` with
//! its ETag or date), or if the digest of the whole is known anyway. Everything else starts anew.

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
use super::error::{at, room_for};
use super::{Error, Watch};

/// Tries without a single new byte.
const TRIES: u32 = 5;
/// Silence that counts as broken off.
const SILENCE: Duration = Duration::from_secs(30);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an error page that are looked at.
const MOST_SAID: usize = 4096;

/// What a server says of a file, to tell whether it is still the same.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validator {
    etag: Option<String>,
    modified: Option<String>,
}

impl Validator {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_string);
        Self { etag: text(ETAG), modified: text(LAST_MODIFIED) }
    }

    /// From what a listing said.
    pub fn from_etag(etag: String) -> Self {
        Self { etag: Some(etag), modified: None }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// For `If-Range`; a weak tag does not promise the same bytes.
    fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/")).or(self.modified.as_deref())
    }
}

/// What came of it.
pub enum Fetched {
    /// It is what was known already.
    Unchanged,
    /// It is all there.
    Whole(Validator),
}

/// How one file is fetched.
pub struct Fetch<'a> {
    /// Where to put it.
    pub to: &'a Path,
    /// Whether the digest of the whole is known: then a part may be continued without the server's word.
    pub is_proven: bool,
    /// What was known of it, if it is here already.
    pub known: Option<&'a Validator>,
    /// For people and records.
    pub watch: &'a Watch<'a>,
}

/// What is known of a part, beside it.
#[derive(Default, Serialize, Deserialize)]
struct Beside {
    validator: Validator,
}

/// A client for all fetches.
pub fn client() -> Result<Client, String> {
    let client = metier_fetch::client_builder().connect_timeout(CONNECT).read_timeout(SILENCE);
    client.build().map_err(|error| failure_reason(&error))
}

/// Why one try did not bring it to the end.
enum Broken {
    Again(String),
    For(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::For(error)
    }
}

impl Fetch<'_> {
    /// Fetches it; `locate` gives the address for each try, since signatures grow old.
    pub async fn run(
        &self,
        client: &Client,
        locate: impl AsyncFn() -> Result<String, Error>,
    ) -> Result<Fetched, Error> {
        let mut failures = 0;
        loop {
            let before = self.length();
            let address = locate().await?;
            let reason = match self.attempt(client, &address).await {
                Ok(fetched) => return Ok(fetched),
                Err(Broken::For(error)) => return Err(error),
                Err(Broken::Again(reason)) => reason,
            };
            failures = if self.length() > before { 1 } else { failures + 1 };
            if failures >= TRIES {
                let reason = format!("{reason} (tried {failures} times)");
                return Err(Error::Unreachable { source_name: self.watch.source.clone(), reason });
            }
            self.watch.wait(Duration::from_millis(100 << failures)).await?;
        }
    }

    fn length(&self) -> u64 {
        fs::metadata(self.to).map(|meta| meta.len()).unwrap_or(0)
    }

    fn beside(&self) -> PathBuf {
        self.to.with_extension("beside.json")
    }

    async fn attempt(&self, client: &Client, address: &str) -> Result<Fetched, Broken> {
        let beside: Beside = fs::read(self.beside())
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
        let response = sent.map_err(|error| self.unanswered(&error))?;
        let validator = Validator::of(response.headers());
        match response.status() {
            StatusCode::NOT_MODIFIED if self.known.is_some() && here == 0 => return Ok(Fetched::Unchanged),
            StatusCode::PARTIAL_CONTENT if here > 0 && starts_at(&response, here) => {}
            StatusCode::RANGE_NOT_SATISFIABLE if here > 0 => {
                // All of it may be here already; only the digest can tell.
                if self.is_proven && whole_of(&response) == Some(here) {
                    return Ok(Fetched::Whole(beside.validator));
                }
                self.begin_anew()?;
                return Err(Broken::Again("the file became shorter".into()));
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
        let kept = write_whole(&self.beside(), &Beside { validator: validator.clone() });
        kept.map_err(at("writing", self.to, &self.watch.source)).map_err(Broken::For)?;
        self.take(response, here).await?;
        Ok(Fetched::Whole(validator))
    }

    /// A server that cannot prove who it is will not be able to at the next try either.
    fn unanswered(&self, error: &reqwest::Error) -> Broken {
        let reason = failure_reason(error);
        if !reason.contains("certificate") {
            return Broken::Again(reason);
        }
        let advice = "is it signed by somebody known here? SSL_CERT_FILE names others";
        Broken::For(Error::Refused { source_name: self.watch.source.clone(), reason, advice })
    }

    fn begin_anew(&self) -> Result<(), Broken> {
        match fs::remove_file(self.to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Broken::For(at("clearing", self.to, &self.watch.source)(error)))
            }
            _ => Ok(()),
        }
    }

    async fn take(&self, response: Response, here: u64) -> Result<(), Broken> {
        let expected = response.content_length();
        if let Some(more) = expected {
            self.watch.expects(here, more);
            room_for(more, self.to.parent().unwrap_or(self.to), &self.watch.source)?;
        }
        let failed = || at("writing", self.to, &self.watch.source);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.to);
        let mut file = file.map_err(failed()).map_err(Broken::For)?;
        let copied = copy_body(response, u64::MAX, |bytes| {
            file.write_all(bytes)?;
            self.watch.progress.advanced(bytes.len() as u64);
            Ok(())
        });
        match self.watch.guard(copied).await? {
            Ok(came) if expected.is_some_and(|expected| came < expected) => {
                Err(Broken::Again("the connection was cut".into()))
            }
            Ok(_) => Ok(()),
            Err(BodyError::Sink(error)) => Err(Broken::For(failed()(error))),
            Err(BodyError::Broken { reason, .. }) => Err(Broken::Again(reason)),
            Err(error) => Err(Broken::Again(error.to_string())),
        }
    }

    async fn refusal(&self, status: StatusCode, response: Response) -> Broken {
        let said = read_beginning(response, MOST_SAID).await;
        let said = String::from_utf8_lossy(&said);
        // S3 stores say what they mean in a word of their own.
        let code = said.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next());
        let code = code.filter(|code| code.len() < 80 && code.bytes().all(|b| b.is_ascii_alphanumeric()));
        let reason = match code {
            Some(code) => format!("the store answered {} ({code})", status.as_u16()),
            None => format!("the server answered {status}"),
        };
        if status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
        {
            return Broken::Again(reason);
        }
        let advice = match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => "is it still there, and the address spelt right?",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "are the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or in the address) right?"
            }
            _ => "is the address right?",
        };
        Broken::For(Error::Refused { source_name: self.watch.source.clone(), reason, advice })
    }
}

fn range_of(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")
}

/// Whether a part begins where ours ends; anything else would be put together wrongly.
fn starts_at(response: &Response, here: u64) -> bool {
    range_of(response).and_then(|range| range.split('-').next()?.parse().ok()) == Some(here)
}

/// How long the server says that the whole is.
fn whole_of(response: &Response) -> Option<u64> {
    range_of(response)?.rsplit('/').next()?.parse().ok()
}
