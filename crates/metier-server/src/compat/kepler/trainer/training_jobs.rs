//! Trainings: one runs at a time, a few wait, and the last finished ones stay with their results.
//!
//! Each training has a folder of its own below one that is removed with [`TrainingJobQueue`]; only
//! its zip stays. The first training starts the thread and the last one ends it, so that an unused
//! trainer costs nothing.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metier_linux::scratch_folder::ScratchFolder;
use metier_power::catalog::PipelineCatalog;
use metier_power::isolate::PowerIsolator;
use metier_power::pipeline;
use metier_power::profile::IdleProfile;
use metier_power::stored_pipelines::TrainedPipelineRecorder;
use metier_power::training::{self, PipelinePlan, TrainingKnowledge, TrainingOutcome};
use metier_types::{LockUnpoisoned, UtcTimestamp};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::train_request::TrainRequest;

/// Most waiting trainings; each holds its response in memory.
const MAX_WAITING_JOBS: usize = 4;
/// Finished trainings that stay listed.
const MAX_REMEMBERED_JOBS: usize = 16;

/// Progress of a training.
#[derive(Debug, Clone)]
pub enum TrainingState {
    /// It waits for others.
    Waiting,
    /// Predictors done, their total, and the latest.
    Learning(usize, usize, String),
    /// Path of the zip, and a description of its content.
    Done(PathBuf, Arc<Value>),
    Failed(TrainingFault),
    Stopped,
}

/// Why a training failed.
#[derive(Debug, Clone)]
pub struct TrainingFault {
    /// The request field at fault; `None` if the request is not the cause.
    pub field: Option<&'static str>,
    pub why: String,
}

impl TrainingFault {
    fn from_error(error: &metier_power::Error) -> Self {
        use metier_power::Error;
        let field = match error {
            Error::Word { field: "energy source", .. } => Some("energy_source"),
            Error::Word { field: "abs_pipeline_name", .. } => Some("trainer.isolator_args.abs_pipeline_name"),
            Error::File { .. } => None,
            _ => Some("prom_response"),
        };
        Self { field, why: error.to_string() }
    }
}

impl TrainingState {
    fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Learning(..) => "learning",
            Self::Done(..) => "done",
            Self::Failed(_) => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the state is final.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Learning(..))
    }
}

pub struct TrainingJob {
    pub id: u64,
    pub name: String,
    asked: UtcTimestamp,
    state: watch::Sender<TrainingState>,
    stop: AtomicBool,
    input: Mutex<Option<TrainRequest>>,
    ended: EndedTrainingCounts,
}

/// Number of trainings that were done, failed and stopped.
type EndedTrainingCounts = Arc<[AtomicU64; 3]>;

impl TrainingJob {
    /// Its current state.
    pub fn state(&self) -> TrainingState {
        self.state.borrow().clone()
    }

    /// Requests its end.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.state.send_if_modified(|state| {
            let waits = matches!(state, TrainingState::Waiting);
            if waits {
                // Counted before the final state becomes visible.
                self.ended[2].fetch_add(1, Ordering::SeqCst);
                *state = TrainingState::Stopped;
                drop(self.input.lock_unpoisoned().take());
            }
            waits
        });
    }

    /// Starts it, unless it was stopped while it waited.
    fn start(&self) -> Option<TrainRequest> {
        let begins = self.state.send_if_modified(|state| {
            let waits = matches!(state, TrainingState::Waiting);
            if waits {
                *state = TrainingState::Learning(0, 0, String::new());
            }
            waits
        });
        self.input.lock_unpoisoned().take().filter(|_| begins)
    }

    /// Waits for its end.
    pub async fn wait_until_over(&self) -> TrainingState {
        let mut state = self.state.subscribe();
        let over = state.wait_for(TrainingState::is_over).await;
        over.map_or(TrainingState::Stopped, |state| state.clone())
    }

    pub fn to_json(&self) -> Value {
        let state = self.state();
        let mut out = json!({ "schema": "metier.power-training/1", "id": self.id, "name": self.name, "asked": self.asked.to_string(), "state": state.name() });
        match &state {
            TrainingState::Learning(done, of, latest) => {
                out["progress"] = json!({ "done": done, "of": of, "latest": latest });
            }
            TrainingState::Done(_, about) => {
                out["result"] = json!(format!("/jobs/{}/result", self.id));
                out["predictors"] = about["predictors"].clone();
                out["warnings"] = about["warnings"].clone();
            }
            TrainingState::Failed(fault) => out["detail"] = json!(fault.why),
            TrainingState::Waiting | TrainingState::Stopped => {}
        }
        out
    }
}

#[derive(Default)]
struct TrainingQueue {
    next: u64,
    all: VecDeque<Arc<TrainingJob>>,
    is_working: bool,
}

impl TrainingQueue {
    /// Drops the oldest finished trainings.
    fn drop_oldest(&mut self) {
        while self.all.iter().filter(|job| job.state().is_over()).count() > MAX_REMEMBERED_JOBS {
            let Some(at) = self.all.iter().position(|job| job.state().is_over()) else { return };
            if let Some(TrainingState::Done(zip, _)) = self.all.remove(at).map(|job| job.state()) {
                let _ = std::fs::remove_file(zip);
            }
        }
    }
}

pub struct TrainingJobQueue {
    shelf: Arc<PipelineCatalog>,
    recorder: Option<TrainedPipelineRecorder>,
    folder: ScratchFolder,
    desk: Mutex<TrainingQueue>,
    ended: EndedTrainingCounts,
}

impl TrainingJobQueue {
    /// An empty queue. Isolators use the predictors of the catalog; results are recorded.
    pub fn new(
        shelf: Arc<PipelineCatalog>,
        recorder: Option<TrainedPipelineRecorder>,
    ) -> std::io::Result<Arc<Self>> {
        let folder = ScratchFolder::new("train")?;
        Ok(Arc::new(Self {
            shelf,
            recorder,
            folder,
            desk: Mutex::default(),
            ended: EndedTrainingCounts::default(),
        }))
    }

    fn lock_queue(&self) -> MutexGuard<'_, TrainingQueue> {
        self.desk.lock_unpoisoned()
    }

    /// Adds a training; `None` if too many wait.
    pub fn add(self: &Arc<Self>, train: TrainRequest) -> Option<Arc<TrainingJob>> {
        let mut desk = self.lock_queue();
        let waiting = desk.all.iter().filter(|job| matches!(job.state(), TrainingState::Waiting)).count();
        if waiting >= MAX_WAITING_JOBS {
            return None;
        }
        desk.next += 1;
        let job = Arc::new(TrainingJob {
            id: desk.next,
            name: train.name.clone(),
            asked: UtcTimestamp::now(),
            state: watch::Sender::new(TrainingState::Waiting),
            stop: AtomicBool::new(false),
            input: Mutex::new(Some(train)),
            ended: self.ended.clone(),
        });
        desk.all.push_back(job.clone());
        // Trainings that were stopped while waiting are finished, too.
        desk.drop_oldest();
        if !desk.is_working {
            let jobs = self.clone();
            let started =
                std::thread::Builder::new().name("metier-train".to_string()).spawn(move || jobs.run_jobs());
            match started {
                Ok(_) => desk.is_working = true,
                Err(error) => {
                    let why = format!("no thread can be started: {error}");
                    job.state.send_replace(TrainingState::Failed(TrainingFault { field: None, why }));
                }
            }
        }
        Some(job)
    }

    /// The training with this number.
    pub fn get(&self, id: u64) -> Option<Arc<TrainingJob>> {
        self.lock_queue().all.iter().find(|job| job.id == id).cloned()
    }

    /// All listed trainings, latest first.
    pub fn list(&self) -> Vec<Arc<TrainingJob>> {
        self.lock_queue().all.iter().rev().cloned().collect()
    }

    /// Number of trainings that were done, failed and stopped.
    pub fn ended_counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|place| self.ended[place].load(Ordering::SeqCst))
    }

    pub fn stop_all(&self) {
        self.lock_queue().all.iter().for_each(|job| job.request_stop());
    }

    fn next_waiting(&self) -> Option<Arc<TrainingJob>> {
        let mut desk = self.lock_queue();
        let next = desk.all.iter().find(|job| matches!(job.state(), TrainingState::Waiting)).cloned();
        desk.is_working = next.is_some();
        next
    }

    fn run_jobs(self: Arc<Self>) {
        while let Some(job) = self.next_waiting() {
            let Some(train) = job.start() else { continue };
            let state = self.train(&job, train);
            let place = match &state {
                TrainingState::Done(..) => 0,
                TrainingState::Failed(_) => 1,
                _ => 2,
            };
            // Counted before the final state becomes visible.
            self.ended[place].fetch_add(1, Ordering::SeqCst);
            job.state.send_replace(state);
            self.lock_queue().drop_oldest();
        }
    }

    fn train(&self, job: &TrainingJob, train: TrainRequest) -> TrainingState {
        let root = self.folder.path().join(job.id.to_string());
        let learned = self.train_in_folder(job, train, &root);
        let state = match learned {
            Ok(outcome) => {
                if let Some(recorder) = &self.recorder {
                    recorder.record_aside(&outcome.folder);
                }
                let zip = self.folder.path().join(format!("{}.zip", job.id));
                match pipeline::pack_file(&outcome.folder, &zip) {
                    Ok(()) => TrainingState::Done(zip, Arc::new(describe_outcome(&outcome))),
                    Err(error) => TrainingState::Failed(TrainingFault::from_error(&error)),
                }
            }
            Err(metier_power::Error::Stopped { .. }) => TrainingState::Stopped,
            Err(error) => TrainingState::Failed(TrainingFault::from_error(&error)),
        };
        let _ = std::fs::remove_dir_all(&root);
        state
    }

    fn train_in_folder(
        &self,
        job: &TrainingJob,
        train: TrainRequest,
        root: &std::path::Path,
    ) -> Result<TrainingOutcome, metier_power::Error> {
        let plan = PipelinePlan {
            isolator: train.trainer.isolator,
            hints: train.trainer.hints,
            sources: train.source.into_iter().collect(),
            abs_trainers: train.trainer.abs_trainers,
            dyn_trainers: train.trainer.dyn_trainers,
            vm: train.vm,
            ..PipelinePlan::new(&train.name, UtcTimestamp::now())
        };
        let idle = train.trainer.idle.as_ref().filter(|_| plan.isolator == PowerIsolator::Profile);
        let idle = idle.map(IdleProfile::of).transpose()?;
        let registry = self.shelf.registry();
        let judges = match &train.trainer.abs_pipeline {
            Some(name) => Some(registry.named(name).ok_or_else(|| metier_power::Error::Word {
                field: "abs_pipeline_name",
                got: name.clone(),
                want: "a pipeline that is there".to_string(),
            })?),
            None => None,
        };
        let known = TrainingKnowledge { idle: idle.as_ref(), judges: judges.map(|pipeline| &**pipeline) };
        let mut progress = |step: training::TrainingStep<'_>| {
            job.state.send_replace(TrainingState::Learning(step.done, step.of, step.name.to_string()));
            if job.stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let response = train.response.unwrap_or_default();
        training::train_from_responses(std::slice::from_ref(&response), known, &plan, root, &mut progress)
    }
}

/// Describes a zip: every predictor with its errors, the worst component first.
fn describe_outcome(outcome: &TrainingOutcome) -> Value {
    let predictors: Vec<Value> = outcome.entries.iter().map(training::TrainedEntry::record).collect();
    json!({ "predictors": predictors, "warnings": outcome.warnings })
}
