//! Digests of what a run was made of: its program, its environment, its input.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use metier_types::{Digest, GraphUse, WorkloadId};
use sha2::{Digest as _, Sha256};

use crate::{Command, Error};

/// Files of an input folder that are looked at; beyond it the digest would take longer than most runs.
const FILES: usize = 100_000;

/// The digest of some bytes.
pub fn of_bytes(bytes: &[u8]) -> Digest {
    Digest::from_bytes(Sha256::digest(bytes).into())
}

/// The digest of a file's content.
pub fn of_file(path: &Path) -> Result<Digest, Error> {
    let read = |reason| Error::Read { path: path.into(), reason };
    let mut file = File::open(path).map_err(read)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(read)? {
            0 => return Ok(Digest::from_bytes(hash.finalize().into())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// The digest of a file, or of a folder: names and contents of all files below it, in order.
pub fn of_input(path: &Path) -> Result<Digest, Error> {
    let read = |reason| Error::Read { path: path.into(), reason };
    if !fs::metadata(path).map_err(read)?.is_dir() {
        return of_file(path);
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|reason| Error::Read { path: folder.clone(), reason })? {
            let entry = entry.map_err(|reason| Error::Read { path: folder.clone(), reason })?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => files.push(entry.path()),
            }
        }
        if files.len() > FILES {
            let want = "a file, or a folder of at most 100000 files";
            return Err(Error::Spec { field: "input", got: path.display().to_string(), want });
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(path).unwrap_or(&file).as_os_str().as_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(of_file(&file)?.as_bytes());
    }
    Ok(Digest::from_bytes(hash.finalize().into()))
}

/// The digest of an environment: names and values, sorted.
pub fn of_environment<K: AsRef<OsStr>, V: AsRef<OsStr>>(variables: impl Iterator<Item = (K, V)>) -> Digest {
    let mut entries: Vec<Vec<u8>> = variables
        .map(|(name, value)| [name.as_ref().as_bytes(), b"=", value.as_ref().as_bytes(), b"\0"].concat())
        .collect();
    entries.sort();
    of_bytes(&entries.concat())
}

/// What stays the same as long as a file does: where it lies, its size and its last change.
pub fn fingerprint(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    Some(format!("{}:{}:{}:{}.{:09}", meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// The identity of a command without a given name: a digest of its kind, its program's content and its arguments.
pub fn of_command(executable: Option<&Digest>, command: &Command) -> WorkloadId {
    let mut hash = Sha256::new();
    hash.update(b"command\0");
    match executable {
        Some(digest) => hash.update(digest.as_bytes()),
        None => hash.update(command.program.as_bytes()),
    }
    for argument in &command.arguments {
        hash.update((argument.len() as u64).to_le_bytes());
        hash.update(argument.as_bytes());
    }
    Digest::from_bytes(hash.finalize().into()).into()
}

/// The identity of an image without a given name: a digest of its kind, its content and what it is given. `words` begin
/// with the image's name, which counts only where its content is not known.
pub fn of_image(image: Option<&Digest>, words: &[String]) -> WorkloadId {
    let mut hash = Sha256::new();
    hash.update(b"image\0");
    match (image, words.first()) {
        (Some(digest), _) => hash.update(digest.as_bytes()),
        (None, name) => hash.update(name.map_or("", String::as_str)),
    }
    for argument in words.iter().skip(1) {
        hash.update((argument.len() as u64).to_le_bytes());
        hash.update(argument);
    }
    Digest::from_bytes(hash.finalize().into()).into()
}

/// The identity of a graph without a given name: a digest of its kind, its content and how it is computed. Where its
/// file is does not count.
pub fn of_graph(graph: &GraphUse) -> WorkloadId {
    let mut hash = Sha256::new();
    hash.update(b"graph\0");
    hash.update(graph.digest.as_bytes());
    hash.update((graph.runtime.len() as u64).to_le_bytes());
    hash.update(&graph.runtime);
    hash.update(graph.threads.to_le_bytes());
    for (name, shape) in &graph.shapes {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((shape.len() as u64).to_le_bytes());
        shape.iter().for_each(|size| hash.update(size.to_le_bytes()));
    }
    Digest::from_bytes(hash.finalize().into()).into()
}

/// The file that a name stands for, as `execvp` would find it.
pub fn find_executable(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return fs::canonicalize(program).ok();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(program)).find_map(|file| {
        let meta = fs::metadata(&file).ok()?;
        (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then(|| fs::canonicalize(&file).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_the_same_in_any_order() {
        let (a, b) = (("A", "1"), ("B", "2"));
        assert_eq!(of_environment([a, b].into_iter()), of_environment([b, a].into_iter()));
        assert_ne!(of_environment([a].into_iter()), of_environment([b].into_iter()));
        assert_ne!(of_environment([("A", "B=1")].into_iter()), of_environment([("A=B", "2")].into_iter()));
    }

    #[test]
    fn a_folder_changes_with_names_and_contents_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a"), "1").unwrap();
        let first = of_input(folder.path()).unwrap();
        assert_eq!(of_input(folder.path()).unwrap(), first);
        fs::write(folder.path().join("sub/a"), "2").unwrap();
        let second = of_input(folder.path()).unwrap();
        fs::rename(folder.path().join("sub/a"), folder.path().join("sub/b")).unwrap();
        assert!(second != first && of_input(folder.path()).unwrap() != second);
        assert!(of_input(&folder.path().join("absent")).unwrap_err().to_string().contains("absent"));
    }

    #[test]
    fn arguments_are_kept_apart() {
        let command = |words: &[&str]| Command {
            program: "x".into(),
            arguments: words.iter().map(Into::into).collect(),
        };
        assert_ne!(of_command(None, &command(&["ab", "c"])), of_command(None, &command(&["a", "bc"])));
    }

    #[test]
    fn a_graph_is_the_same_wherever_its_file_is_and_another_in_another_shape() {
        let graph = |file: &str, size: u64| GraphUse {
            file: file.to_string(),
            digest: of_bytes(b"graph"),
            runtime: "rten".to_string(),
            threads: 1,
            shapes: [("x".to_string(), vec![size])].into(),
            extra: Default::default(),
        };
        assert_eq!(of_graph(&graph("a", 1)), of_graph(&graph("b", 1)));
        assert_ne!(of_graph(&graph("a", 1)), of_graph(&graph("a", 2)));
        assert_ne!(of_graph(&graph("a", 1)), of_graph(&GraphUse { threads: 2, ..graph("a", 1) }));
    }

    #[test]
    fn sh_is_found_and_nonsense_is_not() {
        assert!(find_executable(OsStr::new("sh")).is_some());
        assert!(find_executable(OsStr::new("no-such-program-here")).is_none());
    }
}
