//! The shared types of metier: quantities with units, identifiers and records.
//!
//! Invariants of every record:
//! - A value that the host could not measure is `None`, never 0, and a [`MissingReason`] entry
//!   gives the reason.
//! - Every top-level JSON object has a `schema` field; within a major version fields are only
//!   added.
//! - Unknown fields survive a read and a write (`extra` in each record).
//!
//! This crate does no I/O and depends on no other crate of the workspace.

#![warn(missing_docs)]

pub mod application;
pub mod context;
pub mod device;
pub mod host_state;
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
pub mod unpoisoned_lock;
pub mod words;
pub mod workload;

pub use application::{AppStage, IntakeSummary, StageKind, StageSource};
pub use context::{
    AccountingMethod, CoRunner, CoRunnerKind, DatasetUse, GraphUse, ImageUse, PageCacheState, PodRef,
    RunAlternation, RunContext, RunPhase, SamplingSummary,
};
pub use device::{CpuCache, CpuDescription, Device, DeviceClass, DeviceRef};
pub use host_state::{HostReading, HostState};
pub use id::{BatchId, ContentDigest, DeviceId, IdError, RunId, SessionId, WorkloadId};
pub use missing::{MissingFields, MissingReason};
pub use passport::{
    AcceleratorRate, ComputeRate, MemoryBandwidth, MemoryLatency, NumberPrecision, Passport, PassportOrigin,
    PassportUse, StorageRate, ThrottlingResult,
};
pub use prediction::{Prediction, PredictionError, PredictionInterval};
pub use predictor::{HeldOutError, Predictor, PredictorStanding};
pub use process::{ProcessRecord, ProcessSource, ProcessTree};
pub use quality::{QualityFields, ValueQuality};
pub use quantity::{Bytes, Celsius, Cores, Hertz, Joules, Ratio, Seconds, Watts};
pub use run::{
    ArtefactRef, CpuUse, EnergyMeterReading, EnergyUse, ExitCause, GpuUse, IoUse, MeasurementOverhead,
    MemoryUse, NetworkUse, PressureTimes, Run, RunExit, RunState, RunSummary, RunWarning, is_counted_run,
};
pub use run_list::{RunList, RunRow};
pub use schema::RecordSchema;
pub use series::{ColumnKind, ColumnUnit, ColumnValues, Series, SeriesColumn};
pub use session::{SessionOrigin, SessionRecord, SessionRequester, SessionState};
pub use unpoisoned_lock::{LockUnpoisoned, ShareUnpoisoned};
pub use workload::{Workload, WorkloadKind, WorkloadRef};

/// Fields of a JSON object that this version does not define, kept so that a round trip loses
/// nothing.
pub type ExtraFields = serde_json::Map<String, serde_json::Value>;

/// A time, written as RFC 3339 in UTC.
pub type UtcTimestamp = jiff::Timestamp;
