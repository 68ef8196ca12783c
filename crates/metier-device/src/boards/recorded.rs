//! Board lines for tests: recordings of real boards, and synthetic lines of the same shapes.

use std::path::Path;

/// Synthetic logs, so that tests always have lines.
pub const MADE: [&str; 3] = [
    include_str!("../../tests/fixtures/boards/nx.log"),
    include_str!("../../tests/fixtures/boards/nano.log"),
    include_str!("../../tests/fixtures/boards/orin.log"),
];

/// The logs of real boards.
pub const LOGS: [&str; 5] = [
    "xavier_nx_jp5_burn.log",
    "nano_jp4_inference.log",
    "orin_agx64_jp6.log",
    "tx2_nonroot_restart.log",
    "tx2_root_restart.log",
];

/// Reads a file of the recorded boards, or prints that the test is skipped.
pub fn shared(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/waggle");
    let text = std::fs::read_to_string(folder.join(name)).ok();
    if text.is_none() {
        eprintln!("SKIP: recorded boards, because ../shared/data/waggle/{name} is not there");
    }
    text
}

/// The recorded line with this id; there is one for each board generation.
pub fn line(id: &str) -> Option<String> {
    let rows = shared("tegrastats_lines.tsv")?;
    rows.lines().find(|row| row.starts_with(id))?.rsplit_once('\t').map(|(_, line)| line.to_string())
}

/// All synthetic lines, and the recorded ones if present.
pub fn lines() -> Vec<String> {
    let made = MADE.iter().flat_map(|log| log.lines()).map(str::to_string);
    let rows = shared("tegrastats_lines.tsv").unwrap_or_default();
    let single =
        rows.lines().skip(1).filter_map(|row| row.rsplit_once('\t')).map(|(_, line)| line.to_string());
    let logs = LOGS.iter().filter_map(|name| shared(name));
    made.chain(single)
        .chain(logs.flat_map(|log| log.lines().map(str::to_string).collect::<Vec<_>>()))
        .collect()
}
