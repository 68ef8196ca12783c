//! The measuring abilities of this host. The caller of this crate supplies the checks, since the
//! server does not measure.

use metier_types::schema::{RecordSchema, VersionedRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::SharedAppState;
use crate::config::DoctorCheck;
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};

/// What metier can measure on this host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// `metier.doctor/1`.
    pub schema: RecordSchema<DoctorReport>,
    /// The checks and their results.
    pub checks: Vec<DoctorCheck>,
}

impl VersionedRecord for DoctorReport {
    const SCHEMA: &'static str = "metier.doctor/1";
}

/// Runs the checks that the server was given.
pub fn run_doctor(app: &SharedAppState, _: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let Some(doctor) = &app.config.doctor else {
        return Err(ProblemDetails::unavailable(
            "this server was started without checks of its host; `metier doctor` shows them",
        ));
    };
    HandlerResponse::json(&DoctorReport { schema: RecordSchema::new(), checks: doctor() })
}
