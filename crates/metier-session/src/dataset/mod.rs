//! Datasets: obtained and verified before the measured time starts, cached by digest, cold or warm
//! in the page cache on request.
//!
//! A local path is used in place. Every other source is fetched into the [`DatasetCacheFolder`]
//! once and found there by digest afterwards. An interrupted fetch resumes where it stopped. A
//! source without a required digest is revalidated at each use.
//!
//! Everything runs in one thread, which polls for a stop request.

mod cache;
mod error;
mod folder;
mod http;
mod obtain;
mod page_cache;
mod s3;
mod trim;

use std::cell::Cell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use metier_types::{Bytes, ContentDigest, PageCacheState, Seconds};

pub use cache::{DatasetCacheFolder, DatasetHold};
pub use error::DatasetError;
pub use obtain::obtain;
pub use trim::RemovedDatasets;

use crate::runfile::{DatasetSource, without_secrets};

/// Interval between checks for a stop request.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A dataset that is available locally.
#[derive(Debug, Clone)]
pub struct ObtainedDataset {
    pub path: PathBuf,
    /// Source of the dataset, without secrets.
    pub source: String,
    pub digest: ContentDigest,
    pub size: Bytes,
    /// Whether it was available without a fetch.
    pub was_cached: bool,
    /// Duration of the fetch.
    pub fetched_in: Option<Seconds>,
    /// Lock that keeps it in the cache while in use; `None` for a local path, which is never
    /// removed.
    pub hold: Option<DatasetHold>,
}

/// Display of the progress of a fetch.
pub trait DatasetProgress {
    /// Sets the total number of bytes.
    fn expects(&self, _all: u64) {}
    /// Adds received bytes.
    fn advanced(&self, _bytes: u64) {}
    /// Subtracts bytes that must be fetched again.
    fn back(&self, _bytes: u64) {}
    /// Shows a message to the user.
    fn note(&self, _text: &str) {}
}

pub struct SilentProgress;

impl DatasetProgress for SilentProgress {}

/// Context of a fetch: the displayed source, the progress display and the stop request.
pub struct FetchWatch<'a> {
    source: String,
    progress: &'a dyn DatasetProgress,
    is_stopped: &'a dyn Fn() -> bool,
    resumed: Cell<bool>,
    has_total: bool,
}

impl<'a> FetchWatch<'a> {
    pub fn new(
        source: &DatasetSource,
        progress: &'a dyn DatasetProgress,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            source: display_source(source),
            progress,
            is_stopped,
            resumed: Cell::new(false),
            has_total: false,
        }
    }

    fn check_stop(&self) -> Result<(), DatasetError> {
        match (self.is_stopped)() {
            true => Err(DatasetError::Interrupted { source_name: self.source.clone() }),
            false => Ok(()),
        }
    }

    /// Waits for a future until a stop is requested.
    async fn guard<T>(&self, future: impl Future<Output = T>) -> Result<T, DatasetError> {
        let mut future = pin!(future);
        loop {
            match select(future, pin!(tokio::time::sleep(STOP_POLL_INTERVAL))).await {
                Either::Left((value, _)) => return Ok(value),
                Either::Right((_, rest)) => {
                    self.check_stop()?;
                    future = rest;
                }
            }
        }
    }

    async fn wait(&self, time: Duration) -> Result<(), DatasetError> {
        self.guard(tokio::time::sleep(time)).await
    }

    fn expects(&self, here: u64, more: u64) {
        if !self.has_total {
            self.progress.expects(here + more);
        }
    }

    fn resumed(&self, here: u64) {
        if !self.resumed.replace(true) {
            self.progress.note(&format!("going on after the {} that are here already", Bytes(here)));
            if !self.has_total {
                self.progress.advanced(here);
            }
        }
    }
}

/// A source without secrets, for messages and records.
pub fn display_source(source: &DatasetSource) -> String {
    match source {
        DatasetSource::Path(path) => path.display().to_string(),
        DatasetSource::Http(address) => without_secrets(address),
        DatasetSource::S3 { bucket, key, .. } => format!("s3://{bucket}/{key}"),
    }
}

/// Brings a dataset and its companion files into a page-cache state, right before the measured time
/// starts. Returns a warning if that did not work.
pub fn prepare_page_cache(
    obtained: &ObtainedDataset,
    beside: &[PathBuf],
    state: PageCacheState,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<String>, DatasetError> {
    let watch = FetchWatch {
        source: obtained.source.clone(),
        progress: &SilentProgress,
        is_stopped,
        resumed: Cell::new(false),
        has_total: false,
    };
    let paths: Vec<&Path> = std::iter::once(&obtained.path).chain(beside).map(PathBuf::as_path).collect();
    page_cache::prepare_pages(&paths, state, &watch)
}
