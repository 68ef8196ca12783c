//! Reads the lines of an archive: each of bounded length, parsed into its record, or an error that
//! names line and field.

use std::io::{BufRead, Read};

use metier_types::{Device, Run, Series, Workload};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::refuse;
use super::{ArchiveEnd, ArchiveError, ArchiveHead, ArtefactPart, LINE_BYTES};

#[derive(Debug)]
pub(super) enum ArchiveLine {
    Head,
    Device(Box<Device>),
    Workload(Box<Workload>),
    /// A part of a file.
    Part(ArtefactPart),
    Run(Box<Run>),
    /// A series of the run before it.
    Series(Series),
    End(ArchiveEnd),
}

/// The lines of an archive, with their numbers.
pub(super) struct ArchiveLines<R> {
    reader: R,
    number: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> ArchiveLines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, number: 0, buffer: Vec::new() }
    }

    /// Number of the last line that was read, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end. Empty lines are skipped.
    pub(super) fn next(&mut self) -> Result<Option<ArchiveLine>, ArchiveError> {
        loop {
            self.buffer.clear();
            let read = (&mut self.reader)
                .take(LINE_BYTES + 1)
                .read_until(b'\n', &mut self.buffer)
                .map_err(|source| ArchiveError::Read { number: self.number + 1, source })?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if read as u64 > LINE_BYTES {
                let want = "longer than 1 GiB; want an archive of `metier export`".to_string();
                return Err(ArchiveError::Content(want).at(self.number));
            }
            if !self.buffer.trim_ascii().is_empty() {
                let line = parse(self.buffer.trim_ascii());
                return line.map(Some).map_err(|error| error.at(self.number));
            }
        }
    }
}

#[derive(Deserialize)]
struct LineSchema {
    schema: Option<String>,
}

fn parse(text: &[u8]) -> Result<ArchiveLine, ArchiveError> {
    let head: LineSchema = serde_json::from_slice(text).map_err(|error| {
        let text = error_text(&error);
        ArchiveError::Content(format!("not a JSON object ({text}); want an archive of `metier export`"))
    })?;
    let Some(schema) = head.schema else {
        refuse!("field schema: missing; want an archive of `metier export`")
    };
    Ok(match schema.as_str() {
        "metier.export/1" => {
            record::<ArchiveHead>(text)?;
            ArchiveLine::Head
        }
        "metier.device/1" => ArchiveLine::Device(Box::new(record(text)?)),
        "metier.workload/1" => ArchiveLine::Workload(Box::new(record(text)?)),
        "metier.artefact/1" => ArchiveLine::Part(record(text)?),
        "metier.run/1" => ArchiveLine::Run(Box::new(record(text)?)),
        "metier.series/1" => ArchiveLine::Series(record(text)?),
        "metier.export-end/1" => ArchiveLine::End(record(text)?),
        other => refuse!(
            "field schema: {other:?} is unknown to this version; want one of metier.device/1, metier.workload/1, metier.artefact/1, metier.run/1, metier.series/1"
        ),
    })
}

/// The parser's message without its own line number, which is always 1 here.
fn error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_string()
}

fn record<T: DeserializeOwned>(text: &[u8]) -> Result<T, ArchiveError> {
    serde_json::from_slice(text).map_err(|error| {
        let name_text = error_text(&error);
        match serde_json::from_slice::<Value>(text).ok().and_then(|value| culprit::<T>(&value, &name_text)) {
            Some(field) => ArchiveError::Content(format!("field {field}: {name_text}")),
            None => ArchiveError::Content(name_text),
        }
    })
}

/// Finds the field that the parser rejects. The parser does not report it, but it stops there:
/// removing an earlier field changes its message, removing a later field does not. So it is the
/// last field whose removal changes the message.
fn culprit<T: DeserializeOwned>(whole: &Value, said_of_whole: &str) -> Option<String> {
    // The parser names a missing field itself, and only at the end of the record.
    if said_of_whole.starts_with("missing field") {
        return None;
    }
    let mut paths = Vec::new();
    fields(whole, &mut Vec::new(), &mut paths);
    let changes = |path: &Vec<String>| {
        let mut without = whole.clone();
        let (last, above) = path.split_last()?;
        let owner = above.iter().try_fold(&mut without, |value, key| value.get_mut(key))?;
        owner.as_object_mut()?.shift_remove(last)?;
        let outcome = serde_json::from_value::<T>(without).map_err(|error| error_text(&error));
        (outcome.err().as_deref() != Some(said_of_whole)).then_some(())
    };
    paths.iter().rfind(|path| changes(path).is_some()).map(|path| path.join("."))
}

/// Paths of all fields in text order, a record before its parts; a list counts as one value.
fn fields(value: &Value, under: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        under.push(key.clone());
        found.push(under.clone());
        fields(value, under, found);
        under.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats an error with its cause.
    fn chain(error: ArchiveError) -> String {
        format!("{error}: {}", std::error::Error::source(&error).unwrap())
    }

    #[test]
    fn an_error_names_line_and_field() {
        let part =
            r#"{"schema":"metier.artefact/1","digest":"sha256:zz","size_bytes":1,"offset":0,"base64":""}"#;
        let text = format!("{{\"schema\":\"metier.export/1\"}}\n\n{part}\n");
        let mut lines = ArchiveLines::new(text.as_bytes());
        assert!(matches!(lines.next().unwrap(), Some(ArchiveLine::Head)));
        let error = chain(lines.next().unwrap_err());
        assert!(error.starts_with("line 3: field digest:") && error.contains("sha256"), "{error}");
    }

    #[test]
    fn what_is_no_archive_is_said_so() {
        for bad in ["hello\n", "[]\n", "{}\n", "{\"schema\":7}\n", "{\"schema\":\"other/9\"}\n", "\u{0}\n"] {
            let error = chain(ArchiveLines::new(bad.as_bytes()).next().unwrap_err());
            assert!(error.starts_with("line 1: "), "{error}");
        }
    }
}
