//! Receives a dataset in a pod's init container, which runs before the run's container.
//!
//! The init container's first process is `metier-launch --until FILE LIMIT_MS`, which succeeds when
//! the file exists. In the same container `metier-launch --take TARGET DONE PAGES` reads frames
//! from its standard input: `F` a file (four bytes of mode, then its path below TARGET; an empty
//! path means that TARGET is the file), `D` its bytes, `E` its SHA-256, `Z` the end. Then DONE is
//! created and `ok` is written to the standard output, or the error. PAGES is `cold` if no page of
//! the dataset may stay in memory.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::sha256::Sha256Hasher;
use crate::{stream_frame, sys};

/// Interval between checks for the file.
const POLL_INTERVAL_MS: i32 = 20;

/// Waits until a file exists. Returns 0, or 1 after the limit or a signal.
pub fn wait_for_file(arguments: &[&CStr]) -> i32 {
    let [_, _, file, limit] = arguments else { return 125 };
    let Some(limit_ms) = limit.to_str().ok().and_then(|text| text.parse::<u64>().ok()) else { return 125 };
    let path = path_from_c(file);
    let signals = sys::SignalState::take_over(0, true);
    let end = sys::now_ns().saturating_add(limit_ms.saturating_mul(1_000_000));
    while !path.exists() {
        let is_asked = sys::wait_ready(-1, signals.descriptor(), POLL_INTERVAL_MS).signal
            && signals.take_pending().iter().any(|signal| matches!(*signal, sys::SIGTERM | sys::SIGINT));
        if is_asked || sys::now_ns() >= end {
            return 1;
        }
    }
    0
}

/// Receives files from the standard input.
pub fn receive_dataset(arguments: &[&CStr]) -> i32 {
    let [_, _, target, done, pages] = arguments else { return 125 };
    let is_cold = *pages == c"cold";
    let taken = receive_files(&mut io::stdin().lock(), &path_from_c(target), is_cold).and_then(|()| {
        File::create(path_from_c(done)).map(drop).map_err(|error| format!("marking its end: {error}"))
    });
    let text = taken.as_ref().err().map_or("ok", |text| text);
    let written = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    i32::from(taken.is_err() || written.is_err())
}

fn receive_files(input: &mut impl io::Read, target: &Path, is_cold: bool) -> Result<(), String> {
    let mut content = Vec::with_capacity(stream_frame::MAX_FRAME_BYTES);
    let mut open: Option<(PathBuf, File, Sha256Hasher)> = None;
    loop {
        let kind = stream_frame::read_frame(input, &mut content)
            .map_err(|error| format!("the stream broke off: {error}"))?;
        match (kind, &mut open) {
            (b'F', None) if content.len() >= 4 => {
                let mode = u32::from_le_bytes([content[0], content[1], content[2], content[3]]) & 0o777;
                let path = path_below_target(target, Path::new(OsStr::from_bytes(&content[4..])))?;
                let failed = |error: io::Error| format!("{}: {error}", path.display());
                path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
                let file = File::create(&path).map_err(failed)?;
                // Readable for any user of the run's container.
                file.set_permissions(fs::Permissions::from_mode(mode | 0o444)).map_err(failed)?;
                open = Some((path, file, Sha256Hasher::new()));
            }
            (b'D', Some((path, file, digest))) => {
                digest.update(&content);
                file.write_all(&content).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            (b'E', Some(_)) => {
                let Some((path, file, digest)) = open.take() else { continue };
                if digest.finish()[..] != content[..] {
                    return Err(format!("{} arrived with a wrong digest", path.display()));
                }
                if is_cold {
                    file.sync_data().map_err(|error| format!("{}: {error}", path.display()))?;
                    sys::forget_pages(file.as_raw_fd());
                }
            }
            (b'Z', None) => {
                // A dataset may be a folder without files.
                let made = if target.exists() { Ok(()) } else { fs::create_dir_all(target) };
                return made.map_err(|error| format!("{}: {error}", target.display()));
            }
            _ => return Err("the stream has an unexpected frame".into()),
        }
    }
}

fn path_below_target(target: &Path, path: &Path) -> Result<PathBuf, String> {
    if path.as_os_str().is_empty() {
        return Ok(target.into());
    }
    match path.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(target.join(path)),
        false => Err(format!("{} is not a path below the dataset", path.display())),
    }
}

fn path_from_c(text: &CStr) -> PathBuf {
    OsStr::from_bytes(text.to_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(frames: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frames
            .iter()
            .for_each(|(kind, content)| stream_frame::write_frame(&mut bytes, *kind, content).unwrap());
        bytes
    }

    #[test]
    fn files_arrive_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("metier-take-{}", std::process::id()));
        let target = folder.join("data");
        let mut sha = Sha256Hasher::new();
        sha.update(b"hello");
        let digest = sha.finish();
        let head = [&0o644u32.to_le_bytes()[..], b"a/b.txt"].concat();
        let whole: [(u8, &[u8]); 5] =
            [(b'F', &head), (b'D', b"hel"), (b'D', b"lo"), (b'E', &digest), (b'Z', b"")];
        receive_files(&mut &stream(&whole)[..], &target, true).unwrap();
        assert_eq!(fs::read(target.join("a/b.txt")).unwrap(), b"hello");
        let wrong: [(u8, &[u8]); 3] = [(b'F', &head), (b'D', b"hell"), (b'E', &digest)];
        assert!(
            receive_files(&mut &stream(&wrong)[..], &target, false).unwrap_err().contains("a wrong digest")
        );
        let cut = &stream(&whole)[..20];
        assert!(receive_files(&mut &cut[..], &target, false).unwrap_err().contains("broke off"));
        let out = [&0u32.to_le_bytes()[..], b"../x"].concat();
        assert!(
            receive_files(&mut &stream(&[(b'F', &out)])[..], &target, false)
                .unwrap_err()
                .contains("not a path below")
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
