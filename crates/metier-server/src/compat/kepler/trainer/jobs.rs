//! Trainings: one at a time, a few that wait, and the last that are done, with their results.
//!
//! Each is learned in a folder of its own below one that goes with [`Jobs`]; what is kept of it is the zip. The thread that learns is started by the first and
//! ends with the last, so that a door nobody asks costs nothing.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metier_power::catalog::PipelineCatalog;
use metier_power::isolate::Isolator;
use metier_power::pipeline;
use metier_power::profile::Idle;
use metier_power::stored::PipelineRecorder;
use metier_power::training::{self, Known, Outcome, Plan};
use metier_types::{LockUnpoisoned, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::request::Train;

/// Trainings that wait; each holds its response in memory.
const WAITING: usize = 4;
/// Trainings that are remembered after their end.
const KEPT: usize = 16;

/// How far one has come.
#[derive(Debug, Clone)]
pub enum State {
    /// Others are before it.
    Waiting,
    /// Predictors done, in all, and the latest.
    Learning(usize, usize, String),
    /// Where the zip is, and what is in it.
    Done(PathBuf, Arc<Value>),
    Failed(Fault),
    Stopped,
}

/// Why nothing was learned.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The field of the request that it is about; `None` where it is not about the request.
    pub field: Option<&'static str>,
    pub why: String,
}

impl Fault {
    fn of(error: &metier_power::Error) -> Self {
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

impl State {
    fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Learning(..) => "learning",
            Self::Done(..) => "done",
            Self::Failed(_) => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Learning(..))
    }
}

pub struct Job {
    pub id: u64,
    pub name: String,
    asked: Timestamp,
    state: watch::Sender<State>,
    stop: AtomicBool,
    input: Mutex<Option<Train>>,
    ended: Ended,
}

/// How many were done, failed and stopped.
type Ended = Arc<[AtomicU64; 3]>;

impl Job {
    /// How far it has come.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Asks it to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.state.send_if_modified(|state| {
            let waits = matches!(state, State::Waiting);
            if waits {
                // Counted before it is seen to be over.
                self.ended[2].fetch_add(1, Ordering::SeqCst);
                *state = State::Stopped;
                drop(self.input.lock_unpoisoned().take());
            }
            waits
        });
    }

    /// Begins it, unless somebody ended it while it waited.
    fn begin(&self) -> Option<Train> {
        let begins = self.state.send_if_modified(|state| {
            let waits = matches!(state, State::Waiting);
            if waits {
                *state = State::Learning(0, 0, String::new());
            }
            waits
        });
        self.input.lock_unpoisoned().take().filter(|_| begins)
    }

    /// Waits for its end.
    pub async fn over(&self) -> State {
        let mut state = self.state.subscribe();
        let over = state.wait_for(State::is_over).await;
        over.map_or(State::Stopped, |state| state.clone())
    }

    pub fn to_json(&self) -> Value {
        let state = self.state();
        let mut out = json!({ "schema": "metier.power-training/1", "id": self.id, "name": self.name, "asked": self.asked.to_string(), "state": state.word() });
        match &state {
            State::Learning(done, of, latest) => {
                out["progress"] = json!({ "done": done, "of": of, "latest": latest });
            }
            State::Done(_, about) => {
                out["result"] = json!(format!("/jobs/{}/result", self.id));
                out["predictors"] = about["predictors"].clone();
                out["warnings"] = about["warnings"].clone();
            }
            State::Failed(fault) => out["detail"] = json!(fault.why),
            State::Waiting | State::Stopped => {}
        }
        out
    }
}

#[derive(Default)]
struct Desk {
    next: u64,
    all: VecDeque<Arc<Job>>,
    is_working: bool,
}

impl Desk {
    /// Forgets the oldest that are over.
    fn forget(&mut self) {
        while self.all.iter().filter(|job| job.state().is_over()).count() > KEPT {
            let Some(at) = self.all.iter().position(|job| job.state().is_over()) else { return };
            if let Some(State::Done(zip, _)) = self.all.remove(at).map(|job| job.state()) {
                let _ = std::fs::remove_file(zip);
            }
        }
    }
}

pub struct Jobs {
    shelf: Arc<PipelineCatalog>,
    recorder: Option<PipelineRecorder>,
    folder: tempfile::TempDir,
    desk: Mutex<Desk>,
    ended: Ended,
}

impl Jobs {
    /// None yet. The predictors are those that an isolator may ask; what is learned is recorded.
    pub fn new(
        shelf: Arc<PipelineCatalog>,
        recorder: Option<PipelineRecorder>,
    ) -> std::io::Result<Arc<Self>> {
        let folder = tempfile::Builder::new().prefix("metier-train-").tempdir()?;
        Ok(Arc::new(Self { shelf, recorder, folder, desk: Mutex::default(), ended: Ended::default() }))
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock_unpoisoned()
    }

    /// Takes one in; `None` where too many wait.
    pub fn add(self: &Arc<Self>, train: Train) -> Option<Arc<Job>> {
        let mut desk = self.desk();
        let waiting = desk.all.iter().filter(|job| matches!(job.state(), State::Waiting)).count();
        if waiting >= WAITING {
            return None;
        }
        desk.next += 1;
        let job = Arc::new(Job {
            id: desk.next,
            name: train.name.clone(),
            asked: Timestamp::now(),
            state: watch::Sender::new(State::Waiting),
            stop: AtomicBool::new(false),
            input: Mutex::new(Some(train)),
            ended: self.ended.clone(),
        });
        desk.all.push_back(job.clone());
        // Those that were ended while they waited are over, too.
        desk.forget();
        if !desk.is_working {
            let jobs = self.clone();
            let started =
                std::thread::Builder::new().name("metier-train".to_string()).spawn(move || jobs.work());
            match started {
                Ok(_) => desk.is_working = true,
                Err(error) => {
                    let why = format!("no thread can be started: {error}");
                    job.state.send_replace(State::Failed(Fault { field: None, why }));
                }
            }
        }
        Some(job)
    }

    /// The one of that number.
    pub fn get(&self, id: u64) -> Option<Arc<Job>> {
        self.desk().all.iter().find(|job| job.id == id).cloned()
    }

    /// All that are remembered, the latest first.
    pub fn list(&self) -> Vec<Arc<Job>> {
        self.desk().all.iter().rev().cloned().collect()
    }

    /// How many were done, failed and stopped.
    pub fn ended(&self) -> [u64; 3] {
        [0, 1, 2].map(|place| self.ended[place].load(Ordering::SeqCst))
    }

    pub fn stop(&self) {
        self.desk().all.iter().for_each(|job| job.stop());
    }

    fn next(&self) -> Option<Arc<Job>> {
        let mut desk = self.desk();
        let next = desk.all.iter().find(|job| matches!(job.state(), State::Waiting)).cloned();
        desk.is_working = next.is_some();
        next
    }

    fn work(self: Arc<Self>) {
        while let Some(job) = self.next() {
            let Some(train) = job.begin() else { continue };
            let state = self.learn(&job, train);
            let place = match &state {
                State::Done(..) => 0,
                State::Failed(_) => 1,
                _ => 2,
            };
            // Counted before it is seen to be over.
            self.ended[place].fetch_add(1, Ordering::SeqCst);
            job.state.send_replace(state);
            self.desk().forget();
        }
    }

    fn learn(&self, job: &Job, train: Train) -> State {
        let root = self.folder.path().join(job.id.to_string());
        let learned = self.learn_in(job, train, &root);
        let state = match learned {
            Ok(outcome) => {
                if let Some(recorder) = &self.recorder {
                    recorder.record_aside(&outcome.folder);
                }
                let zip = self.folder.path().join(format!("{}.zip", job.id));
                match pipeline::pack_file(&outcome.folder, &zip) {
                    Ok(()) => State::Done(zip, Arc::new(about(&outcome))),
                    Err(error) => State::Failed(Fault::of(&error)),
                }
            }
            Err(metier_power::Error::Stopped { .. }) => State::Stopped,
            Err(error) => State::Failed(Fault::of(&error)),
        };
        let _ = std::fs::remove_dir_all(&root);
        state
    }

    fn learn_in(
        &self,
        job: &Job,
        train: Train,
        root: &std::path::Path,
    ) -> Result<Outcome, metier_power::Error> {
        let plan = Plan {
            isolator: train.trainer.isolator,
            hints: train.trainer.hints,
            sources: train.source.into_iter().collect(),
            abs_trainers: train.trainer.abs_trainers,
            dyn_trainers: train.trainer.dyn_trainers,
            vm: train.vm,
            ..Plan::new(&train.name, Timestamp::now())
        };
        let idle = train.trainer.idle.as_ref().filter(|_| plan.isolator == Isolator::Profile);
        let idle = idle.map(Idle::of).transpose()?;
        let registry = self.shelf.registry();
        let judges = match &train.trainer.abs_pipeline {
            Some(name) => Some(registry.named(name).ok_or_else(|| metier_power::Error::Word {
                field: "abs_pipeline_name",
                got: name.clone(),
                want: "a pipeline that is there".to_string(),
            })?),
            None => None,
        };
        let known = Known { idle: idle.as_ref(), judges: judges.map(|pipeline| &**pipeline) };
        let mut progress = |step: training::Step<'_>| {
            job.state.send_replace(State::Learning(step.done, step.of, step.name.to_string()));
            if job.stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let response = train.response.unwrap_or_default();
        training::train_from_responses(std::slice::from_ref(&response), known, &plan, root, &mut progress)
    }
}

/// What is in a zip: every predictor with its errors, the worst component first.
fn about(outcome: &Outcome) -> Value {
    let predictors: Vec<Value> = outcome.entries.iter().map(training::Entry::record).collect();
    json!({ "predictors": predictors, "warnings": outcome.warnings })
}
