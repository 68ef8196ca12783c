//! What this host lets us measure. The checks are the caller's: this room does not measure.

use metier_types::schema::{Schema, Versioned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::serve::App;
use crate::storage;

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub text: String,
    /// The exact step that would put it right, if there is one.
    pub fix: Option<String>,
}

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
        return Err(storage::unavailable(
            "this server was started without checks of its host; `metier doctor` shows them",
        ));
    };
    Reply::json(&Diagnosis { schema: Schema::new(), checks: doctor() })
}
