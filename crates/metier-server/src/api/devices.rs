//! Devices and workloads.

use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{Device, DeviceId, Workload};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::SharedAppState;
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// All devices.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeviceList {
    /// `metier.devices/1`.
    pub schema: RecordSchema<DeviceList>,
    /// The devices, by name.
    pub devices: Vec<Device>,
}

impl VersionedRecord for DeviceList {
    const SCHEMA: &'static str = "metier.devices/1";
}

/// All workloads.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkloadList {
    /// `metier.workloads/1`.
    pub schema: RecordSchema<WorkloadList>,
    /// The workloads, by name.
    pub workloads: Vec<Workload>,
}

impl VersionedRecord for WorkloadList {
    const SCHEMA: &'static str = "metier.workloads/1";
}

pub fn list_devices(app: &SharedAppState, _: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let devices = app.storage.store()?.devices().map_err(storage::store_problem)?;
    HandlerResponse::json(&DeviceList { schema: RecordSchema::new(), devices })
}

pub fn get_device(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let id: DeviceId = call.arguments.required("id")?;
    let device = app.storage.store()?.device(&id).map_err(storage::store_problem)?;
    HandlerResponse::json(&device.ok_or_else(|| ProblemDetails::not_found("device", id.as_str()))?)
}

pub fn list_workloads(app: &SharedAppState, _: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let workloads = app.storage.store()?.workloads().map_err(storage::store_problem)?;
    HandlerResponse::json(&WorkloadList { schema: RecordSchema::new(), workloads })
}
