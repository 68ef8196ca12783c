//! The identity of a workload without a given name: a digest of its kind and content.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use metier_types::{ContentDigest, GraphUse, WorkloadId};
use sha2::{Digest as _, Sha256};

use crate::CommandSpec;

/// The identity of a command without a given name: a digest of its kind, its program's content and
/// its arguments.
pub fn command_identity(executable: Option<&ContentDigest>, command: &CommandSpec) -> WorkloadId {
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
    ContentDigest::from_bytes(hash.finalize().into()).into()
}

/// The identity of an image without a given name: a digest of its kind, content and arguments.
/// `words` begin with the image's name, which counts only if its content is unknown.
pub fn image_identity(image: Option<&ContentDigest>, words: &[String]) -> WorkloadId {
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
    ContentDigest::from_bytes(hash.finalize().into()).into()
}

/// The identity of a graph without a given name: a digest of its kind, its content and how it is
/// computed. Its path does not count.
pub fn graph_identity(graph: &GraphUse) -> WorkloadId {
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
    ContentDigest::from_bytes(hash.finalize().into()).into()
}

/// The executable file of a name, found like `execvp` does.
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
    use metier_store::digest::digest_bytes;

    use super::*;

    #[test]
    fn arguments_are_kept_apart() {
        let command = |words: &[&str]| CommandSpec {
            program: "x".into(),
            arguments: words.iter().map(Into::into).collect(),
        };
        assert_ne!(
            command_identity(None, &command(&["ab", "c"])),
            command_identity(None, &command(&["a", "bc"]))
        );
    }

    #[test]
    fn a_graph_is_the_same_wherever_its_file_is_and_another_in_another_shape() {
        let graph = |file: &str, size: u64| GraphUse {
            file: file.to_string(),
            digest: digest_bytes(b"graph"),
            runtime: "rten".to_string(),
            threads: 1,
            shapes: [("x".to_string(), vec![size])].into(),
            extra: Default::default(),
        };
        assert_eq!(graph_identity(&graph("a", 1)), graph_identity(&graph("b", 1)));
        assert_ne!(graph_identity(&graph("a", 1)), graph_identity(&graph("a", 2)));
        assert_ne!(graph_identity(&graph("a", 1)), graph_identity(&GraphUse { threads: 2, ..graph("a", 1) }));
    }

    #[test]
    fn sh_is_found_and_nonsense_is_not() {
        assert!(find_executable(OsStr::new("sh")).is_some());
        assert!(find_executable(OsStr::new("no-such-program-here")).is_none());
    }
}
