//! Any bytes as lines of `tegrastats`: all values are plausible, and no series comes twice.

use std::collections::HashSet;
use std::time::Duration;

use metier_device::boards::jetson_exporter::board_series;
use metier_device::boards::tegrastats_log::TegrastatsRecording;

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "tegrastats", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    let logs = repository_files("crates/metier-device/tests/fixtures/boards", ".log");
    let lines =
        |log: &Vec<u8>| log.split(|byte| *byte == b'\n').take(4).map(<[u8]>::to_vec).collect::<Vec<_>>();
    logs.iter().flat_map(lines).collect()
}

fn run(bytes: &[u8]) {
    let mut recording = TegrastatsRecording::new(Duration::from_secs(1));
    for line in bytes.split(|byte| *byte == b'\n') {
        let (line, _) = recording.add_line(line);
        let board = &line.board;
        let mut loads = board.cores.iter().filter_map(|core| core.load_ratio);
        assert!(loads.all(|load| load.get().is_finite() && load.get() >= 0.0));
        if let Some(watts) = board.power() {
            assert!(watts.get().is_finite() && !board.power_rails().is_empty());
        }
        let mut seen = HashSet::new();
        for series in board_series(board, Default::default()) {
            assert!(series.value.is_finite());
            assert!(seen.insert((series.name, series.label)), "a series comes twice");
        }
    }
    let _ = recording.summarise();
}
