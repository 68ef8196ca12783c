//! Having a dataset, wherever it is.

use std::fs;
use std::path::Path;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use metier_store::digest;
use metier_types::{Bytes, Digest, Seconds};
use reqwest::Client;

use super::cache::{Known, Part, write_whole};
use super::error::{at, room_for};
use super::folder::size_of;
use super::http::{Fetch, Fetched, Validator, client};
use super::s3::{Bucket, Object};
use super::{Cache, Error, Obtained, Watch};
use crate::runfile::{Source, Wanted};

/// Objects that are fetched at the same time.
const AT_ONCE: usize = 8;

/// Makes a dataset be here, and be what was wanted.
pub fn obtain(
    wanted: &Wanted,
    cache: &dyn Fn() -> Result<Cache, Error>,
    watch: &Watch<'_>,
) -> Result<Obtained, Error> {
    if let Source::Path(path) = &wanted.source {
        return lies_here(path, wanted, watch);
    }
    let started = Instant::now();
    let cache = cache()?;
    let source = identity(&wanted.source);
    if let Some(found) = wanted.digest.and_then(|digest| found(&cache, digest, watch)) {
        return Ok(found);
    }
    let part = cache.part(&source, watch)?;
    // Whoever had the lock before us may have fetched it.
    if let Some(found) = wanted.digest.and_then(|digest| found(&cache, digest, watch)) {
        return Ok(found);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|reason| Error::File {
        doing: "getting ready to fetch into",
        path: part.folder.clone(),
        reason,
    })?;
    let client =
        client().map_err(|reason| Error::Unreachable { source_name: watch.source.clone(), reason })?;
    let known =
        cache.known(&source).filter(|known| wanted.digest.is_none() && cache.find(&known.digest).is_some());
    let way = Way { wanted, part: &part, client: &client, known: known.as_ref(), watch };
    let came = runtime.block_on(way.go())?;
    // Connections that are still open are of no use any more, and need not be waited for.
    runtime.shutdown_background();
    match came {
        Came::Known(known) => found(&cache, known.digest, watch).ok_or_else(|| Error::Unfit {
            source_name: watch.source.clone(),
            what: "was taken out of the cache just now".into(),
            want: "another try",
        }),
        Came::New(name, validator) => {
            let fetched = part.folder.join(DATA);
            let digest = digest::of_input(&fetched)?;
            if let Some(want) = wanted.digest.filter(|want| *want != digest) {
                part.clear();
                return Err(Error::Mismatch { source_name: watch.source.clone(), want, got: digest });
            }
            let size = size_of(&fetched, &watch.source)?;
            let path = cache.take(&digest, &fetched, &name, size, watch)?;
            let hold = cache.find(&digest).map(|(_, _, hold)| hold);
            if !validator.is_empty() {
                cache.remember(&source, &Known { digest, validator });
            }
            part.clear();
            let fetched_in = Some(Seconds(started.elapsed().as_secs_f64()));
            Ok(Obtained {
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

fn found(cache: &Cache, digest: Digest, watch: &Watch<'_>) -> Option<Obtained> {
    let (path, size, hold) = cache.find(&digest)?;
    let (source, hold) = (watch.source.clone(), Some(hold));
    Some(Obtained { path, source, digest, size, was_cached: true, fetched_in: None, hold })
}

/// A path is used where it lies.
fn lies_here(path: &Path, wanted: &Wanted, watch: &Watch<'_>) -> Result<Obtained, Error> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let size = size_of(&path, &watch.source)?;
    let digest = digest::of_input(&path)?;
    if let Some(want) = wanted.digest.filter(|want| *want != digest) {
        return Err(Error::Mismatch { source_name: watch.source.clone(), want, got: digest });
    }
    let source = watch.source.clone();
    Ok(Obtained { path, source, digest, size, was_cached: true, fetched_in: None, hold: None })
}

/// What tells sources apart; with everything that decides what one gets, and never written down.
fn identity(source: &Source) -> String {
    match source {
        Source::Path(path) => path.display().to_string(),
        Source::Http(address) => address.clone(),
        Source::S3 { bucket, key, endpoint, region } => {
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

/// The name of what is being fetched, in its part.
const DATA: &str = "data";

enum Came {
    Known(Known),
    New(String, Validator),
}

struct Way<'a> {
    wanted: &'a Wanted,
    part: &'a Part,
    client: &'a Client,
    known: Option<&'a Known>,
    watch: &'a Watch<'a>,
}

impl Way<'_> {
    async fn go(&self) -> Result<Came, Error> {
        match &self.wanted.source {
            Source::Path(path) => Ok(Came::New(name_in(&path.display().to_string()), Validator::default())),
            Source::Http(address) => {
                let name = name_in(super::without_secrets(address).trim_end_matches('/'));
                self.one(&name, async || Ok(address.clone())).await
            }
            Source::S3 { bucket, key, endpoint, region } => {
                let bucket = Bucket::open(bucket, endpoint.as_deref(), region.as_deref(), self.watch)?;
                match key.is_empty() || key.ends_with('/') {
                    true => self.folder(&bucket, key).await,
                    false => self.one(&name_in(key), async || bucket.address(key, self.watch).await).await,
                }
            }
        }
    }

    async fn one(&self, name: &str, locate: impl AsyncFn() -> Result<String, Error>) -> Result<Came, Error> {
        let to = self.part.folder.join(DATA);
        let fetch = Fetch {
            to: &to,
            is_proven: self.wanted.digest.is_some(),
            known: self.known.map(|known| &known.validator),
            watch: self.watch,
        };
        Ok(match fetch.run(self.client, locate).await? {
            Fetched::Whole(validator) => Came::New(name.to_string(), validator),
            Fetched::Unchanged => match self.known {
                Some(known) => Came::Known(known.clone()),
                None => Came::New(name.to_string(), Validator::default()),
            },
        })
    }

    /// Everything under a prefix. What is there from an earlier fetch of the same list is kept.
    async fn folder(&self, bucket: &Bucket, prefix: &str) -> Result<Came, Error> {
        let objects = bucket.list(prefix, self.watch).await?;
        if objects.is_empty() {
            return Err(Error::Refused {
                source_name: self.watch.source.clone(),
                reason: "there is nothing under it".into(),
                advice: "is the prefix spelt right?",
            });
        }
        let all = serde_json::to_vec(&objects).unwrap_or_default();
        let validator = Validator::from_etag(digest::of_bytes(&all).to_string());
        if let Some(known) = self.known.filter(|known| known.validator == validator) {
            return Ok(Came::Known(known.clone()));
        }
        let list = self.part.folder.join("list.json");
        let earlier: Option<Vec<Object>> =
            fs::read(&list).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let data = self.part.folder.join(DATA);
        if earlier.as_ref() != Some(&objects) {
            let _ = fs::remove_dir_all(&data);
        }
        let making = |path: &Path| fs::create_dir_all(path).map_err(at("making", path, &self.watch.source));
        making(&data)?;
        write_whole(&list, &objects).map_err(at("writing", &list, &self.watch.source))?;
        let missing: Vec<(&Object, std::path::PathBuf)> = objects
            .iter()
            .map(|object| Ok((object, data.join(self.relative(prefix, &object.key)?))))
            .collect::<Result<Vec<_>, Error>>()?
            .into_iter()
            .filter(|(object, path)| !fs::metadata(path).is_ok_and(|meta| meta.len() == object.size))
            .collect();
        let to_come: u64 = missing.iter().map(|(object, _)| object.size).sum();
        self.watch.progress.expects(to_come);
        room_for(to_come, &data, &self.watch.source)?;
        let each = Watch {
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
            let fetch = Fetch { to: &to, is_proven: false, known: None, watch: each };
            fetch.run(self.client, async || bucket.address(&object.key, each).await).await?;
            let came = fs::metadata(&to).map(|meta| meta.len()).unwrap_or(0);
            if came != object.size {
                let what = format!(
                    "has {:?}, which changed from {} to {} meanwhile",
                    object.key,
                    Bytes(object.size),
                    Bytes(came)
                );
                return Err(Error::Unfit {
                    source_name: each.source.clone(),
                    what,
                    want: "objects that stay as they are",
                });
            }
            fs::rename(&to, path).map_err(at("moving", path, &each.source))
        }))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
        Ok(Came::New(name_in(prefix.trim_end_matches('/')), validator))
    }

    /// The path of an object in the folder; never out of it.
    fn relative(&self, prefix: &str, key: &str) -> Result<String, Error> {
        let name = key.strip_prefix(prefix).unwrap_or(key);
        let is_safe =
            name.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && part.len() < 256);
        match is_safe && !name.contains('\0') {
            true => Ok(name.to_string()),
            false => Err(Error::Unfit {
                source_name: self.watch.source.clone(),
                what: format!("has the key {key:?}"),
                want: "keys that are names of files",
            }),
        }
    }
}

/// The last part of an address, if it can be the name of a file.
fn name_in(address: &str) -> String {
    let name = address.rsplit('/').next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    match !name.is_empty() && !name.starts_with('.') && name.len() < 200 && name.chars().all(is_name) {
        true => name.to_string(),
        false => DATA.to_string(),
    }
}
