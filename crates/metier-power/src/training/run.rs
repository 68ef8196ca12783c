//! Runs the trainers in parallel and writes their predictors.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::tables::check;
use super::{PipelinePlan, PowerTable, PowerTables, write};
use crate::Error;
use crate::frame::FeatureFrame;
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType, PowerTrainer};
use crate::trainers::{self, ComponentHeldOut, MIN_INTERVAL_ROWS, PowerPredictorFile, TrainerSettings};

/// Result for a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainedState {
    New,
    /// Continued from an earlier predictor with other rows.
    Continued,
    /// Trained from scratch on other rows; replaced the earlier predictor.
    Anew,
    /// Unchanged, since the rows are the same.
    Kept,
}

impl TrainedState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Continued => "continued",
            Self::Anew => "anew",
            Self::Kept => "kept",
        }
    }
}

/// A predictor of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedEntry {
    /// Where energy was read.
    pub source: EnergySource,
    /// Whether idle power is included.
    pub output_type: OutputType,
    pub group: FeatureGroup,
    /// Trainer and node type.
    pub name: ModelName,
    /// Result of the training.
    pub state: TrainedState,
    /// Number of training rows.
    pub rows: usize,
    /// Held-out errors, the worst component first.
    pub held_out: Vec<ComponentHeldOut>,
}

impl TrainedEntry {
    /// The largest mean error of a component, in watts.
    pub fn mae(&self) -> f64 {
        self.held_out.iter().map(|out| out.mae).fold(0.0, f64::max)
    }

    /// Largest mean relative error of a component, in per cent; `None` if no component has rows
    /// above the floor.
    pub fn mape(&self) -> Option<f64> {
        self.held_out.iter().filter_map(|out| out.mape).reduce(f64::max).map(|ratio| ratio * 100.0)
    }

    /// JSON record (`metier.power-training/1`): every `mae` in watts, every `mape` in per cent,
    /// `coverage` a share.
    pub fn record(&self) -> Value {
        let component = |out: &ComponentHeldOut| {
            json!({
                "component": out.component, "mae": out.mae, "mape": out.mape.map(|ratio| ratio * 100.0), "rows": out.rows,
                "rows_above_floor": out.rows_above_floor, "coverage": out.coverage, "width": out.width, "validation": out.validation,
            })
        };
        json!({
            "source": self.source.name(), "output_type": self.output_type.name(), "feature_group": self.group.name(),
            "model_name": self.name.to_string(), "state": self.state.name(), "rows": self.rows,
            "mae": self.mae(), "mape": self.mape(), "held_out": self.held_out.iter().map(component).collect::<Vec<_>>(),
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct TrainingOutcome {
    pub folder: PathBuf,
    /// Predictors trained or found, by source, output type, group and error.
    pub entries: Vec<TrainedEntry>,
    /// Messages about failed trainers.
    pub warnings: Vec<String>,
}

/// Progress of a training.
#[derive(Debug, Clone, Copy)]
pub struct TrainingStep<'a> {
    /// Number of predictors done or failed.
    pub done: usize,
    pub of: usize,
    /// The latest predictor: source, output type, group, name.
    pub name: &'a str,
}

struct TrainerJob<'a> {
    table: &'a PowerTable,
    rows: &'a FeatureFrame,
    trainer: PowerTrainer,
    node_type: u32,
    digest: &'a str,
}

impl TrainerJob<'_> {
    fn name(&self) -> ModelName {
        ModelName { trainer: self.trainer.name().to_string(), node_type: self.node_type }
    }

    fn label(&self) -> String {
        let table = self.table;
        format!("{} {} {} {}", table.source.name(), table.output_type.name(), table.group.name(), self.name())
    }
}

/// Trains all predictors of a plan from tables into `root/<name>`. `progress` is called for each
/// and may stop the training; finished predictors stay and are not repeated.
pub fn train_pipeline(
    tables: &PowerTables,
    plan: &PipelinePlan,
    root: &Path,
    progress: &mut dyn FnMut(TrainingStep<'_>) -> ControlFlow<()>,
) -> Result<TrainingOutcome, Error> {
    plan.check()?;
    let folder = root.join(&plan.name);
    fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
    let mut parts = Vec::new();
    for table in &tables.list {
        check(&table.frame, table.source, table.group)?;
        for (node_type, rows) in by_node_type(&table.frame)? {
            let digest = digest(&rows, table.group, plan);
            parts.push((table, node_type, rows, digest));
        }
        write::table(&folder, table, plan)?;
    }
    let jobs: Vec<TrainerJob<'_>> = parts
        .iter()
        .flat_map(|(table, node_type, rows, digest)| {
            let job = move |trainer: &PowerTrainer| TrainerJob {
                table,
                rows,
                trainer: *trainer,
                node_type: *node_type,
                digest,
            };
            plan.trainers(table.output_type).iter().map(job)
        })
        .collect();
    let mut outcome =
        TrainingOutcome { folder: folder.clone(), entries: Vec::new(), warnings: tables.warnings.clone() };
    let few: Vec<usize> =
        parts.iter().map(|part| part.2.len()).filter(|rows| *rows < MIN_INTERVAL_ROWS).collect();
    if let Some(least) = few.iter().min() {
        let (few, all) = (few.len(), parts.len());
        outcome.warnings.push(format!(
            "{few} of {all} tables have fewer than {MIN_INTERVAL_ROWS} rows, the least {least}: predictors trained on them have no intervals"
        ));
    }
    let was_stopped = work(&jobs, plan, &folder, progress, &mut outcome);
    outcome.entries.sort_by(|trained_entry, two| {
        let place = |entry: &TrainedEntry| (entry.source, entry.output_type, entry.group.name());
        place(trained_entry).cmp(&place(two)).then(trained_entry.mae().total_cmp(&two.mae()))
    });
    if was_stopped {
        return Err(Error::Stopped { done: outcome.entries.len(), of: jobs.len() });
    }
    if outcome.entries.is_empty() {
        return Err(Error::table(format!("no predictor could be trained: {}", outcome.warnings.join("; "))));
    }
    write::pipeline(&folder, plan)?;
    Ok(outcome)
}

/// Runs all jobs; returns whether the training was stopped early.
fn work(
    jobs: &[TrainerJob<'_>],
    plan: &PipelinePlan,
    folder: &Path,
    progress: &mut dyn FnMut(TrainingStep<'_>) -> ControlFlow<()>,
    outcome: &mut TrainingOutcome,
) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if plan.threads == 0 { cores } else { plan.threads }.clamp(1, 64).min(jobs.len().max(1));
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (to, from) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (to, next, stop) = (to.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    if to.send((job, train_or_keep(job, plan, folder))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(to);
        let mut done = 0;
        // Predictors skipped for the same reason share one warning.
        let mut left: Vec<(String, Vec<String>)> = Vec::new();
        for (job, result) in from {
            done += 1;
            let label = job.label();
            match result {
                Ok(entry) => outcome.entries.push(entry),
                Err(error) => {
                    let why = error.to_string();
                    match left.iter_mut().find(|(known, _)| *known == why) {
                        Some((_, labels)) => labels.push(label.clone()),
                        None => left.push((why, vec![label.clone()])),
                    }
                }
            }
            if progress(TrainingStep { done, of: jobs.len(), name: &label }).is_break() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        outcome.warnings.extend(left.iter().map(|(why, labels)| describe_left_out(why, labels)));
        stop.load(Ordering::Relaxed) && done < jobs.len()
    })
}

/// Message about skipped predictors and the reason.
fn describe_left_out(why: &str, labels: &[String]) -> String {
    match labels {
        [only] => format!("{only} was left out: {why}"),
        [first, ..] => format!("{first} and {} more were left out: {why}", labels.len() - 1),
        [] => why.to_string(),
    }
}

/// Returns an existing predictor, or trains one.
fn train_or_keep(job: &TrainerJob<'_>, plan: &PipelinePlan, folder: &Path) -> Result<TrainedEntry, Error> {
    let table = job.table;
    let place = write::place(folder, table, &job.name());
    let before =
        fs::read(place.join("predictor.json")).ok().and_then(|bytes| PowerPredictorFile::read(&bytes).ok());
    let entry = |state, held_out| TrainedEntry {
        source: table.source,
        output_type: table.output_type,
        group: table.group,
        name: job.name(),
        state,
        rows: job.rows.len(),
        held_out,
    };
    if let Some(before) = before.as_ref().filter(|_| write::digest_of(&place).as_deref() == Some(job.digest))
    {
        let mut held_out: Vec<ComponentHeldOut> =
            before.components.values().map(|part| part.held_out.clone()).collect();
        held_out.sort_by(|out, two| two.mape.unwrap_or(0.0).total_cmp(&out.mape.unwrap_or(0.0)));
        return Ok(entry(TrainedState::Kept, held_out));
    }
    let settings = TrainerSettings {
        validation: plan.validation,
        is_additive: plan.is_dyn_additive && table.output_type == OutputType::DynPower,
        ..TrainerSettings::new(job.trainer, table.group.features(), table.source.components())
    };
    let trained = trainers::train(job.rows, &settings, before.as_ref())?;
    let state = match (trained.is_continued, before.is_some()) {
        (true, _) => TrainedState::Continued,
        (false, true) => TrainedState::Anew,
        (false, false) => TrainedState::New,
    };
    let entry = entry(state, trained.held_out.clone());
    let spec =
        crate::pipeline::read_node_types(folder)?.0.get(&job.node_type).map(|entry| entry.spec.clone());
    write::model(&place, &entry, &trained, spec.as_ref(), job.digest)?;
    Ok(entry)
}

/// Rows of each node type; type 0 if the table has no node type column.
fn by_node_type(frame: &FeatureFrame) -> Result<Vec<(u32, FeatureFrame)>, Error> {
    let Some(types) = frame.column("node_type") else { return Ok(vec![(0, frame.clone())]) };
    let mut all: std::collections::BTreeMap<u32, Vec<usize>> = std::collections::BTreeMap::new();
    for (row, value) in types.iter().enumerate() {
        let is_type = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(value);
        if !is_type {
            let why = format!("row {}: node_type is {value}; want a whole number from 0", row + 1);
            return Err(Error::table(why));
        }
        all.entry(*value as u32).or_default().push(row);
    }
    Ok(all.into_iter().map(|(node_type, rows)| (node_type, frame.select(&rows))).collect())
}

/// Digest of the rows and the validation: equal digests mean equal predictors.
fn digest(rows: &FeatureFrame, group: FeatureGroup, plan: &PipelinePlan) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("metier.power-training/1\n{}\n{:?}\n", group.name(), plan.validation));
    if plan.is_dyn_additive {
        hash.update("additive\n");
    }
    let names: Vec<&str> = rows.names().collect();
    hash.update(names.join("\n"));
    for values in
        std::iter::once(rows.timestamps.as_slice()).chain(names.iter().filter_map(|name| rows.column(name)))
    {
        for value in values {
            hash.update(value.to_bits().to_le_bytes());
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
