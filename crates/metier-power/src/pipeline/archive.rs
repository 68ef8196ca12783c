//! Zip archives of a predictor, and of a whole pipeline.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Cursor, Seek, Write};
use std::path::Path;
use std::rc::Rc;

use metier_store::atomic_file::{self, AtomicFile};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{PipelineFiles, PipelineReader};
use crate::Error;

fn put<W: Write + Seek>(zip: &mut ZipWriter<W>, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let wrong = |why: String| Error::file(name, why);
    zip.start_file(name, SimpleFileOptions::default()).map_err(|error| wrong(error.to_string()))?;
    zip.write_all(bytes).map_err(|error| wrong(error.to_string()))
}

/// Packs files into a zip. Times are not stored, so equal files give equal bytes.
pub fn pack(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, Error> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        put(&mut zip, name, bytes)?;
    }
    let done = zip.finish().map_err(|error| Error::table(format!("zip: {error}")))?;
    Ok(done.into_inner())
}

/// Packs a pipeline's folder into a zip, below a top folder of its name. Writes the whole file or
/// nothing.
pub fn pack_file(folder: &Path, to: &Path) -> Result<(), Error> {
    let (files, names) = PipelineFiles::open(folder)?;
    let mut reader = files.reader()?;
    let root = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let failed = |error: io::Error| Error::file(to, error);
    let file = AtomicFile::create(to, atomic_file::PUBLIC_FILE_MODE).map_err(failed)?;
    pack_to(&mut reader, &names, &root, file.file(), to)?;
    file.persist().map_err(failed)
}

fn pack_to(
    reader: &mut PipelineReader,
    names: &[String],
    root: &str,
    file: &fs::File,
    to: &Path,
) -> Result<(), Error> {
    let trouble = Rc::new(RefCell::new(None));
    let wrong = || trouble.borrow_mut().take().map_or(Ok(()), |error: io::Error| Err(Error::file(to, error)));
    let mut zip =
        ZipWriter::new(DeferredErrorFile { file: io::BufWriter::new(file), trouble: trouble.clone() });
    for name in names.iter().filter(|name| !name.ends_with(".part")) {
        put(&mut zip, &format!("{root}/{name}"), &reader.read(name)?)?;
        wrong()?;
    }
    let mut done = zip.finish().map_err(|error| Error::file(to, error))?;
    let _ = done.flush();
    wrong()
}

/// A writer that accepts all bytes and stores the first error. The zip library writes again on drop
/// after a failed write, and would print the second error to stderr.
struct DeferredErrorFile<'a> {
    file: io::BufWriter<&'a fs::File>,
    trouble: Rc<RefCell<Option<io::Error>>>,
}

impl DeferredErrorFile<'_> {
    fn defer_error<T>(&self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        Ok(done.unwrap_or_else(|error| {
            self.trouble.borrow_mut().get_or_insert(error);
            otherwise
        }))
    }
}

impl Write for DeferredErrorFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.file.write(bytes);
        self.defer_error(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.file.flush();
        self.defer_error(done, ())
    }
}

impl Seek for DeferredErrorFile<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let done = self.file.seek(to);
        self.defer_error(done, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_once_and_by_the_file_that_was_written() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("mine");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.json"), vec![b'1'; 1 << 20]).unwrap();
        let (files, names) = PipelineFiles::open(&folder).unwrap();
        let full = Path::new("/dev/full");
        let mut reader = files.reader().unwrap();
        let device = fs::OpenOptions::new().write(true).open(full).unwrap();
        let error = pack_to(&mut reader, &names, "mine", &device, full).unwrap_err().to_string();
        assert!(error.starts_with("/dev/full: No space left"), "{error}");
    }

    #[test]
    fn several_pack_the_same_folder_at_once() {
        let root = tempfile::tempdir().unwrap();
        let (folder, zip) = (root.path().join("mine"), root.path().join("mine.zip"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.json"), vec![b'1'; 1 << 20]).unwrap();
        let pack = || (0..20).for_each(|_| pack_file(&folder, &zip).unwrap());
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(pack))));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "nothing is left over");
    }
}
