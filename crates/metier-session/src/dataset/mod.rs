//! Datasets: had before the clock starts, verified, kept by digest, cold or warm as was asked for.
//!
//! A path is used where it lies; everything else is fetched into the [`DatasetCacheFolder`] once, by whoever comes first, and found
//! there by its digest ever after. What was fetched before a break goes on where it stopped. A source without a wanted digest
//! is asked each time whether it is still the same.
//!
//! One thread does it all, with an ear open for the wish to stop.

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

/// How often the wish to stop is looked for.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A dataset that is here.
#[derive(Debug, Clone)]
pub struct ObtainedDataset {
    pub path: PathBuf,
    /// Where it came from, without secrets.
    pub source: String,
    pub digest: ContentDigest,
    pub size: Bytes,
    /// Whether it was here already.
    pub was_cached: bool,
    /// How long fetching it took.
    pub fetched_in: Option<Seconds>,
    /// Keeps it in the cache for as long as somebody works on it; a path is nobody's to remove.
    pub hold: Option<DatasetHold>,
}

/// Whoever shows how far fetching has come.
pub trait DatasetProgress {
    /// So many bytes are still to come, of so many in all.
    fn expects(&self, _all: u64) {}
    /// So many more are here.
    fn advanced(&self, _bytes: u64) {}
    /// So many have to be fetched again.
    fn back(&self, _bytes: u64) {}
    /// Something that people should know.
    fn note(&self, _text: &str) {}
}

pub struct SilentProgress;

impl DatasetProgress for SilentProgress {}

/// What accompanies the way of a dataset: its name, who shows progress, and who may stop it.
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

    /// Waits for something, but not longer than somebody wants us to.
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

/// A source as it may be shown and kept.
pub fn display_source(source: &DatasetSource) -> String {
    match source {
        DatasetSource::Path(path) => path.display().to_string(),
        DatasetSource::Http(address) => without_secrets(address),
        DatasetSource::S3 { bucket, key, .. } => format!("s3://{bucket}/{key}"),
    }
}

/// Brings the page cache into the wanted state for a dataset and the files that belong to it, right before the clock starts; gives a warning where that did not work.
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
