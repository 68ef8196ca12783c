//! Any bytes as a zip of power predictors, and any bytes as one member of a zip that is otherwise
//! right. It is refused, or its predictors are loaded.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::LazyLock;

use metier_power::pipeline;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "pipeline", seeds, run };

/// Largest member that is a seed of its own.
const MAX_MEMBER_BYTES: usize = 16 << 10;

/// Names and contents of the members of a pipeline.
pub static MEMBERS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let mut archive = ZipArchive::new(Cursor::new(archives().remove(0))).unwrap();
    (0..archive.len())
        .map(|at| {
            let mut member = archive.by_index(at).unwrap();
            let mut content = Vec::new();
            member.read_to_end(&mut content).unwrap();
            (member.name().unwrap().into_owned(), content)
        })
        .collect()
});

fn archives() -> Vec<Vec<u8>> {
    repository_files("crates/metier-power/tests/fixtures", ".zip")
}

/// The first byte is 0 for a whole archive, else the number of the replaced member.
fn seeds() -> Vec<Vec<u8>> {
    let whole = archives().into_iter().map(|archive| [&[0][..], &archive].concat());
    let members =
        MEMBERS.iter().take(255).enumerate().filter(|(_, member)| member.1.len() < MAX_MEMBER_BYTES);
    whole.chain(members.map(|(at, member)| [&[at as u8 + 1][..], &member.1].concat())).collect()
}

fn run(bytes: &[u8]) {
    let Some((first, content)) = bytes.split_first() else { return };
    let archive = match usize::from(*first) {
        0 => content.to_vec(),
        number => with_member((number - 1) % MEMBERS.len(), content),
    };
    let _ = pipeline::load_bytes(archive.into(), Path::new("fuzzed.zip"));
}

/// The archive with another content of a member.
fn with_member(replaced: usize, content: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (at, (name, original)) in MEMBERS.iter().enumerate().filter(|(_, member)| !member.0.ends_with('/')) {
        archive.start_file(name.as_str(), options).unwrap();
        archive.write_all(if at == replaced { content } else { original }).unwrap();
    }
    archive.finish().unwrap().into_inner()
}
