//! Obtains a dataset from a path, the cache, a web server or an S3 store, and verifies its digest.

use std::fs;
use std::path::Path;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use metier_store::digest;
use metier_types::{Bytes, ContentDigest, Seconds};
use reqwest::Client;

use super::cache::{CachedSource, PartialFetch, write_whole};
use super::error::{check_free_space, file_error};
use super::folder::size_of;
use super::http::{HttpFetch, HttpFetchOutcome, HttpValidator, client};
use super::s3::{S3Bucket, S3Object};
use super::{DatasetCacheFolder, DatasetError, FetchWatch, ObtainedDataset};
use crate::runfile::{CheckedDataset, DatasetSource};

/// Objects fetched in parallel.
const MAX_PARALLEL_OBJECTS: usize = 8;

/// Obtains a dataset locally and verifies its digest.
pub fn obtain(
    dataset: &CheckedDataset,
    cache: &dyn Fn() -> Result<DatasetCacheFolder, DatasetError>,
    watch: &FetchWatch<'_>,
) -> Result<ObtainedDataset, DatasetError> {
    if let DatasetSource::Path(path) = &dataset.source {
        return use_local_path(path, dataset, watch);
    }
    let started = Instant::now();
    let cache = cache()?;
    let source = identity(&dataset.source);
    if let Some(found) = dataset.digest.and_then(|digest| cached_dataset(&cache, digest, watch)) {
        return Ok(found);
    }
    let part = cache.open_part(&source, watch)?;
    // The previous holder of the lock may have fetched it.
    if let Some(found) = dataset.digest.and_then(|digest| cached_dataset(&cache, digest, watch)) {
        return Ok(found);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|reason| DatasetError::File {
        doing: "getting ready to fetch into",
        path: part.folder.clone(),
        reason,
    })?;
    let client =
        client().map_err(|reason| DatasetError::Unreachable { source_name: watch.source.clone(), reason })?;
    let known = cache
        .cached_source(&source)
        .filter(|known| dataset.digest.is_none() && cache.find(&known.digest).is_some());
    let way = DatasetFetch { dataset, part: &part, client: &client, known: known.as_ref(), watch };
    let came = runtime.block_on(way.fetch_source())?;
    // Do not wait for connections that are still open.
    runtime.shutdown_background();
    match came {
        FetchedContent::Known(known) => {
            cached_dataset(&cache, known.digest, watch).ok_or_else(|| DatasetError::Unfit {
                source_name: watch.source.clone(),
                what: "was taken out of the cache just now".into(),
                want: "another try",
            })
        }
        FetchedContent::New(name, validator) => {
            let fetched = part.folder.join(PART_FILE_NAME);
            let digest = digest::digest_input(&fetched)?;
            if let Some(want) = dataset.digest.filter(|want| *want != digest) {
                part.clear();
                return Err(DatasetError::Mismatch { source_name: watch.source.clone(), want, got: digest });
            }
            let size = size_of(&fetched, &watch.source)?;
            let path = cache.commit_fetch(&digest, &fetched, &name, size, watch)?;
            let hold = cache.find(&digest).map(|(_, _, hold)| hold);
            if !validator.is_empty() {
                cache.record_source(&source, &CachedSource { digest, validator });
            }
            part.clear();
            let fetched_in = Some(Seconds(started.elapsed().as_secs_f64()));
            Ok(ObtainedDataset {
                path,
                source: watch.source.clone(),
                digest,
                size,
                was_cached: false,
                fetched_in,
                hold,
            })
        }
    }
}

fn cached_dataset(
    cache: &DatasetCacheFolder,
    digest: ContentDigest,
    watch: &FetchWatch<'_>,
) -> Option<ObtainedDataset> {
    let (path, size, hold) = cache.find(&digest)?;
    let (source, hold) = (watch.source.clone(), Some(hold));
    Some(ObtainedDataset { path, source, digest, size, was_cached: true, fetched_in: None, hold })
}

/// Uses a local path in place.
fn use_local_path(
    path: &Path,
    dataset: &CheckedDataset,
    watch: &FetchWatch<'_>,
) -> Result<ObtainedDataset, DatasetError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let size = size_of(&path, &watch.source)?;
    let digest = digest::digest_input(&path)?;
    if let Some(want) = dataset.digest.filter(|want| *want != digest) {
        return Err(DatasetError::Mismatch { source_name: watch.source.clone(), want, got: digest });
    }
    let source = watch.source.clone();
    Ok(ObtainedDataset { path, source, digest, size, was_cached: true, fetched_in: None, hold: None })
}

/// Key of a source, with everything that selects its content. It may contain secrets and is only
/// stored hashed.
fn identity(source: &DatasetSource) -> String {
    match source {
        DatasetSource::Path(path) => path.display().to_string(),
        DatasetSource::Http(address) => address.clone(),
        DatasetSource::S3 { bucket, key, endpoint, region } => {
            let from = |given: &Option<String>, name| {
                given.clone().or_else(|| std::env::var(name).ok()).unwrap_or_default()
            };
            format!(
                "s3://{bucket}/{key} {} {}",
                from(endpoint, "AWS_ENDPOINT_URL"),
                from(region, "AWS_REGION")
            )
        }
    }
}

/// Name of the fetched file or folder in the part folder.
const PART_FILE_NAME: &str = "data";

enum FetchedContent {
    Known(CachedSource),
    New(String, HttpValidator),
}

struct DatasetFetch<'a> {
    dataset: &'a CheckedDataset,
    part: &'a PartialFetch,
    client: &'a Client,
    known: Option<&'a CachedSource>,
    watch: &'a FetchWatch<'a>,
}

impl DatasetFetch<'_> {
    async fn fetch_source(&self) -> Result<FetchedContent, DatasetError> {
        match &self.dataset.source {
            DatasetSource::Path(path) => {
                Ok(FetchedContent::New(name_in(&path.display().to_string()), HttpValidator::default()))
            }
            DatasetSource::Http(address) => {
                let name = name_in(super::without_secrets(address).trim_end_matches('/'));
                self.fetch_object(&name, async || Ok(address.clone())).await
            }
            DatasetSource::S3 { bucket, key, endpoint, region } => {
                let bucket = S3Bucket::open(bucket, endpoint.as_deref(), region.as_deref(), self.watch)?;
                match key.is_empty() || key.ends_with('/') {
                    true => self.folder(&bucket, key).await,
                    false => {
                        self.fetch_object(&name_in(key), async || bucket.address(key, self.watch).await).await
                    }
                }
            }
        }
    }

    async fn fetch_object(
        &self,
        name: &str,
        locate: impl AsyncFn() -> Result<String, DatasetError>,
    ) -> Result<FetchedContent, DatasetError> {
        let to = self.part.folder.join(PART_FILE_NAME);
        let fetch = HttpFetch {
            to: &to,
            is_proven: self.dataset.digest.is_some(),
            known: self.known.map(|known| &known.validator),
            watch: self.watch,
        };
        Ok(match fetch.run(self.client, locate).await? {
            HttpFetchOutcome::Whole(validator) => FetchedContent::New(name.to_string(), validator),
            HttpFetchOutcome::Unchanged => match self.known {
                Some(known) => FetchedContent::Known(known.clone()),
                None => FetchedContent::New(name.to_string(), HttpValidator::default()),
            },
        })
    }

    /// Fetches all objects under a prefix. Objects from an earlier fetch of the same list are
    /// reused.
    async fn folder(&self, bucket: &S3Bucket, prefix: &str) -> Result<FetchedContent, DatasetError> {
        let objects = bucket.list(prefix, self.watch).await?;
        if objects.is_empty() {
            return Err(DatasetError::Refused {
                source_name: self.watch.source.clone(),
                reason: "there is nothing under it".into(),
                advice: "is the prefix spelt right?",
            });
        }
        let all = serde_json::to_vec(&objects).unwrap_or_default();
        let validator = HttpValidator::from_etag(digest::digest_bytes(&all).to_string());
        if let Some(known) = self.known.filter(|known| known.validator == validator) {
            return Ok(FetchedContent::Known(known.clone()));
        }
        let list = self.part.folder.join("list.json");
        let earlier: Option<Vec<S3Object>> =
            fs::read(&list).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let data = self.part.folder.join(PART_FILE_NAME);
        if earlier.as_ref() != Some(&objects) {
            let _ = fs::remove_dir_all(&data);
        }
        let making =
            |path: &Path| fs::create_dir_all(path).map_err(file_error("making", path, &self.watch.source));
        making(&data)?;
        write_whole(&list, &objects).map_err(file_error("writing", &list, &self.watch.source))?;
        let missing: Vec<(&S3Object, std::path::PathBuf)> = objects
            .iter()
            .map(|object| Ok((object, data.join(self.relative(prefix, &object.key)?))))
            .collect::<Result<Vec<_>, DatasetError>>()?
            .into_iter()
            .filter(|(object, path)| !fs::metadata(path).is_ok_and(|meta| meta.len() == object.size))
            .collect();
        let to_come: u64 = missing.iter().map(|(object, _)| object.size).sum();
        self.watch.progress.expects(to_come);
        check_free_space(to_come, &data, &self.watch.source)?;
        let each = FetchWatch {
            source: self.watch.source.clone(),
            has_total: true,
            resumed: false.into(),
            ..*self.watch
        };
        let each = &each;
        let parts = self.part.folder.join("objects");
        making(&parts)?;
        let parts = &parts;
        stream::iter(missing.iter().enumerate().map(|(index, (object, path))| async move {
            making(path.parent().unwrap_or(path))?;
            let to = parts.join(index.to_string());
            let _ = fs::remove_file(&to);
            let fetch = HttpFetch { to: &to, is_proven: false, known: None, watch: each };
            fetch.run(self.client, async || bucket.address(&object.key, each).await).await?;
            let came = fs::metadata(&to).map(|meta| meta.len()).unwrap_or(0);
            if came != object.size {
                let what = format!(
                    "has {:?}, which changed from {} to {} meanwhile",
                    object.key,
                    Bytes(object.size),
                    Bytes(came)
                );
                return Err(DatasetError::Unfit {
                    source_name: each.source.clone(),
                    what,
                    want: "objects that stay as they are",
                });
            }
            fs::rename(&to, path).map_err(file_error("moving", path, &each.source))
        }))
        .buffer_unordered(MAX_PARALLEL_OBJECTS)
        .try_collect::<Vec<()>>()
        .await?;
        Ok(FetchedContent::New(name_in(prefix.trim_end_matches('/')), validator))
    }

    /// Relative path of an object; a key that would leave the folder is an error.
    fn relative(&self, prefix: &str, key: &str) -> Result<String, DatasetError> {
        let name = key.strip_prefix(prefix).unwrap_or(key);
        let is_safe =
            name.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && part.len() < 256);
        match is_safe && !name.contains('\0') {
            true => Ok(name.to_string()),
            false => Err(DatasetError::Unfit {
                source_name: self.watch.source.clone(),
                what: format!("has the key {key:?}"),
                want: "keys that are names of files",
            }),
        }
    }
}

/// The last part of an address if it is a valid file name, else a default.
fn name_in(address: &str) -> String {
    let name = address.rsplit('/').next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    match !name.is_empty() && !name.starts_with('.') && name.len() < 200 && name.chars().all(is_name) {
        true => name.to_string(),
        false => PART_FILE_NAME.to_string(),
    }
}
