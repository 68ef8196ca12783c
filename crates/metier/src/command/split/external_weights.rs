//! External weights: each part gets one file with its own weights, written whole or not at all.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use metier_onnx::split::{ExternalWeightsFile, WeightSegment};

use crate::output::OutputFile;

/// Writes the weights of a part, read from the graph's weight files.
pub fn write_weights(graph: &Path, folder: &Path, outside: &ExternalWeightsFile) -> anyhow::Result<()> {
    let path = folder.join(&outside.name);
    let cannot_write = || format!("--out: cannot write {}", path.display());
    let mut into = OutputFile::open("--out", &path)?;
    let mut at = 0;
    for piece in &outside.pieces {
        let mut from = open_piece(graph, piece)?.take(piece.length);
        // Segments are aligned, so padding separates them.
        let between = piece.to.saturating_sub(at);
        std::io::copy(&mut std::io::repeat(0).take(between), &mut into).with_context(cannot_write)?;
        at = piece.to.saturating_add(piece.length);
        let copied = std::io::copy(&mut from, &mut into).with_context(cannot_write)?;
        anyhow::ensure!(
            copied == piece.length,
            "{}: weights of {} bytes at byte {} of {:?}, which ends before them",
            graph.display(),
            piece.length,
            piece.from,
            piece.file
        );
    }
    into.flush().with_context(cannot_write)?;
    into.commit()
}

/// Opens a segment's file at its offset. The graph is untrusted and names the file, so only files
/// in the graph's folder or below are opened.
fn open_piece(graph: &Path, piece: &WeightSegment) -> anyhow::Result<File> {
    let folder = graph.parent().unwrap_or(Path::new(""));
    let path = metier_onnx::external_file(folder, &piece.file).with_context(|| {
        format!(
            "{}: its weights are in {:?}; want a file in the folder of the graph",
            graph.display(),
            piece.file
        )
    })?;
    let about = std::fs::metadata(&path);
    let about =
        about.with_context(|| format!("{}: cannot read its weights {}", graph.display(), path.display()))?;
    anyhow::ensure!(
        about.is_file(),
        "{}: its weights are in {}, which is not a file",
        graph.display(),
        path.display()
    );
    let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    file.seek(SeekFrom::Start(piece.from)).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(file)
}
