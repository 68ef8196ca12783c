//! Forms of output, shared by all commands: `table` for people, `json`, `yaml` and `csv` for
//! programs.

pub mod app_stages;
mod budget_progress;
pub mod figures;
mod output_file;
mod paint;
pub mod sparkline;
mod step_progress;
mod table;

use std::io::Write;

use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

pub use budget_progress::BudgetProgress;
pub use output_file::OutputFile;
pub use paint::{ColorWhen, StreamPaint};
pub use step_progress::StepProgress;
pub use table::{TableCell, TextTable, printable_text};

/// The form of data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    // Not doc comments: those would make every `--help` twice as long.
    Table,
    Json,
    Yaml,
    Csv,
}

/// All output forms. Documents are written by `report` and `flame`; other commands reject them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    Table,
    Json,
    Yaml,
    Csv,
    #[value(hide = true)]
    Html,
    #[value(hide = true)]
    Md,
    #[value(hide = true)]
    Svg,
    #[value(hide = true)]
    Folded,
}

impl OutputForm {
    /// Whether it is a document rather than data.
    pub fn is_document(self) -> bool {
        matches!(self, Self::Html | Self::Md | Self::Svg | Self::Folded)
    }
}

/// The words of an enumeration, for settings and messages.
pub fn enum_words<T: ValueEnum>() -> Vec<String> {
    let name = |value: &T| value.to_possible_value().map(|word| word.get_name().to_string());
    T::value_variants().iter().filter_map(name).collect()
}

/// Parses a word of a record's enum, and offers the words in help and completion.
pub fn word_parser<T: Copy + Send + Sync>(
    values: &'static [T],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let words = values.iter().map(move |value| word(*value));
    PossibleValuesParser::new(words).try_map(move |text| {
        values.iter().copied().find(|value| word(*value) == text).ok_or("not one of the words")
    })
}

/// The word of one value.
pub fn enum_word<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map(|word| word.get_name().to_string()).unwrap_or_default()
}

/// The serialised word of an enum value of a record.
pub fn serialised_word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Writes an error to stderr in the common form. A failure to do so cannot be reported.
pub fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "metier: {text}");
}

/// Writes a record as indented JSON and a line end.
pub fn write_json(out: &mut dyn Write, record: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, record)?;
    Ok(writeln!(out)?)
}

/// Writes a record as YAML.
pub fn write_yaml(out: &mut dyn Write, record: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    // Converted through JSON, so that both forms have the same fields in the same order.
    let value = serde_json::to_value(record)?;
    let text = serde_saphyr::to_string(&value).context("cannot write YAML")?;
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}

/// Writes rows as CSV with a header line.
pub fn write_csv(
    out: &mut dyn Write,
    header: impl IntoIterator<Item = impl AsRef<[u8]>>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(header)?;
    for row in rows {
        writer.write_record(row)?;
    }
    Ok(writer.flush()?)
}

/// A value for a CSV cell: empty where there is none.
pub fn csv_cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
