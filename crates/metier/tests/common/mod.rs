//! A place of its own for each test: home, settings, store and time zone are the test's, nothing is the user's.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a home and a store in it.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("metier-test-").tempdir().unwrap();
        for name in ["home", "config/metier", "data", "runtime"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// With the runs of the fixture in its store.
    pub fn with_fixture() -> Self {
        let place = Self::new();
        place.ok(&["import", fixture().to_str().unwrap()]);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    /// The program with an environment that has nothing of the user's.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .env("TZ", "UTC")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        // Where a user session is needed for exact numbers, the test is given the user's.
        for name in ["DBUS_SESSION_BUS_ADDRESS"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints, which must end well.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        assert!(output.status.success(), "{arguments:?}: {}: {}", output.status, stderr(&output));
        stdout(&output)
    }

    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// Exit code and error, which must be one line in our form.
    pub fn fails<S: AsRef<OsStr>>(&self, arguments: &[S]) -> (i32, String) {
        refusal(&self.run(arguments))
    }
}

/// Exit code and error line of something that must fail.
pub fn refusal(output: &Output) -> (i32, String) {
    let error = stderr(output);
    assert!(!output.status.success(), "succeeded: {}", stdout(output));
    assert_eq!(error.trim_end().lines().count(), 1, "not one line: {error}");
    assert!(error.starts_with("metier: ") && !error.contains("panicked"), "{error}");
    (output.status.code().unwrap(), error)
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/archive.jsonl")
}

/// Compares with a golden file; `METIER_BLESS=1` writes it anew.
pub fn golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{} differs; METIER_BLESS=1 takes this as right:\n{got}", path.display());
}
