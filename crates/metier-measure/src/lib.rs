//! Runs a workload and measures what it used.
//!
//! The truth comes from the kernel: the run gets a control group of its own, and the exact counters are read
//! once at its end. Samples are taken only for the picture over time. Where no group can be had, `wait4` and a
//! child subreaper stand in, and the record's `quality` and `missing` say what that costs.
//!
//! The life of a run is in [`session`]; everything else here is a source that it asks: [`cgroup`] for what the
//! run used, [`events`] for its processes, [`host`] for what went on around it, [`sensors`] and [`gpu`] for
//! energy, [`device`] for where it happened. [`consumers`] and [`counters`] are asked without any
//! run: who uses the processors of this host now, and what these count. A source that is not there degrades the record, never stops it.

pub mod app;
mod artefacts;
pub mod doctor;
mod error;
mod facts;
pub mod http_get;
mod instruments;
mod launch;
pub mod leftovers;
pub mod observer;
mod options;
mod record;
pub mod recorder;
pub mod runner;
pub mod running_target;
pub mod session;
pub mod spec;
pub mod stacks;
mod stop;
pub mod target_facts;
mod timeline;
mod tree;
mod trust;
mod verdict;
pub mod workload_identity;

pub use error::Error;
pub use observer::{Keep, Observer, Provision, Ready};
pub use options::Options;
pub use recorder::{NoRecorder, Recorder, StoreRecorder};
pub use session::{Finished, Session, Stop};
pub use spec::{Command, Spec, Target};
pub use stop::Stopper;
pub use target_facts::TargetFacts;
pub use verdict::verdict;
