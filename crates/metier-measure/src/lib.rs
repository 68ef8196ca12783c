//! Runs a workload and measures its resource use.
//!
//! The kernel is the source of all totals: the run gets a control group of its own, and the exact
//! counters are read once at its end. Samples only serve the time line. Without a control group,
//! `wait4` and a child subreaper are used, and the record's `quality` and `missing` state the loss.
//!
//! [`session`] implements the life of a run, [`runner`] the kinds of targets. The sources are
//! control groups, process events and host state ([`metier_linux`]), energy meters and GPUs
//! ([`metier_device`]), application messages ([`app`]) and stack samples ([`stacks`]). An
//! unavailable source degrades the record and never stops it.

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
pub use trust_warnings::find_oom_warning;
pub use verdict::verdict;
