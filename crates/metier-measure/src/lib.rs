//! Runs a workload and measures what it used.
//!
//! The truth comes from the kernel: the run gets a control group of its own, and the exact counters are read
//! once at its end. Samples are taken only for the picture over time. Where no group can be had, `wait4` and a
//! child subreaper stand in, and the record's `quality` and `missing` say what that costs.
//!
//! The life of a run is in [`session`]; everything else here is a source that it asks: [`cgroup`] for what the
//! run used, [`events`] for its processes, [`host`] for what went on around it, [`sensors`] and [`gpu`] for
//! energy, [`device_mapping`] for where it happened. [`consumers`] and [`counters`] are asked without any
//! run: who uses the processors of this host now, and what these count. A source that is not there degrades the record, never stops it.

pub mod app;
mod artefacts;
pub mod doctor;
mod error;
pub mod http_get;
mod instruments;
mod launcher;
pub mod leftovers;
pub mod observer;
mod options;
mod process_walker;
mod record;
pub mod recorder;
mod run_facts;
pub mod runner;
pub mod running_target;
pub mod session;
pub mod spec;
pub mod stacks;
mod stopper;
pub mod target_facts;
mod timeline;
mod trust_warnings;
mod verdict;
pub mod workload_identity;

pub use error::Error;
pub use observer::{ArtefactKeeper, ObserverProvision, ReadyRun, RunObserver};
pub use options::MeasureOptions;
pub use recorder::{NoRecorder, RunRecorder, StoreRecorder};
pub use session::{BatchStop, FinishedRun, MeasureSession};
pub use spec::{CommandSpec, RunSpec, RunTarget};
pub use stopper::SessionStopper;
pub use target_facts::TargetFacts;
pub use verdict::verdict;
