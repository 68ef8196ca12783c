//! Weights that stand in files beside a graph: each part gets a file with its own of them, whole or not at all.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use metier_onnx::split::{ExternalWeightsFile, WeightSegment};

use crate::output::OutputFile;

/// Writes the weights of a part into its file, out of those beside the graph.
pub fn write_weights(graph: &Path, folder: &Path, outside: &ExternalWeightsFile) -> anyhow::Result<()> {
    let path = folder.join(&outside.name);
    let said = || format!("--out: cannot write {}", path.display());
    let mut into = OutputFile::open("--out", &path)?;
    let mut at = 0;
    for piece in &outside.pieces {
        let mut from = open_piece(graph, piece)?.take(piece.length);
        // Pieces begin at even places, so there is a little between two of them.
        let between = piece.to.saturating_sub(at);
        std::io::copy(&mut std::io::repeat(0).take(between), &mut into).with_context(said)?;
        at = piece.to.saturating_add(piece.length);
        let copied = std::io::copy(&mut from, &mut into).with_context(said)?;
        anyhow::ensure!(
            copied == piece.length,
            "{}: weights of {} bytes at byte {} of {:?}, which ends before them",
            graph.display(),
            piece.length,
            piece.from,
            piece.file
        );
    }
    into.flush().with_context(said)?;
    into.commit()
}

/// The file that has a piece, at its place. Only what is in the graph's folder or below is opened: a graph says the name, and nobody checks graphs.
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
