//! Follows a file that an application appends to. Lines may be written in several parts.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::message_framer::{FrameFormat, MessageFramer, MessageFrames};

/// Bytes per read; bounds the memory used for a large file.
const READ_BYTES: usize = 256 * 1024;

/// A followed file and the read position in it.
#[derive(Debug)]
pub struct FileFollower {
    path: PathBuf,
    file: Option<File>,
    at: u64,
    framer: MessageFramer,
    form: FrameFormat,
}

impl FileFollower {
    /// Follows a file from its start; the file need not exist yet.
    pub fn from_start(path: PathBuf, form: FrameFormat) -> Self {
        Self { path, file: None, at: 0, framer: MessageFramer::new(form), form }
    }

    /// Follows a file from its present end.
    pub fn from_end(path: PathBuf, form: FrameFormat) -> Self {
        let at = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        Self { at, ..Self::from_start(path, form) }
    }

    /// Reads the next messages; `false` if there are no more for now.
    pub fn read_messages(&mut self, frames: &mut MessageFrames) -> io::Result<bool> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(mut file) => {
                    file.seek(SeekFrom::Start(self.at))?;
                    self.file = Some(file);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        if file.metadata()?.len() < self.at {
            // The file was truncated: all its content is new.
            self.at = 0;
            file.seek(SeekFrom::Start(0))?;
            self.framer = MessageFramer::new(self.form);
        }
        let mut piece = vec![0; READ_BYTES];
        let got = file.read(&mut piece)?;
        self.at += got as u64;
        self.framer.push(&piece[..got], frames);
        Ok(got == READ_BYTES)
    }

    /// All writers are gone: also accepts a last line without a newline.
    pub fn finish(&mut self, frames: &mut MessageFrames) {
        self.framer.finish(frames);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_in_parts_a_late_file_and_an_emptied_one_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.ndjson");
        let mut follow = FileFollower::from_start(path.clone(), FrameFormat::Lines);
        let seen = |follow: &mut FileFollower| {
            let mut frames = MessageFrames::default();
            while follow.read_messages(&mut frames).unwrap() {}
            frames.iter().map(|m| String::from_utf8_lossy(m).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(seen(&mut follow), [""; 0]);
        let mut file = File::create(&path).unwrap();
        write!(file, "one 1\ntw").unwrap();
        assert_eq!(seen(&mut follow), ["one 1"]);
        writeln!(file, "o 2").unwrap();
        assert_eq!(seen(&mut follow), ["two 2"]);
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        write!(file, "3 3\nlast 4").unwrap();
        assert_eq!(seen(&mut follow), ["3 3"]);
        let mut frames = MessageFrames::default();
        follow.finish(&mut frames);
        assert_eq!(frames.iter().collect::<Vec<_>>(), [b"last 4"]);
        assert_eq!(seen(&mut FileFollower::from_end(path, FrameFormat::Lines)), [""; 0]);
    }
}
