//! Has the trainers learn, several at once, and writes what they learned.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::tables::check;
use super::{Plan, Table, Tables, write};
use crate::Error;
use crate::frame::Frame;
use crate::trainers::{self, FEWEST_ROWS, HeldOut, Predictor, Settings};
use crate::vocabulary::{FeatureGroup, ModelName, OutputType, Source, Trainer};

/// What became of a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    New,
    /// Learned from other rows than before, going on from what was there.
    Continued,
    /// Learned from other rows than before, in the place of what was there.
    Anew,
    /// Learned from the same rows before, and left as it is.
    Kept,
}

impl State {
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
pub struct Entry {
    /// Where energy was read.
    pub source: Source,
    /// Whether idle power is part of it.
    pub output_type: OutputType,
    pub group: FeatureGroup,
    /// Trainer and node type.
    pub name: ModelName,
    /// What became of it.
    pub state: State,
    /// Rows that it was learned from.
    pub rows: usize,
    /// Errors on rows that were held out, the worst component first.
    pub held_out: Vec<HeldOut>,
}

impl Entry {
    /// The largest mean error of a component, in watts.
    pub fn mae(&self) -> f64 {
        self.held_out.iter().map(|one| one.mae).fold(0.0, f64::max)
    }

    /// The largest mean relative error of a component, in per cent; `None` where no component has rows above the floor.
    pub fn mape(&self) -> Option<f64> {
        self.held_out.iter().filter_map(|one| one.mape).reduce(f64::max).map(|ratio| ratio * 100.0)
    }

    /// As programs are told of it (`metier.power-training/1`): every `mae` in watts, every `mape` in per cent, `coverage` a share.
    pub fn record(&self) -> Value {
        let component = |one: &HeldOut| {
            json!({
                "component": one.component, "mae": one.mae, "mape": one.mape.map(|ratio| ratio * 100.0), "rows": one.rows,
                "rows_above_floor": one.rows_above_floor, "coverage": one.coverage, "width": one.width, "validation": one.validation,
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
pub struct Outcome {
    pub folder: PathBuf,
    /// Its predictors that this training made or found, by source, output type, group and error.
    pub entries: Vec<Entry>,
    /// What could not be learned, in words.
    pub warnings: Vec<String>,
}

/// How far it has come.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Predictors that are done, or failed.
    pub done: usize,
    pub of: usize,
    /// The latest: source, output type, group, name.
    pub name: &'a str,
}

struct Job<'a> {
    table: &'a Table,
    rows: &'a Frame,
    trainer: Trainer,
    node_type: u32,
    digest: &'a str,
}

impl Job<'_> {
    fn name(&self) -> ModelName {
        ModelName { trainer: self.trainer.name().to_string(), node_type: self.node_type }
    }

    fn label(&self) -> String {
        let table = self.table;
        format!("{} {} {} {}", table.source.name(), table.output_type.name(), table.group.name(), self.name())
    }
}

/// Learns every predictor of a plan from tables, into `root/<name>`. `progress` is told of each, and may end it: what is done by then stays, and is not done again.
pub fn train_pipeline(
    tables: &Tables,
    plan: &Plan,
    root: &Path,
    progress: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
) -> Result<Outcome, Error> {
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
    let jobs: Vec<Job<'_>> = parts
        .iter()
        .flat_map(|(table, node_type, rows, digest)| {
            let job = move |trainer: &Trainer| Job {
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
        Outcome { folder: folder.clone(), entries: Vec::new(), warnings: tables.warnings.clone() };
    let few: Vec<usize> = parts.iter().map(|part| part.2.len()).filter(|rows| *rows < FEWEST_ROWS).collect();
    if let Some(least) = few.iter().min() {
        let (few, all) = (few.len(), parts.len());
        outcome.warnings.push(format!(
            "{few} of {all} tables have fewer than {FEWEST_ROWS} rows, the least {least}: what is learned from them has no intervals"
        ));
    }
    let was_stopped = work(&jobs, plan, &folder, progress, &mut outcome);
    outcome.entries.sort_by(|one, two| {
        let place = |entry: &Entry| (entry.source, entry.output_type, entry.group.name());
        place(one).cmp(&place(two)).then(one.mae().total_cmp(&two.mae()))
    });
    if was_stopped {
        return Err(Error::Stopped { done: outcome.entries.len(), of: jobs.len() });
    }
    if outcome.entries.is_empty() {
        return Err(Error::table(format!("nothing could be learned: {}", outcome.warnings.join("; "))));
    }
    write::pipeline(&folder, plan)?;
    Ok(outcome)
}

/// Does all jobs; whether it was stopped before the last.
fn work(
    jobs: &[Job<'_>],
    plan: &Plan,
    folder: &Path,
    progress: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    outcome: &mut Outcome,
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
                    if to.send((job, one(job, plan, folder))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(to);
        let mut done = 0;
        // What several were left out for is said once.
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
            if progress(Step { done, of: jobs.len(), name: &label }).is_break() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        outcome.warnings.extend(left.iter().map(|(why, labels)| left_out(why, labels)));
        stop.load(Ordering::Relaxed) && done < jobs.len()
    })
}

/// Why predictors were left out, and which.
fn left_out(why: &str, labels: &[String]) -> String {
    match labels {
        [only] => format!("{only} was left out: {why}"),
        [first, ..] => format!("{first} and {} more were left out: {why}", labels.len() - 1),
        [] => why.to_string(),
    }
}

/// One predictor: what is there already, or what is learned now.
fn one(job: &Job<'_>, plan: &Plan, folder: &Path) -> Result<Entry, Error> {
    let table = job.table;
    let place = write::place(folder, table, &job.name());
    let before = fs::read(place.join("predictor.json")).ok().and_then(|bytes| Predictor::read(&bytes).ok());
    let entry = |state, held_out| Entry {
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
        let mut held_out: Vec<HeldOut> =
            before.components.values().map(|part| part.held_out.clone()).collect();
        held_out.sort_by(|one, two| two.mape.unwrap_or(0.0).total_cmp(&one.mape.unwrap_or(0.0)));
        return Ok(entry(State::Kept, held_out));
    }
    let settings = Settings {
        validation: plan.validation,
        is_additive: plan.is_dyn_additive && table.output_type == OutputType::DynPower,
        ..Settings::new(job.trainer, table.group.features(), table.source.components())
    };
    let trained = trainers::train(job.rows, &settings, before.as_ref())?;
    let state = match (trained.is_continued, before.is_some()) {
        (true, _) => State::Continued,
        (false, true) => State::Anew,
        (false, false) => State::New,
    };
    let entry = entry(state, trained.held_out.clone());
    let spec =
        crate::pipeline::read_node_types(folder)?.0.get(&job.node_type).map(|entry| entry.spec.clone());
    write::model(&place, &entry, &trained, spec.as_ref(), job.digest)?;
    Ok(entry)
}

/// The rows of each node type; all are of type 0 where no column says.
fn by_node_type(frame: &Frame) -> Result<Vec<(u32, Frame)>, Error> {
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

/// Which rows, and how they are held out: the same digest is the same predictor.
fn digest(rows: &Frame, group: FeatureGroup, plan: &Plan) -> String {
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
