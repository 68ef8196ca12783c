//! A run that makes sense: what a run file becomes when nothing is wrong with it.

use std::path::PathBuf;
use std::time::Duration;

use metier_measure::RunSpec;
use metier_types::{ContentDigest, PageCacheState};

use super::address::is_web;
use super::file::RunFile;

/// A run that makes sense.
#[derive(Debug, Clone)]
pub struct CheckedRun {
    /// What it was made of, paths made absolute; it can be written out and read again.
    pub file: RunFile,
    /// What the measuring room is asked for; batch, repetition, dataset and company come when it is run.
    pub spec: RunSpec,
    /// What it works on.
    pub dataset: Option<CheckedDataset>,
    /// Runs that it needs.
    pub needs: Vec<CheckedRun>,
    pub with: Vec<CheckedRun>,
    /// When it is ready.
    pub ready: Option<ReadinessRule>,
    /// Runs before the ones that count.
    pub warmup: u32,
    /// How many times to measure.
    pub repeats: u32,
}

/// A dataset that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedDataset {
    pub source: DatasetSource,
    /// The digest that it must have.
    pub digest: Option<ContentDigest>,
    /// Where a container sees it.
    pub target: String,
    /// What to do about the page cache.
    pub page_cache: PageCacheState,
}

/// Where a dataset is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetSource {
    /// A file or folder here.
    Path(PathBuf),
    /// A file on a web server.
    Http(String),
    /// An object, or all under a prefix that ends with `/`.
    S3 {
        bucket: String,
        /// The key, or the prefix.
        key: String,
        /// Where the store is, if it was said.
        endpoint: Option<String>,
        /// Its region, if it was said.
        region: Option<String>,
    },
}

/// When a run is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessRule {
    /// What to look for.
    pub sign: ReadinessSign,
    /// How long that may take.
    pub within: Duration,
}

/// What shows that a run is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadinessSign {
    Port(String, u16),
    Http(String),
    File(PathBuf),
    Output(String),
}

/// Where a container sees its dataset if nobody says otherwise.
pub const DATASET_TARGET: &str = "/dataset";
/// How long getting ready may take if nobody says otherwise.
pub const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(60);

impl DatasetSource {
    /// Reads where a dataset is.
    pub fn read(text: &str, endpoint: Option<String>, region: Option<String>) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, key) = rest.split_once('/')?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let is_bucket = (1..=255).contains(&bucket.len()) && bucket.chars().all(is_name);
            let is_key = !key.contains(['?', '#']) && !key.split('/').any(|part| part == "..");
            return (is_bucket && is_key).then(|| Self::S3 {
                bucket: bucket.into(),
                key: key.into(),
                endpoint,
                region,
            });
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return is_web(text).then(|| Self::Http(text.into()));
        }
        (!text.is_empty() && !text.contains("://")).then(|| Self::Path(text.into()))
    }
}
