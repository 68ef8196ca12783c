//! What this host lets us measure. The checks are the caller's: this room does not measure.

use metier_types::schema::{Schema, Versioned};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::config::Check;
use crate::http::problem::Problem;
use crate::http::{Call, Reply};

/// What this host lets us measure.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// `metier.doctor/1`.
    pub schema: Schema<Diagnosis>,
    /// What was checked.
    pub checks: Vec<Check>,
}

impl Versioned for Diagnosis {
    const SCHEMA: &'static str = "metier.doctor/1";
}

/// Asks the checks that the server was given.
pub fn diagnosis(app: &App, _: &Call) -> Result<Reply, Problem> {
    let Some(doctor) = &app.config.doctor else {
        return Err(Problem::unavailable(
            "this server was started without checks of its host; `metier doctor` shows them",
        ));
    };
    Reply::json(&Diagnosis { schema: Schema::new(), checks: doctor() })
}
