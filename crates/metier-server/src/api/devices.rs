//! Devices and workloads.

use metier_types::schema::{Schema, Versioned};
use metier_types::{Device, DeviceId, Workload};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::storage;

/// All devices.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeviceList {
    /// `metier.devices/1`.
    pub schema: Schema<DeviceList>,
    /// The devices, by name.
    pub devices: Vec<Device>,
}

impl Versioned for DeviceList {
    const SCHEMA: &'static str = "metier.devices/1";
}

/// All workloads.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkloadList {
    /// `metier.workloads/1`.
    pub schema: Schema<WorkloadList>,
    /// The workloads, by name.
    pub workloads: Vec<Workload>,
}

impl Versioned for WorkloadList {
    const SCHEMA: &'static str = "metier.workloads/1";
}

pub fn devices(app: &App, _: &Call) -> Result<Reply, Problem> {
    let devices = app.storage.store()?.devices().map_err(storage::problem)?;
    Reply::json(&DeviceList { schema: Schema::new(), devices })
}

pub fn device(app: &App, call: &Call) -> Result<Reply, Problem> {
    let id: DeviceId = call.arguments.needed("id")?;
    let device = app.storage.store()?.device(&id).map_err(storage::problem)?;
    Reply::json(&device.ok_or_else(|| Problem::not_found("device", id.as_str()))?)
}

pub fn workloads(app: &App, _: &Call) -> Result<Reply, Problem> {
    let workloads = app.storage.store()?.workloads().map_err(storage::problem)?;
    Reply::json(&WorkloadList { schema: Schema::new(), workloads })
}
