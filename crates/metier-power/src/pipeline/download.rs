//! Downloads a pipeline from an address into a local file, completely or not at all.
//!
//! The response goes to a temporary file and is parsed as a pipeline before it replaces the
//! previous file. A response that is truncated, too large, too slow or not a pipeline changes
//! nothing. ETags avoid repeated downloads. Limits: [`DownloadLimits`].

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_fetch::{BodyError, copy_body, failure_reason};
use metier_store::atomic_file::{self, AtomicFile};
use reqwest::header::{ETAG, IF_NONE_MATCH};
use reqwest::{Client, StatusCode, Url};

use crate::Error;
use crate::kepler_terms::shorten;

/// Partial files without a write for this long are abandoned.
const STALE_PART_AGE: Duration = Duration::from_secs(3600);
/// Longest stored ETag.
const MAX_ETAG_BYTES: usize = 1024;

/// Limits of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadLimits {
    pub bytes: u64,
    /// Until the connection is established.
    pub connect: Duration,
    /// Longest pause without a byte.
    pub silence: Duration,
    /// Total time of a download.
    pub whole: Duration,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            whole: Duration::from_secs(600),
        }
    }
}

/// A pipeline at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineDownload {
    address: Url,
    file: PathBuf,
    /// Limits of the download.
    pub limits: DownloadLimits,
}

impl PipelineDownload {
    /// A download from this address into a file below the folder. No request is made yet.
    pub fn new(address: &str, folder: &Path) -> Result<Self, Error> {
        let wrong = || Error::Word {
            field: "models",
            got: shorten(address.split(['?', '@']).next_back().unwrap_or_default()),
            want: "a folder, a zip, or http(s)://HOST/PATH of a zip".to_string(),
        };
        let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(Url::has_host).ok_or_else(wrong)?;
        let digest = metier_store::digest::digest_bytes(url.as_str().as_bytes());
        let digest: String = digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let name = url.path().rsplit('/').next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_name =
            !name.is_empty() && !name.starts_with('.') && name.len() <= 200 && name.chars().all(is_plain);
        let file = folder.join(digest).join(if is_name { name } else { "pipeline.zip" });
        Ok(Self { address: url, file, limits: DownloadLimits::default() })
    }

    /// The downloaded file, if there is one.
    pub fn downloaded_file(&self) -> Option<&Path> {
        self.file.is_file().then_some(&self.file)
    }

    /// The address without secrets.
    pub fn display_address(&self) -> String {
        without_secrets(&self.address)
    }

    /// Downloads the pipeline. Returns whether the file changed; after an error it is unchanged.
    pub fn fetch(&self) -> Result<bool, Error> {
        let failed = |why: String| Error::Download { address: self.display_address(), why };
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| Error::file(folder, error))?;
        clear_away(folder);
        match self.download_part().map_err(failed)? {
            None => Ok(false),
            Some((part, etag)) => self.take(part, &etag).map(|()| true),
        }
    }

    /// Replaces the file with the downloaded one if that is a pipeline.
    fn take(&self, part: AtomicFile, etag: &str) -> Result<(), Error> {
        super::load(part.part_path()).map_err(|error| {
            let why = match error {
                Error::File { why, .. } => why,
                other => other.to_string(),
            };
            Error::Download { address: self.display_address(), why: format!("what came {why}") }
        })?;
        // The old ETag is removed first: a tag must never be newer than its file.
        let tag = self.tag();
        let _ = fs::remove_file(&tag);
        part.persist().map_err(|error| Error::file(&self.file, error))?;
        if !etag.is_empty() {
            fs::write(&tag, etag).map_err(|error| Error::file(&tag, error))?;
        }
        Ok(())
    }

    fn tag(&self) -> PathBuf {
        self.file.with_file_name("etag")
    }

    /// Downloads to a temporary file and returns it with its ETag; `None` if the server reports no
    /// change.
    fn download_part(&self) -> Result<Option<(AtomicFile, String)>, String> {
        let client = client(&self.limits)?;
        runtime()?.block_on(self.answer(&client))
    }

    async fn answer(&self, client: &Client) -> Result<Option<(AtomicFile, String)>, String> {
        let mut request = client.get(self.address.clone());
        let known = self.downloaded_file().and_then(|_| fs::read_to_string(self.tag()).ok());
        if let Some(tag) = &known {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let response = request.send().await.map_err(|error| reason(&error))?;
        match response.status() {
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
            status if status == StatusCode::OK => {}
            status => return Err(format!("the server answered {status}; want 200 and a zip")),
        }
        let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
        let tag = tag.filter(|tag| tag.len() <= MAX_ETAG_BYTES).unwrap_or_default().to_string();
        let written = |error: std::io::Error| format!("it cannot be kept: {}: {error}", self.file.display());
        let mut file = AtomicFile::create(&self.file, atomic_file::PRIVATE_FILE_MODE).map_err(written)?;
        copy_body(response, self.limits.bytes, |bytes| file.write_all(bytes)).await.map_err(|error| {
            match error {
                BodyError::Sink(error) => written(error),
                other => other.to_string(),
            }
        })?;
        Ok(Some((file, tag)))
    }
}

/// Removes temporary files of processes that were killed during a download.
fn clear_away(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_part = path.extension().is_some_and(|extension| extension == "part");
        let written = entry.metadata().and_then(|about| about.modified()).ok();
        let age = written.and_then(|written| written.elapsed().ok());
        if is_part && age.is_some_and(|age| age > STALE_PART_AGE) {
            let _ = fs::remove_file(path);
        }
    }
}

/// An HTTP client with these limits.
pub(super) fn client(limits: &DownloadLimits) -> Result<Client, String> {
    let client = metier_fetch::client_builder()
        .connect_timeout(limits.connect)
        .read_timeout(limits.silence)
        .timeout(limits.whole);
    client.build().map_err(|error| reason(&error))
}

/// A runtime that runs requests on the calling thread.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot be asked: {error}"))
}

/// An address without secrets.
pub(super) fn without_secrets(address: &Url) -> String {
    let mut url = address.clone();
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.to_string()
}

/// Reason of a failed request, shortened for a message.
pub(super) fn reason(error: &reqwest::Error) -> String {
    shorten(&failure_reason(error))
}
