//! Finds files by a pattern: a path in which `*` and `?` match within a component and `**` any
//! number of components. A relative pattern is below a given folder. Symbolic links to folders are
//! not followed, so no walk can loop.
//!
//! Also compiled into `metier-measure` for the files of local runs.

use std::path::{Component, Path, PathBuf};

/// Largest number of folder entries read.
const MAX_FOLDER_ENTRIES: usize = 200_000;

/// Matching files in order, each with its path relative to the base (absolute for an absolute
/// pattern).
pub fn find_files(base: &Path, pattern: &str) -> Vec<(String, PathBuf)> {
    let whole = base.join(pattern);
    let parts: Vec<String> = whole
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    let mut left = MAX_FOLDER_ENTRIES;
    walk(Path::new("/"), &parts, &mut found, &mut left);
    found.sort();
    found.dedup();
    let is_relative = Path::new(pattern).is_relative();
    found
        .into_iter()
        .map(|path| {
            let shown = if is_relative { path.strip_prefix(base).unwrap_or(&path) } else { &path };
            (shown.to_string_lossy().into_owned(), path.clone())
        })
        .collect()
}

fn walk(folder: &Path, parts: &[String], found: &mut Vec<PathBuf>, left: &mut usize) {
    let Some((part, rest)) = parts.split_first() else { return };
    if part == "**" {
        walk(folder, rest, found, left);
    } else if !part.contains(['*', '?']) {
        let path = folder.join(part);
        match rest.is_empty() {
            true if path.is_file() => found.push(path),
            true => {}
            false => walk(&path, rest, found, left),
        }
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(kind) = entry.file_type() else { continue };
        let matches = part == "**" || matches_pattern(part, &entry.file_name().to_string_lossy());
        match (matches, kind.is_dir()) {
            (true, true) if part == "**" => walk(&entry.path(), parts, found, left),
            (true, true) => walk(&entry.path(), rest, found, left),
            (true, false) if part != "**" && rest.is_empty() && entry.path().is_file() => {
                found.push(entry.path());
            }
            _ => {}
        }
    }
}

/// Whether a name matches a pattern with `*` and `?`; takes time proportional to the product of
/// their lengths.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    for letter in pattern {
        if letter == '*' {
            for at in 1..reach.len() {
                reach[at] |= reach[at - 1];
            }
        } else {
            for at in (1..reach.len()).rev() {
                reach[at] = reach[at - 1] && (letter == '?' || letter == name[at - 1]);
            }
            reach[0] = false;
        }
    }
    reach.last().copied().unwrap_or(false)
}
