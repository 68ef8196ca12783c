//! The run file of a session: checked when it is asked for, and given to the measuring process when its turn comes.

use std::ffi::OsString;
use std::path::Path;

use metier_types::Session;
use serde_json::Value;

/// One thing that is wrong with a run file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// The line, from 1, where it is in a file.
    pub line: Option<u64>,
    /// The field; empty for the whole.
    pub field: String,
    /// What was given.
    pub got: Option<String>,
    /// What would be right.
    pub want: String,
}

/// All that is wrong, as one sentence.
pub(super) fn sentence(faults: &[FileFault]) -> String {
    let one = |fault: &FileFault| {
        let line = fault.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let field = if fault.field.is_empty() { "the run file" } else { &fault.field };
        match &fault.got {
            Some(got) => format!("{line}{field} is {got}; want {}", fault.want),
            None => format!("{line}{field} is not given; want {}", fault.want),
        }
    };
    faults.iter().map(one).collect::<Vec<_>>().join(" – ")
}

/// Reads and checks a run file, YAML or JSON.
pub fn read_file(text: &str) -> Result<Value, Vec<FileFault>> {
    let fault = |line: Option<u64>, field: &str, got: Option<String>, want: &str| {
        Err(vec![FileFault { line, field: field.to_string(), got, want: want.to_string() }])
    };
    let file: Value = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) => return fault(Some(error.line() as u64), "", Some(error.to_string()), "JSON"),
    };
    if !file.is_object() {
        return fault(
            Some(1),
            "",
            Some("not a map".into()),
            "a map of fields such as {\"command\": [\"true\"]}",
        );
    }
    if file["command"].as_array().is_none_or(|words| words.is_empty()) && file["image"].is_null() {
        return fault(None, "command", None, "command, image or pod");
    }
    Ok(file)
}

/// What the measuring program is told.
pub(super) fn arguments(session: &Session, _path: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["run".into(), "--batch".into(), session.batch.to_string().into()];
    let text = |value: &Value| value.as_str().map(str::to_string).unwrap_or_else(|| value.to_string());
    for (field, flag) in
        [("name", "--name"), ("timeout", "--timeout"), ("repeats", "--repeat"), ("warmup", "--warmup")]
    {
        if let Some(value) = session.file.get(field) {
            words.extend([flag.into(), text(value).into()]);
        }
    }
    words.push("--".into());
    for list in ["command", "arguments"] {
        words.extend(session.file[list].as_array().into_iter().flatten().map(|word| text(word).into()));
    }
    words
}
