//! A passport as short tables.

use metier_types::{Bytes, NumberPrecision, Passport, Seconds};

use super::super::CommandContext;
use crate::output::{StreamPaint, TableCell, TextTable, csv_cell, figures, serialised_word};
use crate::time;

/// Prints a passport in the requested form.
pub fn print_passport(context: &CommandContext, passport: &Passport) -> anyhow::Result<()> {
    let rows = figures::leaf_rows(passport)?;
    context.console.print_record(passport, ["field", "value"], rows, |paint| passport_text(passport, paint))
}

pub fn passport_text(passport: &Passport, paint: StreamPaint) -> String {
    let mut text = format!(
        "{}  {}\n{} {}, from\n",
        paint.bold(&passport.name),
        paint.dim(&passport.id),
        serialised_word(&passport.origin),
        time::local_time(passport.made),
    );
    passport.sources.iter().for_each(|source| text.push_str(&format!("  {source}\n")));
    for table in [
        compute_table(passport),
        accelerator_table(passport),
        bandwidth_table(passport),
        latency_table(passport),
        other_figures_table(passport),
    ] {
        text.push_str(&table.map_or_else(String::new, |table| format!("\n{}", table.render(paint))));
    }
    for note in &passport.notes {
        text.push_str(&format!("\n{note}"));
    }
    if !passport.notes.is_empty() {
        text.push('\n');
    }
    if !passport.missing.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Not known")));
        passport.missing.iter().for_each(|(field, why)| text.push_str(&format!("  {field}: {why}\n")));
    }
    text
}

/// Three significant digits with an SI prefix: `71.3 G`.
pub fn with_si_prefix(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    let mut value = value;
    let mut at = 0;
    while value.abs() >= 999.5 && at + 1 < PREFIXES.len() {
        value /= 1000.0;
        at += 1;
    }
    let digits = if value.abs() >= 99.95 {
        0
    } else if value.abs() >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{}", PREFIXES[at])
}

/// The distinct thread counts, one column each.
fn thread_counts(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut counts: Vec<u32> = all.collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn table_by_threads(first: &str, counts: &[u32], last: &[&str]) -> TextTable {
    let mut words = vec![first.to_string()];
    words.extend(counts.iter().map(|count| format!("{count} THREAD{}", if *count == 1 { "" } else { "S" })));
    words.extend(last.iter().map(ToString::to_string));
    TextTable::with_header(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn compute_table(passport: &Passport) -> Option<TextTable> {
    let counts = thread_counts(passport.compute.iter().map(|rate| rate.threads));
    let mut table = table_by_threads("MULTIPLY-ADDS/S", &counts, &["WITH"]);
    let mut precisions: Vec<NumberPrecision> = passport.compute.iter().map(|rate| rate.precision).collect();
    precisions.sort_unstable();
    precisions.dedup();
    for precision in precisions {
        let of = |threads: u32| {
            passport.compute.iter().find(|rate| rate.precision == precision && rate.threads == threads)
        };
        let mut row = vec![TableCell::text(serialised_word(&precision))];
        row.extend(counts.iter().map(|count| {
            TableCell::number(
                of(*count).map_or_else(|| "–".into(), |rate| with_si_prefix(rate.multiply_adds_per_second)),
            )
        }));
        let with = counts.iter().find_map(|count| of(*count)?.instructions.clone());
        row.push(TableCell::text(with.unwrap_or_default()));
        table.add_row(row);
    }
    (!passport.compute.is_empty()).then_some(table)
}

fn accelerator_table(passport: &Passport) -> Option<TextTable> {
    let mut table = TextTable::with_header(&["ACCELERATOR", "OF", "MULTIPLY-ADDS/S"]);
    for rate in &passport.accelerators {
        table.add_row(vec![
            TableCell::text(&rate.name).truncated(50),
            TableCell::text(serialised_word(&rate.precision)),
            TableCell::number(with_si_prefix(rate.multiply_adds_per_second)),
        ]);
    }
    (!passport.accelerators.is_empty()).then_some(table)
}

fn bandwidth_table(passport: &Passport) -> Option<TextTable> {
    let counts = thread_counts(passport.bandwidth.iter().map(|rate| rate.threads));
    let mut sets: Vec<Option<Bytes>> = passport.bandwidth.iter().map(|rate| rate.working_set_bytes).collect();
    sets.sort_by_key(|set| set.map_or(u64::MAX, Bytes::get));
    sets.dedup();
    let mut table = table_by_threads("MEMORY READ, BYTES/S", &counts, &[]);
    for set in sets {
        let mut row =
            vec![TableCell::text(set.map_or_else(|| "beyond caches".into(), |set| format!("{set} each")))];
        row.extend(counts.iter().map(|count| {
            let bandwidth = passport
                .bandwidth
                .iter()
                .find(|rate| rate.working_set_bytes == set && rate.threads == *count);
            TableCell::number(
                bandwidth.map_or_else(|| "–".into(), |rate| with_si_prefix(rate.bytes_per_second)),
            )
        }));
        table.add_row(row);
    }
    (!passport.bandwidth.is_empty()).then_some(table)
}

fn latency_table(passport: &Passport) -> Option<TextTable> {
    let mut table = TextTable::with_header(&["MEMORY LATENCY", "ONE ACCESS", "SPREAD"]);
    for latency in &passport.latency {
        table.add_row(vec![
            TableCell::text(latency.working_set_bytes.to_string()),
            TableCell::number(latency.seconds.to_string()),
            TableCell::number(latency.spread_ratio.map_or_else(|| "–".into(), |ratio| ratio.to_string())),
        ]);
    }
    (!passport.latency.is_empty()).then_some(table)
}

fn other_figures_table(passport: &Passport) -> Option<TextTable> {
    let mut table = TextTable::default();
    let mut any = false;
    let mut row = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            any = true;
            table.add_row(vec![TableCell::text(label).styled(StreamPaint::dim), TableCell::text(value)]);
        }
    };
    let storage = passport.storage.as_ref();
    let per_second =
        |rate: Option<f64>| rate.map(|rate| format!("{}B/s", with_unit_space(with_si_prefix(rate))));
    row("storage, write", storage.and_then(|storage| per_second(storage.write_bytes_per_second)));
    row("storage, read", storage.and_then(|storage| per_second(storage.read_bytes_per_second)));
    row("small write", storage.and_then(|storage| storage.sync_seconds).map(|it: Seconds| it.to_string()));
    row("file system", storage.and_then(|storage| storage.file_system.clone()));
    row("start a process", passport.spawn_seconds.map(|it| it.to_string()));
    row(
        "lasting load",
        passport.throttling.as_ref().map(|it| {
            let heat = it
                .temperature_after_celsius
                .map(|heat| format!(", {} °C at the end", csv_cell(Some(heat.get()))));
            format!("{} of the speed kept over {}{}", it.kept_ratio, it.seconds, heat.unwrap_or_default())
        }),
    );
    any.then_some(table)
}

/// Prepares for a unit: `71.3 G` stays, `812` becomes `812 `.
fn with_unit_space(text: String) -> String {
    if text.contains(' ') { text } else { format!("{text} ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_three_digits_and_a_prefix() {
        for (value, text) in
            [(0.0, "0.00"), (812.0, "812"), (71.34e9, "71.3 G"), (999.6e9, "1.00 T"), (9.996e3, "10.0 k")]
        {
            assert_eq!(with_si_prefix(value), text);
        }
    }

    #[test]
    fn every_shipped_passport_fits_a_terminal() {
        for passport in metier_device::passport::shipped_passports() {
            let text = passport_text(passport, StreamPaint::PLAIN);
            assert!(
                text.contains(&passport.name) && text.contains("specified") && text.contains("Not known")
            );
            let tables = text.lines().filter(|line| line.contains("THREAD") || line.contains(" G"));
            assert!(tables.into_iter().all(|line| line.chars().count() <= 110), "{text}");
        }
    }
}
