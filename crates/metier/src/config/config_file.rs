//! The settings file: TOML with the keys of [`SETTING_KEYS`], each read with its line.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::SETTING_KEYS;
use crate::exit::usage_error;

/// Largest settings file; a larger one was named by mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Keys with their values and lines.
pub type FileSettings = BTreeMap<String, (String, usize)>;

/// Reads the file. `None` if the default file does not exist.
pub fn read_config_file(path: &Path, named: bool) -> anyhow::Result<Option<FileSettings>> {
    let cannot = |why: &dyn std::fmt::Display| {
        usage_error(format!(
            "cannot read the config file {}: {why}; name another with --config FILE",
            path.display()
        ))
    };
    let mut text = String::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > MAX_FILE_BYTES => Err(cannot(&"it is larger than 1 MiB")),
        Ok(_) => parse(path, &text).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => Ok(None),
        Err(error) => Err(cannot(&error)),
    }
}

fn parse(path: &Path, text: &str) -> anyhow::Result<FileSettings> {
    let at = |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| at(span.start)).unwrap_or(1);
        let why = error.message().lines().next().unwrap_or("not TOML").to_string();
        usage_error(format!("{}:{line}: {why}; want TOML such as output = \"json\"", path.display()))
    })?;
    let mut written = FileSettings::new();
    collect_table(path, "", table.get_ref(), &at, &mut written)?;
    Ok(written)
}

fn collect_table(
    path: &Path,
    under: &str,
    table: &DeTable<'_>,
    at: &dyn Fn(usize) -> usize,
    written: &mut FileSettings,
) -> anyhow::Result<()> {
    for (key, value) in table {
        let line = at(key.span().start);
        let name =
            if under.is_empty() { key.get_ref().to_string() } else { format!("{under}.{}", key.get_ref()) };
        let place = format!("{}:{line}", path.display());
        if let DeValue::Table(inner) = value.get_ref() {
            let group = format!("{name}.");
            if SETTING_KEYS.iter().any(|key| key.name.starts_with(&group)) {
                collect_table(path, &name, inner, at, written)?;
                continue;
            }
        }
        if !SETTING_KEYS.iter().any(|key| key.name == name) {
            let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.name).collect();
            return Err(usage_error(format!(
                "{place}: unknown key {name:?}; want one of {}",
                known.join(", ")
            )));
        }
        let Some(text) = scalar_text(value.get_ref()) else {
            return Err(usage_error(format!(
                "{place}: {name} is a {}; want a string",
                value.get_ref().type_str()
            )));
        };
        written.insert(name, (text, line));
    }
    Ok(())
}

/// A value as text: strings, booleans, numbers, and lists of strings separated by commas.
fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(yes) => Some(yes.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Array(items) => {
            let item = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            };
            items.iter().map(item).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        _ => None,
    }
}
