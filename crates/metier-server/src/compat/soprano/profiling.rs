//! `POST /api/profiling`.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::http::{StatusCode, header};
use metier_cluster::inventory::prometheus::LatestNodes;
use serde_json::Value;

use super::candidate::{GraphQuestion, ProfilingCandidate};
use super::placement_plan::GraphPlacementPlan;
use super::request::{self, DEVICE_FIELD, DescribedDevice};
use super::response::{ProfilingPrediction, ProfilingResponse, SnapshotSource};
use crate::app_state::{AppState, SharedAppState};
use crate::http::blocking_lanes::LaneKind;
use crate::http::credentials;
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse, HandlerStage};

/// Most nodes whose reason is given when none can be chosen.
const MAX_REASONS: usize = 8;

/// Ranks the nodes for a graph by predicted time, and places it on request.
pub fn handle_profiling(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerStage<AppState>, ProblemDetails> {
    let fields = request::parse_object(&call.body)?;
    if request::is_apply_set(&fields) {
        authorise_placement(app, call)?;
    }
    let asked = request::check_request(fields, app.soprano.nodes.is_some())?;
    let threads = asked.deployment.as_ref().map(|deployment| deployment.threads);
    let inquiry = ProfilingInquiry {
        model: asked.model,
        question: GraphQuestion { counts: asked.counts, graph: None, threads },
        echo: asked.echo,
        filepath: None,
        message: "Profiling data received",
    };
    match asked.deployment {
        None => HandlerResponse::json(&inquiry.profile(app, asked.device.as_ref())?).map(HandlerStage::Done),
        Some(deployment) => {
            let plan = GraphPlacementPlan::new(app, inquiry, deployment, None)?;
            Ok(HandlerStage::Then(
                LaneKind::Place,
                Box::new(move |app| HandlerResponse::json(&plan.carry_out(app)?)),
            ))
        }
    }
}

/// Whether a caller may place graphs, within the rate limit.
fn authorise_placement(app: &SharedAppState, call: &HandlerRequest) -> Result<(), ProblemDetails> {
    credentials::identify_owner(&app.http.config, "/api/profiling", &call.headers, call.line.as_ref())?;
    match app.http.starts.try_acquire(Instant::now()) {
        true => Ok(()),
        false => {
            let detail = "graphs are placed too fast; try again in a moment";
            Err(ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, detail)
                .with_header(header::RETRY_AFTER, "1"))
        }
    }
}

/// The question, and the parts of the request that the response repeats.
pub struct ProfilingInquiry {
    /// Name of the graph.
    pub model: String,
    pub question: GraphQuestion,
    /// The fields that were sent.
    pub echo: BTreeMap<String, Value>,
    /// Name of an uploaded file.
    pub filepath: Option<String>,
    pub message: &'static str,
}

impl ProfilingInquiry {
    /// The response for a described device, or for the nodes in Prometheus.
    pub fn profile(
        self,
        app: &SharedAppState,
        device: Option<&DescribedDevice>,
    ) -> Result<ProfilingResponse, ProblemDetails> {
        let predictors = app.soprano.predictors();
        let model = self.model.clone();
        if let Some(device) = device {
            let candidate = self.question.predict_described(&predictors, device);
            let Some(predicted_execution_time) = candidate.predicted_execution_time else {
                let detail = format!("{DEVICE_FIELD}: {}", candidate.reason);
                let fault = FieldError::new(DEVICE_FIELD, &device.model, "a device that has a passport");
                return Err(
                    ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, detail).with_errors(vec![fault])
                );
            };
            let winner = ProfilingPrediction::Device { model, predicted_execution_time };
            return Ok(self.into_response(vec![candidate], winner, None));
        }
        let (source, latest) = latest_nodes(app)?;
        let candidates = self.question.rank_candidates(&predictors, &latest.inventory);
        let winner = candidates.first().and_then(|first| ProfilingPrediction::from_candidate(first, &model));
        let winner = winner.ok_or_else(|| no_candidate_problem(&candidates))?;
        Ok(self.into_response(candidates, winner, Some(SnapshotSource::from_latest(&latest, source))))
    }

    /// The response with the original's fields.
    pub fn into_response(
        self,
        candidates: Vec<ProfilingCandidate>,
        profiling_prediction: ProfilingPrediction,
        snapshot: Option<SnapshotSource>,
    ) -> ProfilingResponse {
        ProfilingResponse {
            candidates,
            filepath: self.filepath,
            message: self.message,
            model_characteristics: self.echo,
            placement: None,
            profiling_prediction,
            snapshot,
            status: "success",
        }
    }
}

/// The address of Prometheus, and its latest nodes.
pub fn latest_nodes(app: &SharedAppState) -> Result<(String, LatestNodes), ProblemDetails> {
    let nodes = app.soprano.nodes.as_ref();
    let nodes = nodes.ok_or_else(|| unavailable("this server has no Prometheus".to_string()))?;
    let latest = nodes.latest().map_err(|unknown| unavailable(unknown.to_string()))?;
    Ok((nodes.source(), latest))
}

pub fn unavailable(detail: String) -> ProblemDetails {
    ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, detail).with_header(header::RETRY_AFTER, "5")
}

/// The problem if nodes are known but none can be chosen.
fn no_candidate_problem(candidates: &[ProfilingCandidate]) -> ProblemDetails {
    if candidates.is_empty() {
        let detail = "Prometheus has no nodes: want char_node_device_model with node_cpu_seconds_total (char_agent and node_exporter), or the series of `metier agent`";
        return unavailable(detail.to_string());
    }
    let reason = |candidate: &ProfilingCandidate| {
        format!("{}: {}", candidate.node.as_deref().unwrap_or("?"), candidate.reason)
    };
    let mut reasons: Vec<String> = candidates.iter().take(MAX_REASONS).map(reason).collect();
    if candidates.len() > MAX_REASONS {
        reasons.push(format!("and {} more", candidates.len() - MAX_REASONS));
    }
    unavailable(format!("none of {} nodes can be chosen: {}", candidates.len(), reasons.join("; ")))
}
