//! Collects files that the run produced and the user wants: found by patterns, bounded in number
//! and size.
//!
//! A pattern is a path as the run sees it, in which `*` and `?` match within a component and `**`
//! matches any components. A relative pattern is below the run's working directory. Symbolic links
//! to folders are not followed, so that a walk cannot loop.

use std::fs::File;
use std::io::Read;

use metier_types::{Run, RunWarning};

use crate::RunSpec;
use crate::observer::ArtefactKeeper;
use crate::running_target::RunningTarget;

// The launcher searches for files in pods of other machines, and has no dependencies: so the file
// belongs to it.
#[path = "../../metier-launch/src/find.rs"]
mod find;
pub(crate) use find::find_files;
use find::matches_pattern;

/// Maximum number of collected files.
const MAX_FILES: usize = 256;
/// Maximum of their total size.
const MAX_TOTAL_BYTES: u64 = 1 << 30;

/// Stores files that match the specification's patterns, and reports those that were left out.
pub(crate) fn collect_artefacts(
    spec: &RunSpec,
    body: &mut dyn RunningTarget,
    run: &mut Run,
    keep: &mut ArtefactKeeper<'_>,
) {
    if spec.artefacts.is_empty() {
        return;
    }
    let mut ledger = ArtefactCollector { run, keep, files: 0, bytes: 0, left_out: 0, is_full: false };
    let given = body.export_files(&spec.artefacts, &mut |name, content| ledger.keep_file(name, content));
    match given {
        Some(Ok(())) => {}
        Some(Err(reason)) => ledger.run.warnings.push(RunWarning::new("artefact-lost", reason)),
        None => {
            let base = spec.working_directory.clone().or_else(|| std::env::current_dir().ok());
            for pattern in &spec.artefacts {
                let found = find_files(&base.clone().unwrap_or_default(), pattern);
                if found.is_empty() {
                    let text = format!("no file matches {pattern}, so none was kept");
                    ledger.run.warnings.push(RunWarning::new("no-artefact", text));
                }
                for (name, path) in found {
                    match File::open(&path) {
                        Ok(mut file) => {
                            ledger.keep_file(&name, &mut file);
                        }
                        Err(error) => {
                            let text = format!("{name} could not be read: {error}");
                            ledger.run.warnings.push(RunWarning::new("artefact-lost", text));
                        }
                    }
                }
            }
        }
    }
    if ledger.left_out > 0 {
        let text = format!(
            "{} files were left out: at most {MAX_FILES} files with 1 GiB together are kept; name fewer of them",
            ledger.left_out
        );
        ledger.run.warnings.push(RunWarning::new("artefacts-left-out", text));
    }
}

/// State of the collection.
struct ArtefactCollector<'a, 'b> {
    run: &'a mut Run,
    keep: &'a mut ArtefactKeeper<'b>,
    files: usize,
    bytes: u64,
    left_out: u64,
    is_full: bool,
}

impl ArtefactCollector<'_, '_> {
    fn keep_file(&mut self, name: &str, content: &mut dyn Read) -> bool {
        if self.is_full || self.files >= MAX_FILES {
            self.left_out += 1;
            return true;
        }
        let mut counted =
            LimitedReader { inner: content, room: MAX_TOTAL_BYTES - self.bytes, read: 0, overran: false };
        let name = name.trim_start_matches("./");
        self.keep.keep_artefact(self.run, name, media_type(name), &mut counted);
        let (read, overran) = (counted.read, counted.overran);
        self.files += 1;
        self.bytes += read;
        if overran {
            // Remove the truncated artefact.
            self.run.artefacts.retain(|artefact| artefact.name != name);
            self.left_out += 1;
            self.is_full = true;
        }
        true
    }
}

/// Reads up to a limit, and notes whether there was more.
struct LimitedReader<'a> {
    inner: &'a mut dyn Read,
    room: u64,
    read: u64,
    overran: bool,
}

impl Read for LimitedReader<'_> {
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
/// Whether a whole path matches a pattern; both are absolute, as the run sees them.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    fn match_parts(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                match_parts(rest, path)
                    || path.split_first().is_some_and(|(_, tail)| match_parts(pattern, tail))
            }
            (Some((part, rest)), Some((name, tail))) => {
                matches_pattern(part, name) && match_parts(rest, tail)
            }
            _ => false,
        }
    }
    match_parts(&path_parts(pattern), &path_parts(path))
}

#[allow(dead_code, reason = "for containers, whose files come by name")]
fn path_parts(text: &str) -> Vec<&str> {
    text.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

/// The likely media type of a file, by its name.
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
            find_files(folder.path(), pattern).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("out/*.csv"), ["out/a.csv"]);
        assert_eq!(names("out/**/*.csv"), ["out/a.csv", "out/deep/c.csv"]);
        assert_eq!(names("out/b.txt"), ["out/b.txt"]);
        assert_eq!(names("out"), Vec::<String>::new());
        let absolute = folder.path().join("out/a.csv");
        assert_eq!(names(absolute.to_str().unwrap()), [absolute.to_str().unwrap()]);
    }
}
