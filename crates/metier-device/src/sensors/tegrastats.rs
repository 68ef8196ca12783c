//! The vendor's `tegrastats` as a child process, for Jetsons whose power chip is not readable:
//! closed boards, containers without `/sys`.
//!
//! The first reading starts it, and dropping the sensor ends it. A reading is the board power of
//! the latest line. Without a new line there is no reading, so energy is integrated at the times of
//! the lines. If metier is killed, the next write of `tegrastats` fails with a broken pipe, and it
//! ends.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::{EnergySensor, MeterReading, SensorInventory};
use crate::boards::{BoardKind, TegrastatsLine, detect_board_kind};
use metier_linux::KernelRoots;
use metier_types::LockUnpoisoned;

/// Default paths of the program.
const PROGRAM_PATHS: [&str; 2] = ["/usr/bin/tegrastats", "/usr/sbin/tegrastats"];
const PROGRAM_VARIABLE: &str = "METIER_TEGRASTATS";
/// Milliseconds between lines; shorter intervals have no effect.
const INTERVAL_MILLISECONDS: &str = "200";
/// Longest line read, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

pub(super) fn open(roots: &KernelRoots, found: &mut SensorInventory) {
    if found.has_source("ina3221") || detect_board_kind(roots) != BoardKind::Jetson {
        return;
    }
    let named = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
    let usual = || PROGRAM_PATHS.iter().map(PathBuf::from).find(|path| path.exists());
    if let Some(program) = named.or_else(usual) {
        found.add_sensor("tegrastats", "board".into(), true, Box::new(TegrastatsSensor::new(&program)));
    }
}

/// State of the child process.
enum TegrastatsState {
    NotStarted,
    Running { child: Child, latest: Arc<Mutex<Option<f64>>> },
    Failed,
}

pub(super) struct TegrastatsSensor {
    program: PathBuf,
    state: TegrastatsState,
}

impl TegrastatsSensor {
    pub(super) fn new(program: &Path) -> Self {
        Self { program: program.into(), state: TegrastatsState::NotStarted }
    }

    fn start_child(&self) -> TegrastatsState {
        let started = Command::new(&self.program)
            .args(["--interval", INTERVAL_MILLISECONDS])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else { return TegrastatsState::Failed };
        let latest = Arc::new(Mutex::new(None));
        let (Some(lines), into) = (child.stdout.take(), latest.clone()) else {
            return TegrastatsState::Failed;
        };
        let reader = std::thread::Builder::new().name("metier-tegra".into()).spawn(move || {
            let mut lines = BufReader::new(lines);
            let mut line = Vec::new();
            while matches!(lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
                if let Some(watts) = TegrastatsLine::parse_bytes(&line).board.power() {
                    *into.lock_unpoisoned() = Some(watts.get());
                }
                line.clear();
            }
        });
        if reader.is_err() {
            stop_child(&mut child);
            return TegrastatsState::Failed;
        }
        TegrastatsState::Running { child, latest }
    }
}

impl EnergySensor for TegrastatsSensor {
    fn read(&mut self) -> Option<MeterReading> {
        if matches!(self.state, TegrastatsState::NotStarted) {
            self.state = self.start_child();
        }
        let TegrastatsState::Running { latest, .. } = &self.state else { return None };
        latest.lock_unpoisoned().take().map(MeterReading::Power)
    }
}

impl Drop for TegrastatsSensor {
    fn drop(&mut self) {
        if let TegrastatsState::Running { child, .. } = &mut self.state {
            stop_child(child);
        }
    }
}

fn stop_child(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use super::*;

    fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_there() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no {what} within a minute");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn lines_of_the_child_are_readings_once_each_and_it_ends_with_the_sensor() {
        let folder = tempfile::tempdir().unwrap();
        let (program, place) = (folder.path().join("tegrastats"), folder.path().join("pid"));
        let script = format!(
            "#!/bin/sh\n[ \"$1 $2\" = '--interval 200' ] || exit 1\necho $$ > {}\necho 'RAM 1/2MB CPU [5%@1] POM_5V_IN 2431/2431'\nexec sleep 600\n",
            place.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut board = TegrastatsSensor::new(&program);
        let mut got = None;
        wait_for("reading", || {
            got = got.or_else(|| board.read());
            got.is_some()
        });
        assert_eq!(got, Some(MeterReading::Power(2.431)));
        assert_eq!(board.read(), None, "the same line is not read twice");
        let pid = std::fs::read_to_string(&place).unwrap();
        let process = Path::new("/proc").join(pid.trim());
        assert!(process.exists());
        drop(board);
        assert!(!process.exists(), "the child is left");
    }

    #[test]
    fn a_program_that_is_not_there_gives_no_reading() {
        let mut board = TegrastatsSensor::new(Path::new("/nonexistent/tegrastats"));
        assert_eq!((board.read(), board.read()), (None, None));
    }

    #[test]
    fn it_is_asked_only_on_a_jetson_without_rails() {
        let folder = tempfile::tempdir().unwrap();
        let roots =
            KernelRoots { proc: folder.path().into(), sys: folder.path().into(), etc: folder.path().into() };
        let mut found = SensorInventory::default();
        open(&roots, &mut found);
        assert!(!found.has_source("tegrastats"), "no Jetson");
    }
}
