//! A checked run: the result of a run file without faults.

use std::path::PathBuf;
use std::time::Duration;

use metier_measure::RunSpec;
use metier_types::{ContentDigest, PageCacheState};

use super::address::is_web;
use super::file::RunFile;

/// A run whose fields are all valid.
#[derive(Debug, Clone)]
pub struct CheckedRun {
    /// Its run file with absolute paths; it can be written and read again.
    pub file: RunFile,
    /// Specification for `metier-measure`. Batch, repetition, dataset and co-runners are set at the
    /// run.
    pub spec: RunSpec,
    /// Dataset of the run.
    pub dataset: Option<CheckedDataset>,
    /// Companions.
    pub needs: Vec<CheckedRun>,
    pub with: Vec<CheckedRun>,
    /// Readiness rule.
    pub ready: Option<ReadinessRule>,
    /// Number of warm-up runs.
    pub warmup: u32,
    /// Number of measured runs.
    pub repeats: u32,
}

/// The requested dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedDataset {
    pub source: DatasetSource,
    /// The required digest.
    pub digest: Option<ContentDigest>,
    /// Path in a container.
    pub target: String,
    /// Page-cache state to prepare.
    pub page_cache: PageCacheState,
}

/// Source of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetSource {
    /// A local file or folder.
    Path(PathBuf),
    /// A file on a web server.
    Http(String),
    /// An S3 object, or all objects under a prefix that ends with `/`.
    S3 {
        bucket: String,
        /// The key, or the prefix.
        key: String,
        /// Address of the store, if given.
        endpoint: Option<String>,
        /// Region of the store, if given.
        region: Option<String>,
    },
}

/// Rule for the readiness of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessRule {
    /// Sign of readiness.
    pub sign: ReadinessSign,
    /// Time limit.
    pub within: Duration,
}

/// Sign that a run is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadinessSign {
    Port(String, u16),
    Http(String),
    File(PathBuf),
    Output(String),
}

/// Default path of the dataset in a container.
pub const DATASET_TARGET: &str = "/dataset";
/// Default time limit of readiness.
pub const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(60);

impl DatasetSource {
    /// Parses the source of a dataset.
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
