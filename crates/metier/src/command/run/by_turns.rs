//! `metier run --alternate`: measures two commands or run files by turns, and compares them.
//!
//! The separator is `---`, because `--` may stand in a command. Flags apply to both sides; `--name`
//! and `--save-json` take two values with a comma between them. Co-runners are refused: those of
//! both sides would run at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use metier_session::runfile::{CheckedRun, GivenFlag, is_run_file};
use metier_session::{BatchIdentity, measure_by_turns};
use metier_stats::{CompareOptions, compare};
use metier_types::BatchId;

use super::{MeasureJob, MeasuringSetup, RunArgs, name_flag_in_error, save_json};
use crate::command::CommandContext;
use crate::command::compare::comparison_table;
use crate::exit::{CliExitCode, error_line, usage_error};
use crate::output::OutputFile;

/// Word between the two commands.
const SEPARATOR: &str = "---";
/// Number of pairs, if neither a flag nor a run file says how many.
const DEFAULT_PAIRS: u32 = 10;

/// Measures both sides, prints their summaries and the comparison.
pub fn measure_and_compare(arguments: &RunArgs, context: &CommandContext) -> anyhow::Result<CliExitCode> {
    let words = split_sides(arguments)?;
    let checked = [0, 1].map(|side| check_side(arguments, context, words[side], side));
    let [a, b] = checked;
    let (mut a, mut b) = (a?, b?);
    agree_on_counts(&mut a, &mut b)?;
    let saves = match &arguments.keeping.save_json {
        Some(path) => {
            let [a, b] = split_pair("--save-json", &path.to_string_lossy())?.map(PathBuf::from);
            Some([OutputFile::open("--save-json", &a)?, OutputFile::open("--save-json", &b)?])
        }
        None => None,
    };
    let job = MeasureJob {
        checked: &a,
        order: BatchIdentity::default(),
        cache: arguments.cache.dataset_cache.clone(),
        weights: Vec::new(),
        membership: None,
        keeping: &arguments.keeping,
    };
    // The last bytes of an id are random.
    let seed = BatchId::new().as_bytes().last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let (mut batches, is_spooled) = job.with_session(context, 2, |measuring| {
        let MeasuringSetup { options, session, recorder, on_event, .. } = measuring;
        let options = <[_; 2]>::try_from(options).ok().context("want options for two batches")?;
        measure_by_turns([&a, &b], options, seed, session, recorder, on_event).map_err(name_flag_in_error)
    })?;
    batches.iter_mut().for_each(|batch| batch.is_unkept |= is_spooled);
    if let Some(saves) = saves {
        for (save, batch) in saves.into_iter().zip(&batches) {
            save_json::write_json(save, &batch.runs, true)
                .context("the commands ran, but their records were not saved")?;
        }
    }
    for batch in &batches {
        arguments.print_batch(context, batch, a.repeats)?;
    }
    let [batch_a, batch_b] = &batches;
    let names = batches.each_ref().map(|batch| batch.runs.first().map(|run| run.workload.name.clone()));
    let [label_a, label_b] = match names {
        [Some(a), Some(b)] if a != b => [a, b],
        _ => ["A".to_string(), "B".to_string()],
    };
    let options = CompareOptions { label_a, label_b, ..CompareOptions::default() };
    match compare(&batch_a.runs, &batch_b.runs, &options) {
        Ok(comparison) => {
            context.console.print_stderr(&comparison_table(&comparison, context.console.paint_err));
        }
        Err(error) => context.console.note(format!("metier: not compared: {}", error_line(&error.into()))),
    }
    let failure = batch_a.failure.or(batch_b.failure);
    Ok(CliExitCode::from_raw(failure.unwrap_or(0)))
}

/// The words of both sides: around the separator, or two run files.
fn split_sides(arguments: &RunArgs) -> anyhow::Result<[&[OsString]; 2]> {
    let words = &arguments.command;
    let places: Vec<usize> = (0..words.len()).filter(|at| words[*at] == SEPARATOR).collect();
    let is_empty_allowed = arguments.has_target();
    match (places.as_slice(), words.as_slice()) {
        ([at], _) if is_empty_allowed || (*at > 0 && at + 1 < words.len()) => {
            Ok([&words[..*at], &words[at + 1..]])
        }
        ([], [a, b]) if !is_empty_allowed && is_run_file(a) && is_run_file(b) => {
            Ok([&words[..1], &words[1..]])
        }
        _ => Err(usage_error(format!(
            "--alternate got {} {SEPARATOR:?} between two commands; want `metier run --alternate -- A… {SEPARATOR} B…` or two run files",
            places.len()
        ))),
    }
}

fn check_side(
    arguments: &RunArgs,
    context: &CommandContext,
    words: &[OsString],
    side: usize,
) -> anyhow::Result<CheckedRun> {
    let mut given: Vec<GivenFlag> = arguments.flags.given.clone();
    for flag in given.iter_mut().filter(|given| given.flag.name == "name") {
        for value in flag.values.iter_mut().filter(|value| value.contains(',')) {
            *value = split_pair("--name", value)?[side].to_string();
        }
    }
    let (path, words) = match words {
        [file, rest @ ..] if !arguments.has_target() && is_run_file(file) => (Some(Path::new(file)), rest),
        _ => (arguments.file.as_deref(), words),
    };
    let checked = arguments.check_target(context, path, words, &given)?;
    if !checked.needs.is_empty() || !checked.with.is_empty() {
        return Err(usage_error(
            "--alternate got a run with co-runners (needs, with); want none, because those of both sides would run at once: start them before",
        ));
    }
    Ok(checked)
}

/// Gives both sides the same numbers of runs.
fn agree_on_counts(a: &mut CheckedRun, b: &mut CheckedRun) -> anyhow::Result<()> {
    let repeats = (a.file.repeats, b.file.repeats);
    let warmups = (a.file.warmup, b.file.warmup);
    for (name, counts) in [("repeats", repeats), ("warmup", warmups)] {
        if let (Some(first), Some(second)) = counts
            && first != second
        {
            let flag = if name == "repeats" { "--repeat" } else { "--warmup" };
            return Err(usage_error(format!(
                "{name} is {first} in the first run file and {second} in the second; want the same number: give {flag}"
            )));
        }
    }
    let repeats = repeats.0.or(repeats.1).unwrap_or(DEFAULT_PAIRS);
    let warmup = warmups.0.or(warmups.1).unwrap_or(0);
    for side in [a, b] {
        (side.repeats, side.warmup) = (repeats, warmup);
    }
    Ok(())
}

fn split_pair<'a>(flag: &str, text: &'a str) -> anyhow::Result<[&'a str; 2]> {
    match text.split_once(',') {
        Some((a, b)) if !a.is_empty() && !b.is_empty() && !b.contains(',') => Ok([a, b]),
        _ => Err(usage_error(format!(
            "{flag} is {text:?}; want two with a comma between them for --alternate, such as before,after"
        ))),
    }
}
