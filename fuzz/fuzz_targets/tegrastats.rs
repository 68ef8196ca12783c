//! Any bytes as lines of `tegrastats`: nothing panics, and all parsed values are plausible.
#![no_main]
#![allow(dead_code)]

/// The board parsers of metier-device, without kernel access.
#[path = "../../crates/metier-device/src/boards"]
mod boards {
    pub mod energy;
    pub mod exporter;
    pub mod log;
    pub mod power;
    pub mod snapshot;
    pub mod tegrastats;
    #[path = "sysfs/throttling.rs"]
    mod throttling;

    pub use energy::{Energy, Integrator};
    pub use snapshot::{Blocks, Core, Engine, Memory, Morphing, Rail, Snapshot, Temperature};
    pub use tegrastats::Line;
    pub use throttling::Throttling;
}
#[path = "../../crates/metier-linux/src/file.rs"]
mod file;

/// Paths of kernel files; text lines never use them.
struct Roots {
    sys: std::path::PathBuf,
}

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use boards::exporter;
use boards::log::Recording;

fuzz_target!(|bytes: &[u8]| {
    let mut recording = Recording::new(Duration::from_secs(1));
    for line in bytes.split(|byte| *byte == b'\n') {
        let (line, _) = recording.add(line);
        let board = &line.board;
        let loads = board.cores.iter().filter_map(|core| core.load_ratio);
        assert!(loads.clone().all(|load| load.get().is_finite() && load.get() >= 0.0));
        assert!(board.cores.iter().all(|core| !core.off || core.load_ratio.is_none()));
        assert!(board.temperatures.iter().filter_map(|sensor| sensor.celsius).all(|celsius| celsius.get() > -256.0));
        if let Some(watts) = board.power() {
            assert!(watts.get().is_finite() && !board.power_rails().is_empty());
        }
        let mut seen = std::collections::HashSet::new();
        for one in exporter::series(board, Default::default()) {
            assert!(one.value.is_finite());
            assert!(seen.insert((one.name, one.label)), "a series comes twice");
        }
    }
    if let Some(energy) = recording.finish().energy {
        assert!(energy.joules.get().is_finite() && energy.covered.get() >= 0.0);
        assert!(energy.bound_joules.get() >= 0.0 && energy.aliasing_joules.get() >= 0.0);
    }
});
