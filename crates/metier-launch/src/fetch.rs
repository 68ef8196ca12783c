//! Sends the artefacts of a run in a pod while the launcher keeps the container alive: its files,
//! and the application's messages.
//!
//! Started in the run's container as `metier-launch --fetch EARS FILES BYTES PATTERN…`. EARS is the
//! folder of [`crate::ears`], or `-`. At most FILES files with BYTES together are sent.
//!
//! Frames on the standard output:
//!
//! - `T` the time in the container, in nanoseconds since 1970
//! - `A` start of a file of application messages, by name
//! - `N` start of a file of the run, by the path in the container
//! - `D` bytes of either
//! - `E` end of the file, with a reason if it is incomplete
//! - `M` a pattern without a match
//! - `L` a file skipped because a limit was reached
//! - `Z` the end
//!
//! Then the peer confirms with a byte `B`, and the launcher is signalled to end. Before that, an
//! interrupted transfer can be repeated.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ears::{CONTROL, HEARD, LOG};
use crate::find::find;
use crate::{frame, sys};

/// Timeout for the listener to drain its input.
const EARS_WITHIN: Duration = Duration::from_secs(10);
/// Timeout for the peer's confirmation.
const ANSWER_WITHIN_MS: i32 = 60_000;
/// Pid of the launcher in its container.
const HOLDER: i32 = 1;
/// Largest size of one file of application messages.
const SAID_BYTES: u64 = 128 << 20;

/// Sends all artefacts; returns the exit code.
pub fn fetch(arguments: &[&CStr]) -> i32 {
    let number = |at: usize| {
        arguments.get(at).and_then(|a: &&CStr| a.to_str().ok()).and_then(|t| t.parse::<u64>().ok())
    };
    let (Some(ears), Some(files), Some(bytes)) = (arguments.get(2), number(3), number(4)) else { return 125 };
    let patterns: Vec<&str> = arguments[5..].iter().filter_map(|text| text.to_str().ok()).collect();
    let mut hand = Hand { out: BufWriter::new(io::stdout().lock()), files, bytes, holder: holder() };
    let ears = (*ears != c"-").then(|| PathBuf::from(OsStr::from_bytes(ears.to_bytes())));
    if hand.all(ears.as_deref(), &patterns).is_err() {
        return 1;
    }
    // A peer that disconnects without confirmation may retry.
    if sys::wait(0, -1, ANSWER_WITHIN_MS).control && matches!(io::stdin().read(&mut [0]), Ok(1)) {
        hand.tell(sys::SIGTERM);
    }
    0
}

struct Hand<W: Write> {
    out: W,
    files: u64,
    bytes: u64,
    /// Pid of the launcher that keeps the container alive.
    holder: Option<i32>,
}

impl<W: Write> Hand<W> {
    fn all(&mut self, ears: Option<&Path>, patterns: &[&str]) -> io::Result<()> {
        if let Some(folder) = ears {
            settle(folder);
        }
        // Flushed at once, so that the peer can compare it with its own clock.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        self.say(b'T', &now.to_string())?;
        self.out.flush()?;
        if let Some(folder) = ears {
            for (name, path) in [(HEARD, folder.join(HEARD)), (LOG, folder.join(LOG).join("data.ndjson"))] {
                if path.is_file() {
                    let mut room = SAID_BYTES;
                    self.file(b'A', name, &path, &mut room)?;
                }
            }
        }
        let base = std::env::current_dir().unwrap_or_else(|_| "/".into());
        for pattern in patterns {
            let found = find(&base, pattern);
            if found.is_empty() {
                self.say(b'M', pattern)?;
            }
            for (name, path) in found {
                if self.files == 0 || self.bytes == 0 {
                    self.say(b'L', &name)?;
                    continue;
                }
                self.files -= 1;
                let mut room = self.bytes;
                self.file(b'N', &name, &path, &mut room)?;
                self.bytes = room;
            }
        }
        self.say(b'Z', "")?;
        self.out.flush()
    }

    fn file(&mut self, kind: u8, name: &str, path: &Path, room: &mut u64) -> io::Result<()> {
        self.say(kind, name)?;
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return self.say(b'E', &format!("could not be read: {error}")),
        };
        let mut buffer = vec![0; frame::LONGEST];
        loop {
            // Reports progress to the launcher, which extends its timeout.
            self.tell(sys::SIGHUP);
            match file.read(&mut buffer) {
                Ok(0) => return self.say(b'E', ""),
                Ok(length) if length as u64 > *room => {
                    *room = 0;
                    return self.say(b'E', "is larger than the limit");
                }
                Ok(length) => {
                    *room -= length as u64;
                    frame::write(&mut self.out, b'D', &buffer[..length])?;
                }
                Err(error) => return self.say(b'E', &format!("could not be read: {error}")),
            }
        }
    }

    fn tell(&self, signal: i32) {
        if let Some(holder) = self.holder {
            sys::kill(holder, signal);
        }
    }

    fn say(&mut self, kind: u8, text: &str) -> io::Result<()> {
        let mut end = text.len().min(frame::LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        frame::write(&mut self.out, kind, &text.as_bytes()[..end])
    }
}

/// Pid of the container's first process, if that is the launcher.
fn holder() -> Option<i32> {
    let name = std::fs::read_to_string(format!("/proc/{HOLDER}/comm")).ok()?;
    (name.trim() == "metier-launch").then_some(HOLDER)
}

/// Waits until the listener has stored all pending messages.
fn settle(folder: &Path) {
    let Ok(mut stream) = UnixStream::connect(folder.join(CONTROL)) else { return };
    let _ = stream.set_read_timeout(Some(EARS_WITHIN));
    let _ = stream.read(&mut [0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Vec<(char, String)> {
        let (mut rest, mut content, mut all) = (bytes, Vec::new(), Vec::new());
        while let Ok(kind) = frame::read(&mut rest, &mut content) {
            all.push((kind as char, String::from_utf8(content.clone()).unwrap()));
        }
        all
    }

    #[test]
    fn files_are_handed_out_within_bounds_and_what_is_not_is_said() {
        let folder = std::env::temp_dir().join(format!("metier-fetch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, size) in [("a.csv", 3), ("b.csv", 9), ("c.csv", 1)] {
            std::fs::write(folder.join(name), "x".repeat(size)).unwrap();
        }
        let pattern = format!("{}/*.csv", folder.display());
        let mut hand = Hand { out: Vec::new(), files: 2, bytes: 8, holder: None };
        hand.all(None, &[&pattern, "/none/*"]).unwrap();
        let mut all = frames(&hand.out);
        let (kind, now) = all.remove(0);
        assert!(kind == 'T' && now.parse::<u64>().unwrap() > 1_700_000_000_000_000_000, "{kind} {now}");
        let kinds: String = all.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, "NDENELMZ", "{all:?}");
        assert_eq!(all[1].1, "xxx");
        assert!(all[4].1.contains("larger"), "{all:?}");
        assert_eq!(all[6].1, "/none/*");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
