//! Configuration of the server.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::http::config::HttpConfig;
use crate::placement_cache::SopranoConfig;
use crate::power::NodePowerConfig;

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheck {
    /// Name of the check.
    pub name: String,
    /// Whether it passed.
    pub ok: bool,
    /// Its finding.
    pub text: String,
    /// The exact step that fixes it, if there is one.
    pub fix: Option<String>,
}

/// The checks behind `/api/v1/doctor`. They may block; only one call runs at a time.
pub type DoctorCallback = Arc<dyn Fn() -> Vec<DoctorCheck> + Send + Sync>;

/// A job of the Jenkins-compatible interface, with its defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct JenkinsJobConfig {
    pub name: String,
    /// Id or name of the device for its sessions.
    pub device: Option<String>,
    /// Defaults of its runs: fields of a run file, as written there.
    pub defaults: serde_json::Map<String, serde_json::Value>,
}

impl JenkinsJobConfig {
    /// Defaults of a job without a run file of its own. The time limit keeps an endless application
    /// from holding the device for ever; live metrics of the application are recorded.
    pub fn default_fields() -> serde_json::Map<String, serde_json::Value> {
        let fields = serde_json::json!({ "timeout": "10m", "listen": { "socket": true, "pywaggle": true } });
        fields.as_object().cloned().unwrap_or_default()
    }
}

impl std::str::FromStr for JenkinsJobConfig {
    type Err = Error;
    /// `NAME` or `NAME=DEVICE`.
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

/// Configuration of the server.
#[derive(Clone)]
pub struct Config {
    pub http: HttpConfig,
    /// The jobs of the Jenkins-compatible interface; without any, every name is accepted.
    pub jobs: Vec<JenkinsJobConfig>,
    /// Program and version, for `/metrics` and `/openapi.json`.
    pub version: String,
    /// What metier can measure on this host.
    pub doctor: Option<DoctorCallback>,
    /// The SOPRANO profiler's interface.
    pub soprano: SopranoConfig,
    /// Power monitoring of this node; `None` disables it.
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
