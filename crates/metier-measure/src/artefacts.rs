//! Files that the run left and the user wants kept: found by patterns, bounded in number and size.
//!
//! A pattern is a path as the run sees it, in which `*` and `?` match within a part and `**` any parts. A relative one
//! is below the run's working directory. Symbolic links to folders are not followed, so that no walk goes in circles.

use std::fs::File;
use std::io::Read;

use metier_types::{Run, Warning};

use crate::Spec;
use crate::observer::Keep;
use crate::running_target::RunningTarget;

// The launcher looks for files, too, in pods of other machines, and has no dependencies: so the file is its.
#[path = "../../metier-launch/src/find.rs"]
mod find;
pub(crate) use find::find;
use find::matches;

/// Files that are kept at most.
const FILES: usize = 256;
/// Bytes that they may have together.
const BYTES: u64 = 1 << 30;

/// Keeps what the patterns of the specification match, and says what was left out.
pub(crate) fn collect(spec: &Spec, body: &mut dyn RunningTarget, run: &mut Run, keep: &mut Keep<'_>) {
    if spec.artefacts.is_empty() {
        return;
    }
    let mut ledger = Ledger { run, keep, files: 0, bytes: 0, left_out: 0, is_full: false };
    let given = body.files(&spec.artefacts, &mut |name, content| ledger.take(name, content));
    match given {
        Some(Ok(())) => {}
        Some(Err(reason)) => ledger.run.warnings.push(Warning::new("artefact-lost", reason)),
        None => {
            let base = spec.working_directory.clone().or_else(|| std::env::current_dir().ok());
            for pattern in &spec.artefacts {
                let found = find(&base.clone().unwrap_or_default(), pattern);
                if found.is_empty() {
                    let text = format!("no file matches {pattern}, so none was kept");
                    ledger.run.warnings.push(Warning::new("no-artefact", text));
                }
                for (name, path) in found {
                    match File::open(&path) {
                        Ok(mut file) => {
                            ledger.take(&name, &mut file);
                        }
                        Err(error) => {
                            let text = format!("{name} could not be read: {error}");
                            ledger.run.warnings.push(Warning::new("artefact-lost", text));
                        }
                    }
                }
            }
        }
    }
    if ledger.left_out > 0 {
        let text = format!(
            "{} files were left out: at most {FILES} files with 1 GiB together are kept; name fewer of them",
            ledger.left_out
        );
        ledger.run.warnings.push(Warning::new("artefacts-left-out", text));
    }
}

/// What has been kept so far.
struct Ledger<'a, 'b> {
    run: &'a mut Run,
    keep: &'a mut Keep<'b>,
    files: usize,
    bytes: u64,
    left_out: u64,
    is_full: bool,
}

impl Ledger<'_, '_> {
    fn take(&mut self, name: &str, content: &mut dyn Read) -> bool {
        if self.is_full || self.files >= FILES {
            self.left_out += 1;
            return true;
        }
        let mut counted = Counted { inner: content, room: BYTES - self.bytes, read: 0, overran: false };
        let name = name.trim_start_matches("./");
        self.keep.artefact(self.run, name, media_type(name), &mut counted);
        let (read, overran) = (counted.read, counted.overran);
        self.files += 1;
        self.bytes += read;
        if overran {
            // What was kept of it is not the file.
            self.run.artefacts.retain(|artefact| artefact.name != name);
            self.left_out += 1;
            self.is_full = true;
        }
        true
    }
}

/// Reads at most so many bytes, and notes when there were more.
struct Counted<'a> {
    inner: &'a mut dyn Read,
    room: u64,
    read: u64,
    overran: bool,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.read += got as u64;
        if self.read > self.room {
            self.overran = true;
            return Err(std::io::Error::other("more than 1 GiB of artefacts"));
        }
        Ok(got)
    }
}

#[allow(dead_code, reason = "for containers, whose files come by name")]
/// Whether a whole path matches a pattern; both as the run sees them, absolute.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    fn go(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                go(rest, path) || path.split_first().is_some_and(|(_, tail)| go(pattern, tail))
            }
            (Some((part, rest)), Some((name, tail))) => matches(part, name) && go(rest, tail),
            _ => false,
        }
    }
    go(&parts(pattern), &parts(path))
}

#[allow(dead_code, reason = "for containers, whose files come by name")]
fn parts(text: &str) -> Vec<&str> {
    text.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

/// What a file most likely is, by its name.
pub(crate) fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "json" => "application/json",
        "csv" => "text/csv",
        "txt" | "log" | "md" | "out" => "text/plain",
        "html" => "text/html",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "pdf" => "application/pdf",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "gz" => "application/gzip",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_within_a_part_and_double_stars_across() {
        for (pattern, path, want) in [
            ("/out/*.csv", "/out/a.csv", true),
            ("/out/*.csv", "/out/x/a.csv", false),
            ("/out/**/*.csv", "/out/x/y/a.csv", true),
            ("/out/**/*.csv", "/out/a.csv", true),
            ("/out/?.log", "/out/10.log", false),
            ("/out/**", "/out/a/b", true),
            ("/a*b*c", "/aXbYbc", true),
            ("/a", "/a/b", false),
        ] {
            assert_eq!(path_matches(pattern, path), want, "{pattern} {path}");
        }
    }

    #[test]
    fn files_are_found_below_the_working_directory_and_named_so() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("out/deep")).unwrap();
        for name in ["out/a.csv", "out/b.txt", "out/deep/c.csv"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            find(folder.path(), pattern).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("out/*.csv"), ["out/a.csv"]);
        assert_eq!(names("out/**/*.csv"), ["out/a.csv", "out/deep/c.csv"]);
        assert_eq!(names("out/b.txt"), ["out/b.txt"]);
        assert_eq!(names("out"), Vec::<String>::new());
        let absolute = folder.path().join("out/a.csv");
        assert_eq!(names(absolute.to_str().unwrap()), [absolute.to_str().unwrap()]);
    }
}
