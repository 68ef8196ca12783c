//! Zips: of one predictor, and of a whole pipeline.

use std::fs;
use std::io::{Cursor, Seek, Write};
use std::path::Path;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::Error;
use crate::pipeline::Files;

fn put<W: Write + Seek>(zip: &mut ZipWriter<W>, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let wrong = |why: String| Error::file(name, why);
    zip.start_file(name, SimpleFileOptions::default()).map_err(|error| wrong(error.to_string()))?;
    zip.write_all(bytes).map_err(|error| wrong(error.to_string()))
}

/// A zip of these files. The same files are the same bytes: no times are kept.
pub fn pack(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, Error> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        put(&mut zip, name, bytes)?;
    }
    let done = zip.finish().map_err(|error| Error::table(format!("zip: {error}")))?;
    Ok(done.into_inner())
}

/// Packs a pipeline's folder into a zip beside it, below a folder of its name; whole or not at all.
pub fn pack_file(folder: &Path, to: &Path) -> Result<(), Error> {
    let (files, names) = Files::open(folder)?;
    let mut reader = files.reader()?;
    let root = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut aside = to.as_os_str().to_owned();
    aside.push(".part");
    let aside = Path::new(&aside);
    let file = fs::File::create(aside).map_err(|error| Error::file(aside, error))?;
    let mut zip = ZipWriter::new(std::io::BufWriter::new(file));
    for name in names.iter().filter(|name| !name.ends_with(".part")) {
        put(&mut zip, &format!("{root}/{name}"), &reader.read(name)?)?;
    }
    let done = zip.finish().map_err(|error| Error::file(to, error))?;
    done.into_inner().map_err(|error| Error::file(to, error.to_string()))?;
    fs::rename(aside, to).map_err(|error| Error::file(to, error))
}
