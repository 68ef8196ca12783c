//! `POST /upload`: an ONNX file, and the size of its inputs and outputs in bytes.
//!
//! The original counts layers and calls the profiler. Here the graph itself is known, so the graph
//! predictor answers. If the file leaves sizes open and the request gives none (`shape`), the
//! coarser predictor for counts answers, and the reason mentions it. The file is read in memory and
//! not stored.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use metier_predict::graph_reader::{self, AnalysedGraph};
use metier_predict::latency::SopranoCounts;
use metier_store::digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::candidate::GraphQuestion;
use super::deployment::{self, CheckedDeployment};
use super::placement_plan::GraphPlacementPlan;
use super::profiling::ProfilingInquiry;
use super::request::{ProfilingFields, explain_device_needed};
use super::response::ProfilingResponse;
use crate::app_state::{AppState, SharedAppState};
use crate::http::blocking_lanes::LaneKind;
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse, HandlerStage};

/// Longest value of a field that is not the file.
const MAX_FIELD_BYTES: usize = 4096;
/// Longest value of the field `deployment`.
const MAX_DEPLOYMENT_BYTES: usize = 256 << 10;
/// Most parts of a body.
const MAX_PARTS: usize = 32;

/// The parts of the form, for the API's description.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "describes what is sent")]
pub struct GraphUploadRequest {
    /// The graph; its name ends in `.onnx`.
    pub file: String,
    /// Size of the graph's inputs, in bytes.
    pub model_input_size: u64,
    /// Size of its outputs, in bytes.
    pub model_output_size: u64,
    /// Sizes of inputs that the file leaves open: `x=1x3x224x224`, separated by commas.
    pub shape: Option<String>,
    /// Per cent of the processor in use; if given, the device is described and Prometheus is not
    /// queried.
    #[serde(rename = "cpu_usage(percentage)")]
    pub cpu_usage: Option<String>,
    /// Per cent of the disk in use.
    #[serde(rename = "disk_usage(percentage)")]
    pub disk_usage: Option<String>,
    /// The device, such as "Raspberry Pi 4B".
    pub device_type: Option<String>,
    /// `true` if the graph is to be placed on the chosen node.
    pub apply: Option<String>,
    /// The service for it, as JSON; needed with `apply`.
    pub deployment: Option<String>,
}

#[derive(Default)]
struct UploadParts {
    file: Option<(String, Bytes)>,
    fields: BTreeMap<String, String>,
}

/// Ranks the nodes for an uploaded graph by predicted time, and places it on request.
pub fn handle_upload(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerStage<AppState>, ProblemDetails> {
    let is_bad = |problem: &ProblemDetails| problem.status() == StatusCode::BAD_REQUEST;
    // The original's clients read `error`.
    handle_parts(app, call)
        .map_err(|problem| if is_bad(&problem) { problem.with_error_field() } else { problem })
}

fn handle_parts(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerStage<AppState>, ProblemDetails> {
    let kind =
        call.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| {
        let fault = FieldError::new("Content-Type", kind, "multipart/form-data with a boundary");
        ProblemDetails::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, vec![fault])
    })?;
    let mut parts = parse_parts(call.body.clone(), boundary)?;
    let (name, bytes) = parts.file.take().ok_or_else(|| {
        ProblemDetails::fields(
            StatusCode::BAD_REQUEST,
            vec![FieldError::absent("file", "a part with an ONNX file")],
        )
    })?;
    if name.is_empty() || !name.to_ascii_lowercase().ends_with(".onnx") {
        let fault = FieldError::new("file", &name, "a file whose name ends in .onnx");
        return Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![fault]));
    }
    let given: Map<String, Value> =
        parts.fields.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut fields = ProfilingFields::new(given);
    let sizes = (fields.count("model_input_size"), fields.count("model_output_size"));
    let model = name.rsplit(['/', '\\']).next().unwrap_or(&name).to_string();
    let model = model[..model.len() - ".onnx".len()].to_string();
    let (describes, knows_nodes) = (fields.describes_device(), app.soprano.nodes.is_some());
    let device = (describes || !knows_nodes).then(|| fields.device());
    let deployment = read_deployment_part(device.is_none(), &parts, &mut fields, &model);
    fields.finish().map_err(|problem| explain_device_needed(problem, describes || knows_nodes))?;
    let AnalysedGraph { analysis, counted } =
        graph_reader::read(&bytes, parts.fields.get("shape").map(String::as_str)).map_err(|error| {
            let field = if error.is_shape() { "shape" } else { "file" };
            let got = if error.is_shape() {
                parts.fields.get("shape").cloned().unwrap_or_default()
            } else {
                name.clone()
            };
            ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{field}: {error}"))
                .with_errors(vec![FieldError::new(field, &got, error.want())])
        })?;
    let counts = SopranoCounts::of(&counted, sizes.0, sizes.1);
    let echo = BTreeMap::from([
        ("model".to_string(), json!(model)),
        ("conv_layers".to_string(), json!(counted.conv_layers)),
        ("pool_layers".to_string(), json!(counted.pool_layers)),
        ("fc_layers".to_string(), json!(counted.fc_layers)),
        ("filter_details".to_string(), json!(counted.filter_details)),
        ("total_parameters".to_string(), json!(counted.total_parameters)),
        ("model_input_size".to_string(), size_value(sizes.0)),
        ("model_output_size".to_string(), size_value(sizes.1)),
    ]);
    let threads = deployment.as_ref().map(|checked_deployment| checked_deployment.threads);
    let inquiry = ProfilingInquiry {
        model,
        question: GraphQuestion { counts, graph: Some(Box::new(analysis)), threads },
        echo,
        filepath: Some(name),
        message: "File uploaded and profiled successfully",
    };
    let Some(checked_deployment) = deployment else {
        return created_response(&inquiry.profile(app, device.as_ref())?).map(HandlerStage::Done);
    };
    let plan = GraphPlacementPlan::new(app, inquiry, checked_deployment, Some(digest::digest_bytes(&bytes)))?;
    Ok(HandlerStage::Then(LaneKind::Place, Box::new(move |app| created_response(&plan.carry_out(app)?))))
}

fn created_response(answer: &ProfilingResponse) -> Result<HandlerResponse, ProblemDetails> {
    Ok(HandlerResponse::json(answer)?.status(StatusCode::CREATED))
}

/// The service, if the graph is to be placed. The caller's permission was checked before.
fn read_deployment_part(
    has_nodes: bool,
    parts: &UploadParts,
    fields: &mut ProfilingFields,
    model: &str,
) -> Option<CheckedDeployment> {
    match parts.fields.get("apply").map(String::as_str) {
        None | Some("" | "false") => None,
        Some("true") if !has_nodes => {
            fields.add_fault(deployment::apply_without_nodes());
            None
        }
        Some("true") => {
            // A value that is no JSON is treated as text, and a text is no deployment.
            let text = parts.fields.get("deployment");
            let value = text.map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
            fields.deployment(value, model)
        }
        Some(other) => {
            fields.add_fault(FieldError::new("apply", other, "true or false"));
            None
        }
    }
}

fn max_part_bytes(name: &str) -> usize {
    if name == "deployment" { MAX_DEPLOYMENT_BYTES } else { MAX_FIELD_BYTES }
}

fn size_value(size: f64) -> Value {
    if size < 9e15 { json!(size as u64) } else { json!(size) }
}

/// Splits the body into its parts. The body is already complete, so nothing is awaited.
fn parse_parts(body: Bytes, boundary: String) -> Result<UploadParts, ProblemDetails> {
    let whole = futures_util::stream::once(async move { Ok::<_, std::convert::Infallible>(body) });
    let mut multipart = multer::Multipart::new(whole, boundary);
    let wrong = |error: multer::Error| {
        let fault = FieldError::new("body", &error.to_string(), "parts of multipart/form-data");
        ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![fault])
    };
    let take = async {
        let mut parts = UploadParts::default();
        for _ in 0..MAX_PARTS {
            let Some(field) = multipart.next_field().await.map_err(wrong)? else { return Ok(parts) };
            let name = field.name().unwrap_or_default().to_string();
            let file_name = field.file_name().map(str::to_string);
            let bytes = field.bytes().await.map_err(wrong)?;
            if name == "file" {
                parts.file = Some((file_name.unwrap_or_default(), bytes));
            } else if bytes.len() > max_part_bytes(&name) {
                let want = format!("at most {} bytes", max_part_bytes(&name));
                let fault = FieldError::new(name, &format!("{} bytes", bytes.len()), want);
                return Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![fault]));
            } else {
                parts.fields.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        let fault = FieldError::new("body", "more", format!("at most {MAX_PARTS} parts"));
        Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![fault]))
    };
    futures_util::future::FutureExt::now_or_never(take).unwrap_or_else(|| {
        let fault = FieldError::new("body", "one that was cut", "parts of multipart/form-data");
        Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![fault]))
    })
}
