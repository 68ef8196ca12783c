//! Sends the artefacts of a run in a pod while the launcher keeps the container alive: its files,
//! and the application's messages.
//!
//! Started in the run's container as `metier-launch --fetch EARS FILES BYTES PATTERN…`. EARS is the
//! folder of [`crate::listen_to_app`], or `-`. At most FILES files with BYTES together are sent.
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

use crate::app_listener::{CONTROL_SOCKET, MESSAGE_FILE, PYWAGGLE_FOLDER};
use crate::find::find_files;
use crate::{stream_frame, sys};

/// Timeout for the listener to drain its input.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the peer's confirmation.
const ANSWER_TIMEOUT_MS: i32 = 60_000;
/// Pid of the launcher in its container.
const LAUNCHER_PID: i32 = 1;
/// Largest size of one file of application messages.
const MAX_SENT_MESSAGE_BYTES: u64 = 128 << 20;

/// Sends all artefacts; returns the exit code.
pub fn send_artefacts(arguments: &[&CStr]) -> i32 {
    let number = |at: usize| {
        arguments.get(at).and_then(|a: &&CStr| a.to_str().ok()).and_then(|t| t.parse::<u64>().ok())
    };
    let (Some(ears), Some(files), Some(bytes)) = (arguments.get(2), number(3), number(4)) else { return 125 };
    let patterns: Vec<&str> = arguments[5..].iter().filter_map(|text| text.to_str().ok()).collect();
    let mut hand =
        ArtefactSender { out: BufWriter::new(io::stdout().lock()), files, bytes, holder: find_launcher() };
    let ears = (*ears != c"-").then(|| PathBuf::from(OsStr::from_bytes(ears.to_bytes())));
    if hand.send_all(ears.as_deref(), &patterns).is_err() {
        return 1;
    }
    // A peer that disconnects without confirmation may retry.
    if sys::wait_ready(0, -1, ANSWER_TIMEOUT_MS).control && matches!(io::stdin().read(&mut [0]), Ok(1)) {
        hand.signal_launcher(sys::SIGTERM);
    }
    0
}

struct ArtefactSender<W: Write> {
    out: W,
    files: u64,
    bytes: u64,
    /// Pid of the launcher that keeps the container alive.
    holder: Option<i32>,
}

impl<W: Write> ArtefactSender<W> {
    fn send_all(&mut self, ears: Option<&Path>, patterns: &[&str]) -> io::Result<()> {
        if let Some(folder) = ears {
            wait_for_listener(folder);
        }
        // Flushed at once, so that the peer can compare it with its own clock.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        self.send_frame(b'T', &now.to_string())?;
        self.out.flush()?;
        if let Some(folder) = ears {
            for (name, path) in [
                (MESSAGE_FILE, folder.join(MESSAGE_FILE)),
                (PYWAGGLE_FOLDER, folder.join(PYWAGGLE_FOLDER).join("data.ndjson")),
            ] {
                if path.is_file() {
                    let mut room = MAX_SENT_MESSAGE_BYTES;
                    self.send_file(b'A', name, &path, &mut room)?;
                }
            }
        }
        let base = std::env::current_dir().unwrap_or_else(|_| "/".into());
        for pattern in patterns {
            let found = find_files(&base, pattern);
            if found.is_empty() {
                self.send_frame(b'M', pattern)?;
            }
            for (name, path) in found {
                if self.files == 0 || self.bytes == 0 {
                    self.send_frame(b'L', &name)?;
                    continue;
                }
                self.files -= 1;
                let mut room = self.bytes;
                self.send_file(b'N', &name, &path, &mut room)?;
                self.bytes = room;
            }
        }
        self.send_frame(b'Z', "")?;
        self.out.flush()
    }

    fn send_file(&mut self, kind: u8, name: &str, path: &Path, room: &mut u64) -> io::Result<()> {
        self.send_frame(kind, name)?;
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return self.send_frame(b'E', &format!("could not be read: {error}")),
        };
        let mut buffer = vec![0; stream_frame::MAX_FRAME_BYTES];
        loop {
            // Reports progress to the launcher, which extends its timeout.
            self.signal_launcher(sys::SIGHUP);
            match file.read(&mut buffer) {
                Ok(0) => return self.send_frame(b'E', ""),
                Ok(length) if length as u64 > *room => {
                    *room = 0;
                    return self.send_frame(b'E', "is larger than the limit");
                }
                Ok(length) => {
                    *room -= length as u64;
                    stream_frame::write_frame(&mut self.out, b'D', &buffer[..length])?;
                }
                Err(error) => return self.send_frame(b'E', &format!("could not be read: {error}")),
            }
        }
    }

    fn signal_launcher(&self, signal: i32) {
        if let Some(holder) = self.holder {
            sys::kill(holder, signal);
        }
    }

    fn send_frame(&mut self, kind: u8, text: &str) -> io::Result<()> {
        let mut end = text.len().min(stream_frame::MAX_FRAME_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        stream_frame::write_frame(&mut self.out, kind, &text.as_bytes()[..end])
    }
}

/// Pid of the container's first process, if that is the launcher.
fn find_launcher() -> Option<i32> {
    let name = std::fs::read_to_string(format!("/proc/{LAUNCHER_PID}/comm")).ok()?;
    (name.trim() == "metier-launch").then_some(LAUNCHER_PID)
}

/// Waits until the listener has stored all pending messages.
fn wait_for_listener(folder: &Path) {
    let Ok(mut stream) = UnixStream::connect(folder.join(CONTROL_SOCKET)) else { return };
    let _ = stream.set_read_timeout(Some(LISTENER_TIMEOUT));
    let _ = stream.read(&mut [0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Vec<(char, String)> {
        let (mut rest, mut content, mut all) = (bytes, Vec::new(), Vec::new());
        while let Ok(kind) = stream_frame::read_frame(&mut rest, &mut content) {
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
        let mut hand = ArtefactSender { out: Vec::new(), files: 2, bytes: 8, holder: None };
        hand.send_all(None, &[&pattern, "/none/*"]).unwrap();
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
