//! The shared types of metier: quantities with units, identifiers and records.
//!
//! Invariants of every record:
//! - A value that the host could not measure is `None`, never 0, and a [`Missing`] entry gives the
//!   reason.
//! - Every top-level JSON object has a `schema` field; within a major version fields are only
//!   added.
//! - Unknown fields survive a read and a write (`extra` in each record).
//!
//! This crate does no I/O and depends on no other crate of the workspace.

#![warn(missing_docs)]

pub mod application;
pub mod context;
pub mod device;
pub mod host;
pub mod id;
pub mod missing;
pub mod passport;
pub mod prediction;
pub mod predictor;
pub mod process;
pub mod quality;
pub mod quantity;
pub mod random;
pub mod run;
pub mod run_list;
pub mod schema;
pub mod series;
pub mod session;
pub mod unpoisoned;
pub mod words;
pub mod workload;

pub use application::{Intake, Stage, StageKind, StageSource};
pub use context::{
    Company, Context, DatasetUse, GraphUse, ImageUse, Method, PageCache, Phase, PodRef, Role, Sampling,
};
pub use device::{Cache, Cpu, Device, DeviceClass, DeviceRef};
pub use host::{HostReading, HostState};
pub use id::{BatchId, DeviceId, Digest, IdError, RunId, SessionId, WorkloadId};
pub use missing::{Missing, MissingFields};
pub use passport::{
    AcceleratorRate, Bandwidth, ComputeRate, Latency, Origin, Passport, PassportUse, Precision, StorageRate,
    Throttling,
};
pub use prediction::{Interval, Prediction, PredictionError};
pub use predictor::{HeldOut, Predictor, Standing};
pub use process::{Process, ProcessSource, ProcessTree};
pub use quality::{Quality, QualityFields};
pub use quantity::{Bytes, Celsius, Hertz, Joules, Ratio, Seconds, Watts};
pub use run::{
    ArtefactRef, Cause, CpuUse, EnergyUse, Exit, GpuUse, IoUse, MemoryUse, Meter, NetworkUse, Overhead,
    Pressure, Run, RunState, Summary, Warning,
};
pub use run_list::{RunList, RunRow};
pub use schema::Schema;
pub use series::{Column, Kind, Series, Unit, Values};
pub use session::{Asker, Door, Session, SessionState};
pub use unpoisoned::{LockUnpoisoned, ShareUnpoisoned};
pub use workload::{Workload, WorkloadKind, WorkloadRef};

/// Fields of a JSON object that this version does not define, kept so that a round trip loses
/// nothing.
pub type Extra = serde_json::Map<String, serde_json::Value>;

/// A time, written as RFC 3339 in UTC.
pub type Timestamp = jiff::Timestamp;
