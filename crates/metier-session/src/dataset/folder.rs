//! Lists the files of a dataset, which is a file or a folder.

use std::fs;
use std::path::{Path, PathBuf};

use metier_types::Bytes;

use super::DatasetError;

/// Most files of one dataset.
const MAX_FILES: usize = 100_000;

/// The file itself, or all files below the folder, in no particular order.
pub fn files_of(path: &Path, source: &str) -> Result<Vec<PathBuf>, DatasetError> {
    let read = |path: &Path| {
        let path = path.to_path_buf();
        move |reason| DatasetError::File { doing: "reading the dataset", path, reason }
    };
    let meta = fs::metadata(path).map_err(read(path))?;
    if meta.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    if !meta.is_dir() {
        let what = "is neither a file nor a folder".to_string();
        return Err(DatasetError::Unfit {
            source_name: source.to_string(),
            what,
            want: "a file, or a folder of files",
        });
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(read(&folder))? {
            let path = entry.map_err(read(&folder))?.path();
            let meta = fs::symlink_metadata(&path).map_err(read(&path))?;
            match meta.is_dir() {
                true => folders.push(path),
                // Links to folders are not followed, so that cycles are impossible.
                false if fs::metadata(&path).is_ok_and(|meta| meta.is_file()) => files.push(path),
                false => {
                    let what = format!("has {}, which is neither a file nor a folder", path.display());
                    return Err(DatasetError::Unfit {
                        source_name: source.to_string(),
                        what,
                        want: "files and folders only",
                    });
                }
            }
        }
        if files.len() > MAX_FILES {
            let what = format!("has more than {MAX_FILES} files");
            return Err(DatasetError::Unfit {
                source_name: source.to_string(),
                what,
                want: "an archive of them",
            });
        }
    }
    Ok(files)
}

/// Total size of a file or folder.
pub fn size_of(path: &Path, source: &str) -> Result<Bytes, DatasetError> {
    let files = files_of(path, source)?;
    Ok(Bytes(files.iter().filter_map(|file| fs::metadata(file).ok()).map(|meta| meta.len()).sum()))
}
