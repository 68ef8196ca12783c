//! The request of `/api/profiling`, checked field by field; all faults are reported at once.
//!
//! It differs from the original: a missing, negative or non-numeric value is refused by name
//! instead of being answered with a confident number. Numbers written as text ("5") are accepted,
//! since its clients send them; counts must be whole.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use metier_predict::latency::SopranoCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::deployment::{self, CheckedDeployment};
use crate::http::problem::{FieldError, ProblemDetails};

/// Longest name of a graph or device.
const MAX_NAME_CHARS: usize = 256;
/// Most unknown fields, and most bytes of them; the response repeats them.
const MAX_FIELDS: usize = 100;
const MAX_COUNT: f64 = 1e30;

/// JSON Schema of the request, for the API's description; the request itself is parsed by hand.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "describes what is sent")]
pub struct ProfilingRequest {
    /// Name of the graph.
    pub model: String,
    /// Number of convolutions. Like all counts a whole number that is not negative; it may be
    /// written as text.
    pub conv_layers: f64,
    /// Number of pooling layers.
    pub pool_layers: f64,
    /// Number of fully connected layers.
    pub fc_layers: f64,
    /// Output channels of all convolutions together.
    pub filter_details: f64,
    /// Number of weights.
    pub total_parameters: f64,
    /// Size of the graph's inputs, in bytes.
    pub model_input_size: f64,
    /// Size of its outputs, in bytes.
    pub model_output_size: f64,
    /// Per cent of the processor in use; if given, the device is described and Prometheus is not
    /// queried.
    #[serde(rename = "cpu_usage(percentage)")]
    pub cpu_usage: Option<f64>,
    /// Per cent of the disk in use.
    #[serde(rename = "disk_usage(percentage)")]
    pub disk_usage: Option<f64>,
    /// The device, such as "Raspberry Pi 4B".
    pub device_type: Option<String>,
    /// Whether the graph is to be placed on the chosen node; needs the token.
    pub apply: Option<bool>,
    /// The service for it; needed with `apply`.
    pub deployment: Option<deployment::DeploymentFieldSchema>,
}

pub const CPU_FIELD: &str = "cpu_usage(percentage)";
pub const DISK_FIELD: &str = "disk_usage(percentage)";
pub const DEVICE_FIELD: &str = "device_type";

const WANT_NAME: &str = "a text of 1 to 256 characters";
const WANT_COUNT: &str = "a whole number that is not negative";
const WANT_PERCENT: &str = "a number from 0 to 100";

/// The checked request.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedProfilingRequest {
    /// Name of the graph.
    pub model: String,
    pub counts: SopranoCounts,
    /// The device, if the request describes one.
    pub device: Option<DescribedDevice>,
    /// The service, if the graph is to be placed.
    pub deployment: Option<CheckedDeployment>,
    /// The sent fields, as the response repeats them.
    pub echo: BTreeMap<String, Value>,
}

/// A device as a request describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedDevice {
    pub model: String,
    /// Per cent of the processor in use.
    pub cpu_percent: f64,
    /// Per cent of the disk in use.
    pub disk_percent: f64,
}

/// The fields of an object, with the faults found so far.
pub struct ProfilingFields {
    fields: Map<String, Value>,
    faults: Vec<FieldError>,
}

impl ProfilingFields {
    /// The fields of a JSON object.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self { fields, faults: Vec::new() }
    }

    pub fn add_fault(&mut self, fault: FieldError) {
        self.faults.push(fault);
    }

    fn get_field(&mut self, name: &str, want: &str) -> Option<Value> {
        match self.fields.get(name) {
            None | Some(Value::Null) => {
                self.faults.push(FieldError::absent(name, want));
                None
            }
            Some(value) => Some(value.clone()),
        }
    }

    pub fn text(&mut self, name: &str) -> String {
        let Some(value) = self.get_field(name, WANT_NAME) else { return String::new() };
        match value.as_str() {
            Some(text) if (1..=MAX_NAME_CHARS).contains(&text.chars().count()) => text.to_string(),
            _ => {
                self.faults.push(FieldError::new(name, &value_text(&value), WANT_NAME));
                String::new()
            }
        }
    }

    fn number(&mut self, name: &str, want: &str, is_right: impl Fn(f64) -> bool) -> f64 {
        let Some(value) = self.get_field(name, want) else { return 0.0 };
        let number = match &value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| number.is_finite() && is_right(*number)) {
            Some(number) => number,
            None => {
                self.faults.push(FieldError::new(name, &value_text(&value), want));
                0.0
            }
        }
    }

    pub fn count(&mut self, name: &str) -> f64 {
        self.number(name, WANT_COUNT, |count| (0.0..=MAX_COUNT).contains(&count) && count.fract() == 0.0)
    }

    fn percent(&mut self, name: &str) -> f64 {
        self.number(name, WANT_PERCENT, |percent| (0.0..=100.0).contains(&percent))
    }

    /// Whether a device is described, if only in part.
    pub fn describes_device(&self) -> bool {
        [CPU_FIELD, DISK_FIELD, DEVICE_FIELD].iter().any(|name| self.fields.contains_key(*name))
    }

    /// The described device.
    pub fn device(&mut self) -> DescribedDevice {
        DescribedDevice {
            model: self.text(DEVICE_FIELD),
            cpu_percent: self.percent(CPU_FIELD),
            disk_percent: self.percent(DISK_FIELD),
        }
    }

    /// The service for a graph that is to be placed.
    pub fn deployment(&mut self, value: Option<Value>, model: &str) -> Option<CheckedDeployment> {
        let read = deployment::read_deployment(value.as_ref(), model);
        read.map_err(|faults| self.faults.extend(faults)).ok()
    }

    /// The faults, if there are any.
    pub fn finish(self) -> Result<Map<String, Value>, ProblemDetails> {
        match self.faults.is_empty() {
            true => Ok(self.fields),
            false => Err(ProblemDetails::fields(StatusCode::UNPROCESSABLE_ENTITY, self.faults)),
        }
    }
}

/// Parses a body as an object, without further checks.
pub fn parse_object(body: &[u8]) -> Result<Map<String, Value>, ProblemDetails> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        let got = format!("{error}");
        ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![FieldError::new("body", &got, "a JSON object")])
    })?;
    let Value::Object(fields) = value else {
        let fault = FieldError::new("body", &value_text(&value), "a JSON object");
        return Err(ProblemDetails::fields(StatusCode::UNPROCESSABLE_ENTITY, vec![fault]));
    };
    Ok(fields)
}

/// Whether the graph is to be placed. Read before all other checks, so that a caller without
/// permission learns nothing more.
pub fn is_apply_set(fields: &Map<String, Value>) -> bool {
    fields.get("apply") == Some(&Value::Bool(true))
}

pub fn check_request(
    fields: Map<String, Value>,
    knows_nodes: bool,
) -> Result<CheckedProfilingRequest, ProblemDetails> {
    let mut fields = ProfilingFields::new(fields);
    let describes = fields.describes_device();
    if fields.fields.len() > MAX_FIELDS {
        let got = fields.fields.len().to_string();
        fields.add_fault(FieldError::new("body", &got, format!("at most {MAX_FIELDS} fields")));
    }
    let model = fields.text("model");
    let counts = SopranoCounts {
        conv_layers: fields.count("conv_layers"),
        pool_layers: fields.count("pool_layers"),
        fc_layers: fields.count("fc_layers"),
        filter_details: fields.count("filter_details"),
        total_parameters: fields.count("total_parameters"),
        model_input_size: fields.count("model_input_size"),
        model_output_size: fields.count("model_output_size"),
    };
    let device = (describes || !knows_nodes).then(|| fields.device());
    let deployment = match fields.fields.get("apply") {
        None | Some(Value::Null | Value::Bool(false)) => None,
        Some(Value::Bool(true)) if device.is_some() => {
            fields.add_fault(deployment::apply_without_nodes());
            None
        }
        Some(Value::Bool(true)) => {
            let value = fields.fields.remove("deployment");
            fields.deployment(value, &model)
        }
        Some(other) => {
            let fault = FieldError::new("apply", &value_text(other), "true or false");
            fields.add_fault(fault);
            None
        }
    };
    let fields =
        fields.finish().map_err(|problem| explain_device_needed(problem, describes || knows_nodes))?;
    // The original drops `model_name`; `apply` is metier's own field.
    let echo = fields.into_iter().filter(|(name, _)| name != "model_name" && name != "apply").collect();
    Ok(CheckedProfilingRequest { model, counts, device, deployment, echo })
}

/// Adds why the device must be described, if that was missing.
pub fn explain_device_needed(mut problem: ProblemDetails, is_known: bool) -> ProblemDetails {
    if !is_known {
        problem.detail.push_str(
            "; this server has no Prometheus (metier up --prometheus URL), so a request must describe its device",
        );
    }
    problem
}

/// A sent value, as errors show it.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => "an object".to_string(),
        Value::Array(_) => "a list".to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &[u8], knows_nodes: bool) -> Result<CheckedProfilingRequest, ProblemDetails> {
        check_request(parse_object(body)?, knows_nodes)
    }

    fn body() -> Value {
        json!({
            "model": "model", "conv_layers": 66_666_666, "pool_layers": 77_777_777, "fc_layers": 34_535_353_535_u64,
            "filter_details": 66, "total_parameters": 10_000_000_000_000_000_000_u64,
            "model_input_size": 345_343_543, "model_output_size": 123_421_435,
        })
    }

    fn with(name: &str, value: Value) -> Result<CheckedProfilingRequest, ProblemDetails> {
        let mut body = body();
        body[name] = value;
        read(body.to_string().as_bytes(), true)
    }

    #[test]
    fn the_seeds_own_request_is_taken_and_comes_back_as_it_was() {
        let request = read(body().to_string().as_bytes(), true).unwrap();
        assert_eq!(serde_json::to_value(&request.echo).unwrap(), body());
        assert_eq!(request.counts.total_parameters, 1e19);
        assert_eq!(request.device, None);
        let echo = with("model_name", json!("x")).unwrap().echo;
        assert!(!echo.contains_key("model_name"));
        assert_eq!(with("colour", json!(["red"])).unwrap().echo["colour"], json!(["red"]));
        let text = with("conv_layers", json!(" 5 ")).unwrap();
        assert_eq!((text.counts.conv_layers, &text.echo["conv_layers"]), (5.0, &json!(" 5 ")));
    }

    #[test]
    fn each_wrong_field_is_named_and_all_of_them_at_once() {
        for (name, value) in [
            ("conv_layers", json!(-1)),
            ("conv_layers", json!(1.5)),
            ("conv_layers", json!("abc")),
            ("conv_layers", json!("NaN")),
            ("conv_layers", json!("")),
            ("conv_layers", json!(true)),
            ("conv_layers", json!([1])),
            ("conv_layers", json!(null)),
            ("total_parameters", json!(1e300)),
            ("model", json!("")),
            ("model", json!(7)),
            ("apply", json!("yes")),
        ] {
            let problem = with(name, value.clone()).unwrap_err();
            assert_eq!((problem.status, problem.errors.len()), (422, 1), "{name} {value}: {problem:?}");
            assert_eq!(problem.errors[0].field, name);
        }
        let problem = read(b"{}", true).unwrap_err();
        let names: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!((problem.status, names.len()), (422, 8), "{names:?}");
        assert_eq!(read(b"[1]", true).unwrap_err().status, 422);
        assert_eq!(read(b"{", true).unwrap_err().status, 400);
        assert_eq!(read(b"", true).unwrap_err().status, 400);
    }

    #[test]
    fn a_deployment_counts_only_where_it_is_asked_for_and_does_not_come_back_then() {
        let serve = json!({"image": "serve:1", "environment": {"PASSWORD": "x"}});
        let request = with("deployment", serve.clone()).unwrap();
        assert_eq!((request.deployment, &request.echo["deployment"]), (None, &serve));
        let mut body = body();
        (body["apply"], body["deployment"]) = (json!(true), serve);
        let request = read(body.to_string().as_bytes(), true).unwrap();
        assert_eq!(request.deployment.unwrap().serving.name, "model");
        assert!(!request.echo.contains_key("deployment") && !request.echo.contains_key("apply"));
        body["conv_layers"] = json!(-1);
        body["deployment"] = json!({"threads": 0});
        let problem = read(body.to_string().as_bytes(), true).unwrap_err();
        let names: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(names, ["conv_layers", "deployment.image", "deployment.threads"]);
    }

    #[test]
    fn a_device_is_described_whole_or_not_at_all() {
        let problem = with(CPU_FIELD, json!(95)).unwrap_err();
        let names: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(names, [DEVICE_FIELD, DISK_FIELD]);
        let mut whole = body();
        (whole[CPU_FIELD], whole[DISK_FIELD], whole[DEVICE_FIELD]) =
            (json!(95), json!("75"), json!("Raspberry Pi 4B"));
        let device = read(whole.to_string().as_bytes(), false).unwrap().device.unwrap();
        assert_eq!((device.cpu_percent, device.disk_percent), (95.0, 75.0));
        whole[CPU_FIELD] = json!(101);
        assert_eq!(read(whole.to_string().as_bytes(), false).unwrap_err().errors[0].field, CPU_FIELD);
        let problem = read(body().to_string().as_bytes(), false).unwrap_err();
        assert_eq!(problem.errors.len(), 3);
        assert!(problem.detail.contains("has no Prometheus"), "{}", problem.detail);
    }

    proptest::proptest! {
        #[test]
        fn no_body_makes_it_panic(body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = read(&body, true);
        }
    }
}
