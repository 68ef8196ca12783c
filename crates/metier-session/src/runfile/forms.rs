//! Readers of fields with short forms (a text for a map, a word for a list), of nested runs and of
//! bounded times.

use std::ffi::OsString;
use std::time::Duration;

use metier_measure::spec::{INTERVAL_RANGE, STACKS_DEFAULT_HERTZ};
use metier_types::schema::{RecordSchema, VersionedRecord as _};

use super::document::{DocumentNode, DocumentValue};
use super::document_reader::{DocumentReader, MapFields};
use super::fault::{RunFileFault, RunFileFaults};
use super::fields::FieldTable;
use super::file::{Listen, Mount, NestedRun, Probe, RunFile};
use super::quantity::duration;

/// Largest nesting depth of run files.
const MAX_NESTING: usize = 2;
/// Expected form of a mount, for messages.
pub const MOUNT_HINT: &str =
    "SOURCE:TARGET or SOURCE:TARGET:ro with an absolute target, or a map of source, target, read_only";
/// Expected form of a probe, for messages.
const PROBE_HINT: &str = "a map of name, wrap, mounts, environment, artefacts";

pub fn grace(text: &str) -> Option<Duration> {
    duration(text).filter(|time| *time <= Duration::from_secs(3600))
}

pub fn interval(text: &str) -> Option<Duration> {
    duration(text).filter(|time| INTERVAL_RANGE.contains(time))
}

pub fn above_zero(text: &str) -> Option<Duration> {
    duration(text).filter(|time| !time.is_zero())
}

pub fn read_version(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> RecordSchema<RunFile> {
    if let Some(schema) = fields.text(name, want)
        && schema != RunFile::SCHEMA
    {
        let fault =
            RunFileFault::new(fields.full(name), format!("{schema:?}"), format!("{:?}", RunFile::SCHEMA));
        let fault = fields.reader.origins.locate(fault);
        fields.reader.faults.push(fault);
    }
    RecordSchema::new()
}

/// A program without arguments needs no brackets. A text with several words is not split.
pub fn read_command(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Vec<OsString> {
    let Some((node, path)) = fields.take_named(name) else { return Vec::new() };
    match &node.value {
        DocumentValue::Text(text) if !text.contains(char::is_whitespace) => vec![text.into()],
        _ => fields
            .reader
            .list(node, &path, want, |reader, item, path| reader.text(item, path, want).map(OsString::from)),
    }
}

pub fn read_arguments(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Vec<OsString> {
    fields.words(name, want).into_iter().map(OsString::from).collect()
}

/// A map, or its short form as a text.
pub fn read_short<T: FieldTable>(
    fields: &mut MapFields<'_>,
    name: &'static str,
    want: &str,
    from_text: impl Fn(String) -> T,
) -> Option<T> {
    let (node, path) = fields.take_named(name)?;
    match node.value {
        DocumentValue::Text(text) => Some(from_text(text)),
        _ => fields.reader.map(node, &path, want, T::read),
    }
}

/// Parses `source:target` with an optional `:ro` or `:rw`.
pub fn mount(text: &str) -> Option<Mount> {
    let (text, read_only) = match text.rsplit_once(':') {
        Some((before, "ro")) => (before, true),
        Some((before, "rw")) => (before, false),
        _ => (text, false),
    };
    let (source, target) = text.split_once(':')?;
    let is_whole = !source.is_empty() && target.starts_with('/') && !target.contains(':');
    is_whole.then(|| Mount { source: source.into(), target: target.into(), read_only })
}

pub fn read_mounts(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Vec<Mount> {
    fields.list(name, want, |reader, item, path| {
        let DocumentValue::Text(text) = &item.value else {
            return reader.map(item, path, MOUNT_HINT, Mount::read);
        };
        let read = mount(text);
        if read.is_none() {
            reader.wrong(&item, path, MOUNT_HINT);
        }
        read
    })
}

pub fn read_probes(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Vec<Probe> {
    fields.list(name, want, |reader, item, path| reader.map(item, path, PROBE_HINT, Probe::read))
}

/// Reads a single probe.
pub fn probe_from_node(node: DocumentNode) -> Result<Probe, RunFileFaults> {
    let mut reader = DocumentReader::default();
    match reader.map(node, "", PROBE_HINT, Probe::read) {
        Some(probe) if reader.faults.is_empty() => Ok(probe),
        _ => Err(RunFileFaults(reader.faults)),
    }
}

pub fn read_runs(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Vec<NestedRun> {
    let want_run = "the path of a run file, or a run with command, image or pod";
    fields.list(name, want, |reader, item, path| match &item.value {
        DocumentValue::Text(file) => Some(NestedRun::File(file.clone())),
        _ if reader.depth >= MAX_NESTING => {
            reader.wrong(&item, path, "runs that need no runs that need runs");
            None
        }
        _ => {
            reader.depth += 1;
            let file = reader.map(item, path, want_run, RunFile::read);
            reader.depth -= 1;
            file.map(|file| NestedRun::Run(Box::new(file)))
        }
    })
}

pub fn read_listen(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Listen {
    let Some((node, path)) = fields.take_named(name) else { return Listen::default() };
    let words = match &node.value {
        DocumentValue::Text(_) => vec![(path, node)],
        DocumentValue::List(_) => fields.reader.items(node, &path, want),
        _ => return fields.reader.map(node, &path, want, Listen::read).unwrap_or_default(),
    };
    let mut listen = Listen::default();
    for (path, word) in words {
        match &word.value {
            DocumentValue::Text(text) if text == "socket" => listen.socket = true,
            DocumentValue::Text(text) if text == "pywaggle" => listen.pywaggle = true,
            DocumentValue::Text(text) if text == "lines" => listen.lines = true,
            _ => fields.reader.wrong(&word, &path, "socket, pywaggle or lines"),
        }
    }
    listen
}

pub fn read_stacks(fields: &mut MapFields<'_>, name: &'static str, want: &str) -> Option<u32> {
    let (node, path) = fields.take_named(name)?;
    match &node.value {
        DocumentValue::Plain(word) if word == "true" => Some(STACKS_DEFAULT_HERTZ),
        DocumentValue::Plain(word) if word == "false" => None,
        DocumentValue::Plain(word) if word.parse::<u32>().is_ok() => word.parse().ok(),
        _ => {
            fields.reader.wrong(&node, &path, want);
            None
        }
    }
}
