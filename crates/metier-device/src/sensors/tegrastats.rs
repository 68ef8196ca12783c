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

use super::{Found, Reading, Sensor};
use crate::boards::{Kind, Line, kind};
use metier_linux::Roots;
use metier_types::LockUnpoisoned;

/// Default paths of the program.
const PROGRAMS: [&str; 2] = ["/usr/bin/tegrastats", "/usr/sbin/tegrastats"];
const VARIABLE: &str = "METIER_TEGRASTATS";
/// Milliseconds between lines; shorter intervals have no effect.
const INTERVAL: &str = "200";
/// Longest line read, in bytes.
const LONGEST: u64 = 64 << 10;

pub(super) fn open(roots: &Roots, found: &mut Found) {
    if found.has("ina3221") || kind(roots) != Kind::Jetson {
        return;
    }
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let usual = || PROGRAMS.iter().map(PathBuf::from).find(|path| path.exists());
    if let Some(program) = named.or_else(usual) {
        found.add("tegrastats", "board".into(), true, Box::new(Board::new(&program)));
    }
}

/// State of the child process.
enum State {
    Unasked,
    Runs { child: Child, latest: Arc<Mutex<Option<f64>>> },
    Refused,
}

pub(super) struct Board {
    program: PathBuf,
    state: State,
}

impl Board {
    pub(super) fn new(program: &Path) -> Self {
        Self { program: program.into(), state: State::Unasked }
    }

    fn start(&self) -> State {
        let started = Command::new(&self.program)
            .args(["--interval", INTERVAL])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else { return State::Refused };
        let latest = Arc::new(Mutex::new(None));
        let (Some(lines), into) = (child.stdout.take(), latest.clone()) else { return State::Refused };
        let reader = std::thread::Builder::new().name("metier-tegra".into()).spawn(move || {
            let mut lines = BufReader::new(lines);
            let mut line = Vec::new();
            while matches!(lines.by_ref().take(LONGEST).read_until(b'\n', &mut line), Ok(1..)) {
                if let Some(watts) = Line::parse_bytes(&line).board.power() {
                    *into.lock_unpoisoned() = Some(watts.get());
                }
                line.clear();
            }
        });
        if reader.is_err() {
            end(&mut child);
            return State::Refused;
        }
        State::Runs { child, latest }
    }
}

impl Sensor for Board {
    fn read(&mut self) -> Option<Reading> {
        if matches!(self.state, State::Unasked) {
            self.state = self.start();
        }
        let State::Runs { latest, .. } = &self.state else { return None };
        latest.lock_unpoisoned().take().map(Reading::Power)
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let State::Runs { child, .. } = &mut self.state {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
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
        let mut board = Board::new(&program);
        let mut got = None;
        wait_for("reading", || {
            got = got.or_else(|| board.read());
            got.is_some()
        });
        assert_eq!(got, Some(Reading::Power(2.431)));
        assert_eq!(board.read(), None, "the same line is not read twice");
        let pid = std::fs::read_to_string(&place).unwrap();
        let process = Path::new("/proc").join(pid.trim());
        assert!(process.exists());
        drop(board);
        assert!(!process.exists(), "the child is left");
    }

    #[test]
    fn a_program_that_is_not_there_gives_no_reading() {
        let mut board = Board::new(Path::new("/nonexistent/tegrastats"));
        assert_eq!((board.read(), board.read()), (None, None));
    }

    #[test]
    fn it_is_asked_only_on_a_jetson_without_rails() {
        let folder = tempfile::tempdir().unwrap();
        let roots =
            Roots { proc: folder.path().into(), sys: folder.path().into(), etc: folder.path().into() };
        let mut found = Found::default();
        open(&roots, &mut found);
        assert!(!found.has("tegrastats"), "no Jetson");
    }
}
