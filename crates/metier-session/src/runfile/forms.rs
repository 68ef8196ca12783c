//! Readers of fields that have forms of their own: a text in place of a map, a word in place of a
//! list, runs inside of runs; and times within bounds.

use std::ffi::OsString;
use std::time::Duration;

use metier_measure::spec::{INTERVALS, STACKS_DEFAULT_HERTZ};
use metier_types::schema::{Schema, Versioned as _};

use super::fault::{Fault, Faults};
use super::fields::FieldTable;
use super::file::{Listen, Mount, Other, Probe, RunFile};
use super::node::{Node, Value};
use super::quantity::duration;
use super::read::{Fields, Reader};

/// Depth of run files inside run files.
const DEEPEST: usize = 2;
/// What a mount should look like.
pub const MOUNT: &str =
    "SOURCE:TARGET or SOURCE:TARGET:ro with an absolute target, or a map of source, target, read_only";
/// What a probe should look like.
const PROBE: &str = "a map of name, wrap, mounts, environment, artefacts";

pub fn grace(text: &str) -> Option<Duration> {
    duration(text).filter(|time| *time <= Duration::from_secs(3600))
}

pub fn interval(text: &str) -> Option<Duration> {
    duration(text).filter(|time| INTERVALS.contains(time))
}

pub fn above_zero(text: &str) -> Option<Duration> {
    duration(text).filter(|time| !time.is_zero())
}

pub fn read_version(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Schema<RunFile> {
    if let Some(schema) = fields.text(name, want)
        && schema != RunFile::SCHEMA
    {
        let fault = Fault::new(fields.full(name), format!("{schema:?}"), format!("{:?}", RunFile::SCHEMA));
        let fault = fields.reader.origins.locate(fault);
        fields.reader.faults.push(fault);
    }
    Schema::new()
}

/// A program alone may be written without brackets; words in one text are not taken apart.
pub fn read_command(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Vec<OsString> {
    let Some((node, path)) = fields.take_named(name) else { return Vec::new() };
    match &node.value {
        Value::Text(text) if !text.contains(char::is_whitespace) => vec![text.into()],
        _ => fields
            .reader
            .list(node, &path, want, |reader, item, path| reader.text(item, path, want).map(OsString::from)),
    }
}

pub fn read_arguments(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Vec<OsString> {
    fields.words(name, want).into_iter().map(OsString::from).collect()
}

/// A map, or the one text that says it all.
pub fn read_short<T: FieldTable>(
    fields: &mut Fields<'_>,
    name: &'static str,
    want: &str,
    from_text: impl Fn(String) -> T,
) -> Option<T> {
    let (node, path) = fields.take_named(name)?;
    match node.value {
        Value::Text(text) => Some(from_text(text)),
        _ => fields.reader.map(node, &path, want, T::read),
    }
}

/// Reads `source:target` with `:ro` or `:rw` after it.
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

pub fn read_mounts(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Vec<Mount> {
    fields.list(name, want, |reader, item, path| {
        let Value::Text(text) = &item.value else { return reader.map(item, path, MOUNT, Mount::read) };
        let read = mount(text);
        if read.is_none() {
            reader.wrong(&item, path, MOUNT);
        }
        read
    })
}

pub fn read_probes(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Vec<Probe> {
    fields.list(name, want, |reader, item, path| reader.map(item, path, PROBE, Probe::read))
}

/// A probe alone.
pub fn probe_from_node(node: Node) -> Result<Probe, Faults> {
    let mut reader = Reader::default();
    match reader.map(node, "", PROBE, Probe::read) {
        Some(probe) if reader.faults.is_empty() => Ok(probe),
        _ => Err(Faults(reader.faults)),
    }
}

pub fn read_runs(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Vec<Other> {
    let want_run = "the path of a run file, or a run with command, image or pod";
    fields.list(name, want, |reader, item, path| match &item.value {
        Value::Text(file) => Some(Other::File(file.clone())),
        _ if reader.depth >= DEEPEST => {
            reader.wrong(&item, path, "runs that need no runs that need runs");
            None
        }
        _ => {
            reader.depth += 1;
            let file = reader.map(item, path, want_run, RunFile::read);
            reader.depth -= 1;
            file.map(|file| Other::Run(Box::new(file)))
        }
    })
}

pub fn read_listen(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Listen {
    let Some((node, path)) = fields.take_named(name) else { return Listen::default() };
    let words = match &node.value {
        Value::Text(_) => vec![(path, node)],
        Value::List(_) => fields.reader.items(node, &path, want),
        _ => return fields.reader.map(node, &path, want, Listen::read).unwrap_or_default(),
    };
    let mut listen = Listen::default();
    for (path, word) in words {
        match &word.value {
            Value::Text(text) if text == "socket" => listen.socket = true,
            Value::Text(text) if text == "pywaggle" => listen.pywaggle = true,
            Value::Text(text) if text == "lines" => listen.lines = true,
            _ => fields.reader.wrong(&word, &path, "socket, pywaggle or lines"),
        }
    }
    listen
}

pub fn read_stacks(fields: &mut Fields<'_>, name: &'static str, want: &str) -> Option<u32> {
    let (node, path) = fields.take_named(name)?;
    match &node.value {
        Value::Plain(word) if word == "true" => Some(STACKS_DEFAULT_HERTZ),
        Value::Plain(word) if word == "false" => None,
        Value::Plain(word) if word.parse::<u32>().is_ok() => word.parse().ok(),
        _ => {
            fields.reader.wrong(&node, &path, want);
            None
        }
    }
}
