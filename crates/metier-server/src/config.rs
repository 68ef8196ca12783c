//! What the server is told at its start.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::http::config::HttpConfig;
use crate::placement_cache::SopranoConfig;
use crate::power::NodePowerConfig;

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheck {
    /// What was checked.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub text: String,
    /// The exact step that would put it right, if there is one.
    pub fix: Option<String>,
}

/// What `/api/v1/doctor` asks. It may block; it is asked once at a time.
pub type DoctorCallback = Arc<dyn Fn() -> Vec<DoctorCheck> + Send + Sync>;

/// A job of the Jenkins-shaped door, with its defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct JenkinsJobConfig {
    pub name: String,
    /// Id or name of the device that its sessions are for.
    pub device: Option<String>,
    /// What its runs have beside what is sent: fields of a run file, as it is written out.
    pub defaults: serde_json::Map<String, serde_json::Value>,
}

impl JenkinsJobConfig {
    /// What a job has that has no run file of its own: an application that never ends must not keep the device for ever, and
    /// what it says of itself is listened to.
    pub fn default_fields() -> serde_json::Map<String, serde_json::Value> {
        let fields = serde_json::json!({ "timeout": "10m", "listen": { "socket": true, "pywaggle": true } });
        fields.as_object().cloned().unwrap_or_default()
    }
}

impl std::str::FromStr for JenkinsJobConfig {
    type Err = Error;
    /// `WANT_NAME` or `NAME=DEVICE`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, device) = match text.split_once('=') {
            Some((name, device)) => (name, Some(device)),
            None => (text, None),
        };
        let is_device = device.is_none_or(|device| device.parse::<metier_types::DeviceId>().is_ok());
        if !is_device || !crate::http::parameter::ParameterForm::Job.accepts(name) {
            return Err(Error::BadJob { got: crate::http::problem::shorten_text(text) });
        }
        Ok(Self {
            name: name.to_string(),
            device: device.map(str::to_string),
            defaults: Self::default_fields(),
        })
    }
}

/// What the server is told at its start.
#[derive(Clone)]
pub struct Config {
    pub http: HttpConfig,
    /// The jobs of the Jenkins-shaped door; where there are none, any name is one.
    pub jobs: Vec<JenkinsJobConfig>,
    /// Program and version, for `/metrics` and `/openapi.json`.
    pub version: String,
    /// What this host lets us measure.
    pub doctor: Option<DoctorCallback>,
    /// The SOPRANO profiler's doors.
    pub soprano: SopranoConfig,
    /// What the power of this node is found with; `None` where nobody looks at it.
    pub power: Option<NodePowerConfig>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("http", &self.http)
            .field("jobs", &self.jobs)
            .field("version", &self.version)
            .field("doctor", &self.doctor.is_some())
            .field("soprano", &self.soprano)
            .field("power", &self.power)
            .finish()
    }
}

impl Default for Config {
    fn default() -> Self {
        HttpConfig::default().into()
    }
}

impl From<HttpConfig> for Config {
    fn from(http: HttpConfig) -> Self {
        Self {
            http,
            jobs: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            doctor: None,
            soprano: SopranoConfig::default(),
            power: None,
        }
    }
}
