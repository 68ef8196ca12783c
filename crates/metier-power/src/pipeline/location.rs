//! The location of a pipeline: a folder, a zip, or an address.

use std::path::{Path, PathBuf};

use super::PipelineDownload;
use crate::Error;

/// Location of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipelineLocation {
    /// A folder or zip of a pipeline, or a folder of several.
    Path(PathBuf),
    /// The address of a zip.
    Address(PipelineDownload),
}

impl PipelineLocation {
    /// Parses `PATH`, `file://PATH` or `http(s)://…`; downloads go below the folder.
    pub fn read(text: &str, folder: &Path) -> Result<Self, Error> {
        match text.split_once("://") {
            Some(("file", path)) if path.starts_with('/') => Ok(Self::Path(path.into())),
            Some(_) => PipelineDownload::new(text, folder).map(Self::Address),
            None => Ok(Self::Path(text.into())),
        }
    }

    /// The local path, if it is available.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Address(download) => download.downloaded_file(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_path_and_an_address_is_kept_by_its_digest() {
        let read = |text: &str| PipelineLocation::read(text, Path::new("/downloads"));
        assert_eq!(read("a/b.zip").unwrap(), PipelineLocation::Path("a/b.zip".into()));
        assert_eq!(read("file:///a/b.zip").unwrap(), PipelineLocation::Path("/a/b.zip".into()));
        for wrong in ["ftp://x/y.zip", "file://x", "http://", "https:// /x"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("http(s)://"), "{wrong}: {error}");
        }
        let location = read("https://user:secret@host/models/ec2-0.7.11.zip?key=secret").unwrap();
        let PipelineLocation::Address(download) = &location else { panic!("{location:?}") };
        assert_eq!(download.display_address(), "https://host/models/ec2-0.7.11.zip");
        assert_eq!(location.path(), None);
        assert_ne!(location, read("https://other/models/ec2-0.7.11.zip").unwrap());
    }
}
