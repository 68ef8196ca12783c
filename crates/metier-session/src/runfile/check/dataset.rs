//! Checks the dataset of a run.

use metier_types::PageCacheState;

use super::super::address::{is_web, without_secrets};
use super::super::checked::{CheckedDataset, DATASET_TARGET, DatasetSource};
use super::super::fault::RunFileFault;
use super::super::file::Dataset;
use super::RunFileCheck;

impl RunFileCheck {
    pub(super) fn dataset(&mut self, dataset: &Dataset, path: &str, is_here: bool) -> Option<CheckedDataset> {
        let digest = self.read(
            format!("{path}.digest"),
            dataset.digest.as_ref(),
            "sha256: and 64 digits from 0 to f",
            |text| text.to_ascii_lowercase().parse().ok(),
        );
        let page_cache =
            self.read(format!("{path}.page_cache"), dataset.page_cache.as_ref(), "cold or warm", |text| {
                match text {
                    "cold" => Some(PageCacheState::Cold),
                    "warm" => Some(PageCacheState::Warm),
                    _ => None,
                }
            });
        if let Some(target) = &dataset.target {
            if is_here {
                let want = "only for an image or a pod; a command finds it by METIER_DATASET or {dataset}";
                self.faults.push(RunFileFault::new(format!("{path}.target"), "given for a command", want));
            } else if !target.starts_with('/') || target.contains(':') {
                self.wrong(format!("{path}.target"), target, "an absolute path in the container");
            }
        }
        let source = DatasetSource::read(&dataset.source, dataset.endpoint.clone(), dataset.region.clone());
        if source.is_none() {
            let want = "a path, https://host/file, or s3://bucket/key";
            // An invalid address may still contain a password.
            self.wrong(format!("{path}.source"), &without_secrets(&dataset.source), want);
        }
        if let Some(DatasetSource::Path(path_here)) = &source
            && self.is_dry
            && std::fs::metadata(path_here).is_err()
        {
            self.wrong(format!("{path}.source"), &dataset.source, "a file or folder that is there");
        }
        let is_s3 = matches!(source, Some(DatasetSource::S3 { .. }));
        for (name, given) in [("endpoint", &dataset.endpoint), ("region", &dataset.region)] {
            if given.is_some() && !is_s3 && source.is_some() {
                self.faults.push(RunFileFault::new(
                    format!("{path}.{name}"),
                    "given for no S3 store",
                    "s3://bucket/key as the source",
                ));
            }
        }
        if let Some(endpoint) = dataset.endpoint.as_ref().filter(|endpoint| !is_web(endpoint)) {
            let want = "an address such as https://s3.example.org";
            self.wrong(format!("{path}.endpoint"), &without_secrets(endpoint), want);
        }
        Some(CheckedDataset {
            source: source?,
            digest,
            target: dataset.target.clone().unwrap_or_else(|| DATASET_TARGET.to_string()),
            page_cache: page_cache.unwrap_or(PageCacheState::Untouched),
        })
    }
}
