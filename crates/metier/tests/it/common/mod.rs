//! A place of its own for each test: home, settings, store and time zone are the test's, nothing is
//! the user's.
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

/// Fails where a record is not as its published schema says: a field that is missing, not told of,
/// or of another kind.
pub fn fits(schema: &str, record: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(format!("{schema}.json"));
    let schema: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    if let Err(why) = fit(&schema, &schema, record, "") {
        panic!("{why} in {record}");
    }
}

fn fit(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        return fit(root, &root["$defs"][name.trim_start_matches("#/$defs/")], value, at);
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let all: Vec<_> = choices.iter().map(|choice| fit(root, choice, value, at)).collect();
        return if all.iter().any(Result::is_ok) { Ok(()) } else { all.into_iter().next().unwrap_or(Ok(())) };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = |wanted: &Value| wanted == kind || (wanted == "number" && kind == "integer");
    let wanted = &schema["type"];
    if !wanted.is_null()
        && !is_kind(wanted)
        && !wanted.as_array().is_some_and(|list| list.iter().any(is_kind))
    {
        return Err(format!("{at} is of kind {kind}, not {wanted}"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        fit(root, &schema["items"], item, &format!("{at}[{index}]"))?;
    }
    for field in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(field).is_none() {
            return Err(format!("{at}.{field} is missing"));
        }
    }
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    for (field, inner) in value.as_object().into_iter().flatten() {
        let own = properties.get(field).ok_or_else(|| format!("{at}.{field} is not in the schema"))?;
        fit(root, own, inner, &format!("{at}.{field}"))?;
    }
    Ok(())
}
