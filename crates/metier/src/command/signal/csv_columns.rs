//! Reads the columns of a CSV file; the first one is the time.

use std::io::Read;
use std::path::Path;

use anyhow::Context as _;
use metier_types::UtcTimestamp;

use crate::command::signal::SignalColumn;
use crate::exit::usage_error;

/// Most values of a file.
const MAX_VALUES: usize = 50_000_000;
/// Most bytes of a file.
const MAX_BYTES: u64 = 1 << 30;
/// Numbers above this are milliseconds: as seconds they would be after the year 5000.
const FIRST_MILLISECONDS: f64 = 1e11;

/// Reads all columns but the first.
pub fn read_columns(path: &Path) -> anyhow::Result<Vec<SignalColumn>> {
    let shown = path.display();
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {shown}"))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            anyhow::bail!("{shown} is a folder; name a CSV file");
        }
        Box::new(file)
    };
    parse_columns(input.take(MAX_BYTES)).with_context(|| format!("{shown}"))
}

fn parse_columns(input: impl Read) -> anyhow::Result<Vec<SignalColumn>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
    let mut columns: Vec<SignalColumn> = Vec::new();
    let (mut count, mut line) = (0, 0_u64);
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).context("is not CSV text")? {
        line += 1;
        if line == 1 {
            let is_header = parse_time(&row[0]).is_none();
            columns = name_columns(&row, is_header)?;
            if is_header {
                continue;
            }
        }
        let Some(time) = row.get(0).and_then(parse_time) else {
            let got = row.get(0).unwrap_or_default();
            anyhow::bail!(usage_error(format!(
                "line {line}: the time is {got:?}; want seconds, or a time such as 2026-01-31T14:00:00Z"
            )));
        };
        if row.len() > columns.len() + 1 {
            anyhow::bail!(
                "line {line} has {} cells; want {}, as the first line",
                row.len(),
                columns.len() + 1
            );
        }
        for (at, column) in columns.iter_mut().enumerate() {
            let cell = row.get(at + 1).unwrap_or_default().trim();
            // An empty cell is a missing sample.
            if cell.is_empty() || column.defect.is_some() {
                continue;
            }
            match cell.parse::<f64>() {
                Ok(value) => {
                    column.times.push(time);
                    column.values.push(value);
                    count += 1;
                }
                Err(_) => column.defect = Some(format!("line {line} has {cell:?}; want a number")),
            }
        }
        if count > MAX_VALUES {
            anyhow::bail!("has more than {MAX_VALUES} values; analyse fewer columns or a shorter range");
        }
    }
    if columns.is_empty() {
        anyhow::bail!("is empty; want a time column and at least one column of values");
    }
    Ok(columns)
}

fn name_columns(row: &csv::StringRecord, is_header: bool) -> anyhow::Result<Vec<SignalColumn>> {
    if row.len() < 2 {
        anyhow::bail!("has one column; want the time first, then at least one column of values");
    }
    Ok((1..row.len())
        .map(|at| {
            let named = row.get(at).map(str::trim).filter(|name| is_header && !name.is_empty());
            SignalColumn {
                name: named.map_or_else(|| format!("column {}", at + 1), str::to_string),
                times: Vec::new(),
                values: Vec::new(),
                defect: None,
            }
        })
        .collect())
}

/// Seconds: a number of seconds or milliseconds, an RFC 3339 time, or a time without zone (UTC).
fn parse_time(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        let seconds = if number.abs() > FIRST_MILLISECONDS { number / 1000.0 } else { number };
        return number.is_finite().then_some(seconds);
    }
    let time = match text.parse::<UtcTimestamp>() {
        Ok(time) => time,
        Err(_) => {
            text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp()
        }
    };
    Some(time.as_millisecond() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<SignalColumn> {
        parse_columns(text.as_bytes()).unwrap()
    }

    #[test]
    fn columns_have_names_times_and_values() {
        let columns = parse("time,cpu,memory\n0,1,10\n15,2,\n30,3,30\n");
        assert_eq!(columns.len(), 2);
        assert_eq!((columns[0].name.as_str(), columns[0].values.as_slice()), ("cpu", &[1.0, 2.0, 3.0][..]));
        assert_eq!(
            (columns[1].times.as_slice(), columns[1].values.as_slice()),
            (&[0.0, 30.0][..], &[10.0, 30.0][..])
        );
        assert_eq!(parse("0,5\n1,6\n")[0].name, "column 2");
    }

    #[test]
    fn times_are_seconds_milliseconds_or_dates() {
        for text in ["1767225600", "1767225600000", "2026-01-01T00:00:00Z", "2026-01-01 00:00:00"] {
            assert_eq!(parse_time(text), Some(1_767_225_600.0), "{text}");
        }
        assert_eq!(parse_time("yesterday"), None);
    }

    #[test]
    fn a_column_with_text_is_unusable_and_the_others_are_not() {
        let columns = parse("t,a,b\n0,1,x\n1,2,y\n");
        assert_eq!(columns[0].defect, None);
        assert!(columns[1].defect.as_deref().unwrap().contains("line 2 has \"x\""));
    }

    #[test]
    fn bad_files_say_what_would_be_right() {
        for (text, want) in [
            ("", "is empty"),
            ("just text\n", "has one column"),
            ("0\n1\n", "has one column"),
            ("t,a\nx,1\n", "line 2: the time is \"x\""),
            ("t,a\n0,1\n1,2,3\n", "line 3 has 3 cells"),
        ] {
            let error = format!("{:#}", parse_columns(text.as_bytes()).err().unwrap());
            assert!(error.contains(want), "{text:?}: {error}");
        }
    }
}
