//! Kernel text files: opened once, then read repeatedly from the start with `pread`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Largest text read from a kernel file; `memory.stat` and `/proc/stat` of large machines are
/// smaller.
const MAX_FILE_BYTES: usize = 256 * 1024;

/// A kernel file held open, so that a sample costs one system call.
#[derive(Debug)]
pub struct KernelFile {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl KernelFile {
    /// Opens a file; `None` on failure, because an absent source is not an error.
    pub fn open(path: impl Into<PathBuf>) -> Option<Self> {
        let path = path.into();
        let file = File::open(&path).ok()?;
        Some(Self { file, path, buffer: vec![0; 4096] })
    }

    pub fn read_text(&mut self) -> Option<&str> {
        let mut length = 0;
        loop {
            let got = self.file.read_at(&mut self.buffer[length..], length as u64).ok()?;
            length += got;
            if got == 0 || length < self.buffer.len() {
                break;
            }
            if self.buffer.len() >= MAX_FILE_BYTES {
                break;
            }
            let double = self.buffer.len() * 2;
            self.buffer.resize(double, 0);
        }
        std::str::from_utf8(&self.buffer[..length]).ok()
    }

    /// Parses its text as an unsigned integer.
    pub fn read_number(&mut self) -> Option<u64> {
        self.read_text()?.trim().parse().ok()
    }

    /// Parses its text as a signed integer.
    pub fn read_signed(&mut self) -> Option<i64> {
        self.read_text()?.trim().parse().ok()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Trimmed text of a small file; `None` if it is unreadable or empty.
pub fn read_text(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_string())
}

/// Number in a small file.
pub fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read_text(path)?.parse().ok()
}

/// Value of a key in lines of `key value`, as in `cpu.stat` and `memory.stat`.
pub fn keyed_value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Value in bytes of a line `key: N kB`, as in `/proc/meminfo`.
pub fn kib_field(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Total of a pressure file's `some` line, in microseconds.
pub fn pressure_micros(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_whole_words_only() {
        let text = "usage_usec 5\nuser_usec 3\nsystem_usec 2\n";
        assert_eq!(keyed_value(text, "user_usec"), Some(3));
        assert_eq!(keyed_value(text, "usec"), None);
        assert_eq!(keyed_value(text, "user"), None);
    }

    #[test]
    fn pressure_takes_the_total_of_the_some_line() {
        let text = "some avg10=0.16 avg60=0.44 avg300=0.34 total=3179361\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure_micros(text), Some(3_179_361));
        assert_eq!(pressure_micros(""), None);
    }

    #[test]
    fn a_held_file_reads_what_is_there_now_whatever_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stat");
        std::fs::write(&path, "1\n").unwrap();
        let mut held = KernelFile::open(&path).unwrap();
        assert_eq!(held.read_number(), Some(1));
        std::fs::write(&path, "x".repeat(20_000)).unwrap();
        assert_eq!(held.read_text().unwrap().len(), 20_000);
        assert!(KernelFile::open(folder.path().join("absent")).is_none());
    }
}
