//! Reads the files of a pipeline from a folder or a zip, within size limits.

use std::fs;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metier_store::atomic_file;
use zip::ZipArchive;

use crate::Error;

/// Most files of a pipeline.
pub const MAX_MEMBERS: usize = 200_000;
/// Largest file of a pipeline, unpacked.
pub const MAX_ARCHIVE_BYTES: u64 = 64 << 20;
/// Largest folder depth.
const MAX_FOLDER_DEPTH: usize = 6;

/// Where the files are.
#[derive(Debug, Clone)]
pub enum PipelineFiles {
    Folder(PathBuf),
    /// A zip file and the folder inside it.
    Zip(Arc<Path>, String),
    /// A zip in memory and the folder inside it.
    Bytes(Arc<[u8]>, String),
}

impl PipelineFiles {
    /// The files of a folder or zip below its outermost `metadata.json`.
    pub fn open(path: &Path) -> Result<(Self, Vec<String>), Error> {
        if path.is_dir() {
            let mut names = Vec::new();
            walk(path, "", 0, &mut names)?;
            names.sort_unstable();
            return Ok((Self::Folder(path.to_path_buf()), names));
        }
        let (below, names) = names_in(&mut archive(path)?, path)?;
        Ok((Self::Zip(path.into(), below), names))
    }

    /// The same for a zip in memory; `path` is used in errors.
    pub fn of_bytes(bytes: Arc<[u8]>, path: &Path) -> Result<(Self, Vec<String>), Error> {
        let (below, names) = names_in(&mut archive_of_bytes(bytes.clone(), path)?, path)?;
        Ok((Self::Bytes(bytes, below), names))
    }

    /// A reader for many files.
    pub fn reader(&self) -> Result<PipelineReader, Error> {
        Ok(match self {
            Self::Folder(folder) => PipelineReader::Folder(folder.clone()),
            Self::Zip(path, below) => {
                PipelineReader::Zip(Box::new(archive(path)?), path.clone(), below.clone())
            }
            Self::Bytes(bytes, below) => PipelineReader::Bytes(
                Box::new(archive_of_bytes(bytes.clone(), Path::new(""))?),
                below.clone(),
            ),
        })
    }

    /// The bytes of one file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        self.reader()?.read(name)
    }
}

/// Reads files of a pipeline.
pub enum PipelineReader {
    Folder(PathBuf),
    Zip(Box<ZipArchive<fs::File>>, Arc<Path>, String),
    Bytes(Box<ZipArchive<Cursor<Arc<[u8]>>>>, String),
}

impl PipelineReader {
    /// The bytes of one file.
    pub fn read(&mut self, name: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                let file = fs::File::open(&path).map_err(|error| Error::file(&path, error))?;
                bounded(file, &path)
            }
            Self::Zip(archive, path, below) => member(archive, &format!("{below}{name}"), path),
            Self::Bytes(archive, below) => member(archive, &format!("{below}{name}"), Path::new(name)),
        }
    }

    /// One file as text.
    pub fn text(&mut self, name: &str) -> Result<String, Error> {
        String::from_utf8(self.read(name)?).map_err(|_| Error::file(name, "is no UTF-8"))
    }
}

/// Writes a file atomically: completely or not at all.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    atomic_file::replace_file(path, atomic_file::PUBLIC_FILE_MODE, bytes)
        .map_err(|error| Error::file(path, error))
}

/// A member of a zip that is in memory.
pub fn read_zip_member(bytes: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    member(&mut archive, name, Path::new(name)).ok()
}

fn archive(path: &Path) -> Result<ZipArchive<fs::File>, Error> {
    archive_of(fs::File::open(path).map_err(|error| Error::file(path, error))?, path)
}

fn archive_of<R: Read + Seek>(from: R, path: &Path) -> Result<ZipArchive<R>, Error> {
    ZipArchive::new(from).map_err(|error| Error::file(path, format!("is not a readable zip: {error}")))
}

fn archive_of_bytes(bytes: Arc<[u8]>, path: &Path) -> Result<ZipArchive<Cursor<Arc<[u8]>>>, Error> {
    archive_of(Cursor::new(bytes), path)
}

/// The zip's folder with the pipeline, and the file names below it.
fn names_in<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    path: &Path,
) -> Result<(String, Vec<String>), Error> {
    if archive.len() > MAX_MEMBERS {
        return Err(Error::file(path, format!("holds {} files; want at most {MAX_MEMBERS}", archive.len())));
    }
    let mut names = Vec::with_capacity(archive.len());
    for number in 0..archive.len() {
        let member = archive.by_index_raw(number).map_err(|error| Error::file(path, error))?;
        if !member.is_dir() {
            names.push(member.name().map_err(|error| Error::file(path, error))?.to_string());
        }
    }
    let about = names.iter().filter(|name| name.rsplit('/').next() == Some("metadata.json"));
    let Some(about) = about.min_by_key(|name| name.matches('/').count()) else {
        return Err(Error::file(path, "holds no metadata.json; want a pipeline of kepler-model-db"));
    };
    let below = about.strip_suffix("metadata.json").unwrap_or_default().to_string();
    let mut names: Vec<String> =
        names.iter().filter_map(|name| name.strip_prefix(&below)).map(str::to_string).collect();
    names.sort_unstable();
    Ok((below, names))
}

fn member<R: Read + Seek>(archive: &mut ZipArchive<R>, name: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let member = archive.by_name(name).map_err(|error| Error::file(path, format!("{name}: {error}")))?;
    bounded(member, path)
}

fn bounded(from: impl Read, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    // The declared size of a zip member is not trusted; the read is limited.
    from.take(MAX_ARCHIVE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| Error::file(path, error))?;
    if bytes.len() as u64 > MAX_ARCHIVE_BYTES {
        return Err(Error::file(path, format!("has more than {MAX_ARCHIVE_BYTES} bytes")));
    }
    Ok(bytes)
}

fn walk(folder: &Path, below: &str, depth: usize, names: &mut Vec<String>) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::file(folder, error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        let name = format!("{below}{name}");
        if path.is_dir() {
            if depth < MAX_FOLDER_DEPTH {
                walk(&path, &format!("{name}/"), depth + 1, names)?;
            }
        } else {
            names.push(name);
        }
        if names.len() > MAX_MEMBERS {
            return Err(Error::file(folder, format!("holds more than {MAX_MEMBERS} files")));
        }
    }
    Ok(())
}
