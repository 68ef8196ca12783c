//! Reads the archives in which an engine exports files of a container: plain files by name, in
//! every common tar dialect. Bounded: names of at most 4 KiB, and everything but plain files is
//! skipped.
//!
//! Not the crate `tar`: it reads a long name or an extended header of any stated size into memory
//! (`EntryFields::read_all`), and the input comes from the measured container.

use std::io::{self, Read};

const BLOCK_BYTES: usize = 512;
const MAX_NAME_BYTES: u64 = 4096;

/// Calls `each` with the name and content of every plain file; stops when it returns false.
pub(super) fn for_each_file(
    archive: &mut dyn Read,
    each: &mut dyn FnMut(&str, &mut dyn Read) -> bool,
) -> io::Result<()> {
    let mut long_name: Option<String> = None;
    loop {
        let mut header = [0u8; BLOCK_BYTES];
        match archive.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let size =
            parse_number(&header[124..136]).ok_or_else(|| io::Error::other("a size that is not a number"))?;
        let padding = (BLOCK_BYTES as u64 - size % BLOCK_BYTES as u64) % BLOCK_BYTES as u64;
        match header[156] {
            // GNU long name or POSIX extended header.
            kind @ (b'L' | b'x') if size <= 16 * MAX_NAME_BYTES => {
                let mut text = Vec::new();
                archive.take(size).read_to_end(&mut text)?;
                let name = if kind == b'L' { Some(nul_terminated_text(&text)) } else { extended_path(&text) };
                long_name = name.filter(|name| name.len() as u64 <= MAX_NAME_BYTES).or(long_name);
                skip_bytes(archive, padding)?;
            }
            b'0' | 0 => {
                let name = long_name.take().unwrap_or_else(|| header_name(&header));
                let mut content = archive.take(size);
                let goes_on = each(&name, &mut content);
                let left = content.limit();
                if !goes_on {
                    return Ok(());
                }
                skip_bytes(archive, left + padding)?;
            }
            _ => {
                long_name = None;
                skip_bytes(archive, size + padding)?;
            }
        }
    }
}

fn skip_bytes(archive: &mut dyn Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut archive.take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Octal digits, or for large files a big-endian number after a set high bit.
fn parse_number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let tail = field.get(field.len() - 8..)?;
        return tail.try_into().map(u64::from_be_bytes).ok();
    }
    let text = nul_terminated_text(field);
    let text = text.trim();
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn nul_terminated_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn header_name(header: &[u8; BLOCK_BYTES]) -> String {
    let name = nul_terminated_text(&header[..100]);
    let prefix =
        if &header[257..262] == b"ustar" { nul_terminated_text(&header[345..500]) } else { String::new() };
    if prefix.is_empty() { name } else { format!("{prefix}/{name}") }
}

/// The `path` record among records like `20 path=some/name\n`.
fn extended_path(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().find_map(|line| line.split_once(' ')?.1.strip_prefix("path=").map(str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(flags: &[&str]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(90)).join("b".repeat(90));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("long.txt"), "long").unwrap();
        std::fs::write(folder.path().join("x.csv"), "1,2\n".repeat(300)).unwrap();
        std::os::unix::fs::symlink("x.csv", folder.path().join("link")).unwrap();
        let output = std::process::Command::new("tar")
            .args(flags)
            .arg("-c")
            .arg(".")
            .current_dir(folder.path())
            .output();
        output.unwrap().stdout
    }

    #[test]
    fn files_come_with_their_names_and_contents_in_every_dialect() {
        for flags in [&["--format=gnu"][..], &["--format=pax"], &["--format=ustar"]] {
            let mut found = Vec::new();
            for_each_file(&mut archive(flags).as_slice(), &mut |name, content| {
                let mut text = String::new();
                content.read_to_string(&mut text).unwrap();
                found.push((name.to_string(), text.len()));
                true
            })
            .unwrap();
            found.sort();
            let names: Vec<&str> = found.iter().map(|(name, _)| name.rsplit('/').next().unwrap()).collect();
            assert!(names.contains(&"long.txt") && names.contains(&"x.csv"), "{flags:?} {found:?}");
            assert!(!names.contains(&"link"));
            assert!(found.iter().any(|(name, length)| name == "./x.csv" && *length == 1200));
            assert!(found.iter().any(|(name, _)| name.contains(&"b".repeat(90))));
        }
    }

    #[test]
    fn what_is_cut_off_or_no_archive_is_an_error_and_no_panic() {
        let whole = archive(&["--format=gnu"]);
        for cut in [700, 1500, 2049] {
            let _ = for_each_file(&mut &whole[..cut.min(whole.len())], &mut |_, content| {
                let _ = io::copy(content, &mut io::sink());
                true
            });
        }
        assert!(for_each_file(&mut [b'x'; 1024].as_slice(), &mut |_, _| true).is_err());
    }
}
