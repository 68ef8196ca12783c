//! Follows a file that an application appends to, from a place in it to its end, also when lines are written in parts.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::frame::{Form, Framer, Frames};

/// Read in one go, so that a large file does not take large memory.
const PIECE: usize = 256 * 1024;

/// A file that is followed.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    file: Option<File>,
    at: u64,
    framer: Framer,
    form: Form,
}

impl Follow {
    /// From the start of a file, which need not exist yet.
    pub fn from_start(path: PathBuf, form: Form) -> Self {
        Self { path, file: None, at: 0, framer: Framer::new(form), form }
    }

    /// From the present end of a file.
    pub fn from_end(path: PathBuf, form: Form) -> Self {
        let at = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        Self { at, ..Self::from_start(path, form) }
    }

    /// The next messages; `false` where there is nothing more for now.
    pub fn read(&mut self, frames: &mut Frames) -> io::Result<bool> {
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
            // Somebody emptied it: what comes now is new.
            self.at = 0;
            file.seek(SeekFrom::Start(0))?;
            self.framer = Framer::new(self.form);
        }
        let mut piece = vec![0; PIECE];
        let got = file.read(&mut piece)?;
        self.at += got as u64;
        self.framer.push(&piece[..got], frames);
        Ok(got == PIECE)
    }

    /// Nobody writes any more: a last line without a newline counts too.
    pub fn end(&mut self, frames: &mut Frames) {
        self.framer.end(frames);
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
        let mut follow = Follow::from_start(path.clone(), Form::Lines);
        let seen = |follow: &mut Follow| {
            let mut frames = Frames::default();
            while follow.read(&mut frames).unwrap() {}
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
        let mut frames = Frames::default();
        follow.end(&mut frames);
        assert_eq!(frames.iter().collect::<Vec<_>>(), [b"last 4"]);
        assert_eq!(seen(&mut Follow::from_end(path, Form::Lines)), [""; 0]);
    }
}
