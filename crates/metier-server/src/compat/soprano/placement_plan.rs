//! Places a graph on the fastest node with room: nodes from Prometheus, joined with those of the
//! cluster.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use metier_cluster::deployer::{self, ClusterAccess, ClusterDeployer};
use metier_cluster::inventory;
use metier_place::{Placement, PlacementDemand};
use metier_types::ContentDigest;

use super::deployment::CheckedDeployment;
use super::profiling::{ProfilingInquiry, latest_nodes, unavailable};
use super::response::{ProfilingPrediction, ProfilingResponse, SnapshotSource};
use crate::app_state::SharedAppState;
use crate::http::problem::{FieldError, ProblemDetails};

/// Why a predictor file cannot place graphs.
const NO_INTERVAL_REASON: &str =
    "the predictor file that the server was given has no interval, and nothing is placed without one";

/// All inputs of a placement except the cluster.
pub struct GraphPlacementPlan {
    inquiry: ProfilingInquiry,
    deployment: CheckedDeployment,
    /// Digest of the graph's file, if there is one.
    graph: Option<ContentDigest>,
}

impl GraphPlacementPlan {
    /// Refuses if a predictor file is configured.
    pub fn new(
        app: &SharedAppState,
        inquiry: ProfilingInquiry,
        deployment: CheckedDeployment,
        graph: Option<ContentDigest>,
    ) -> Result<Self, ProblemDetails> {
        match app.soprano.predictors().file {
            None => Ok(Self { inquiry, deployment, graph }),
            Some(_) => {
                let want = "false or absent where a predictor file answers";
                let detail = format!("apply: {NO_INTERVAL_REASON}");
                Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
                    .with_errors(vec![FieldError::new("apply", "true", want)]))
            }
        }
    }

    /// Surveys the cluster, chooses a node, writes the Deployment and waits. Blocks.
    pub fn carry_out(self, app: &SharedAppState) -> Result<ProfilingResponse, ProblemDetails> {
        let Self { inquiry, deployment, graph } = self;
        let CheckedDeployment { serving, namespace, threads, replicas, patience } = deployment;
        let (source, latest) = latest_nodes(app)?;
        let access = ClusterAccess { namespace, ..app.config.soprano.cluster.clone() };
        let unseen = |error: &dyn std::fmt::Display| {
            unavailable(format!("the cluster could not be surveyed, so nothing was placed: {error}"))
        };
        let cluster = ClusterDeployer::connect(&access).map_err(|error| unseen(&error))?;
        let survey = cluster.survey(Some(&serving.name)).map_err(|error| unseen(&error))?;
        let inventory = inventory::join_sources(Some(Ok(&survey)), Some(Ok(&latest.snapshot)));
        let workload = serving.name.clone();
        let demand =
            PlacementDemand { workload, threads, replicas, architecture: None, labels: BTreeMap::new() };
        let predictors = app.soprano.predictors();
        let (candidates, mut placement) = inquiry.question.rank_and_place(&predictors, &inventory, &demand);
        let service = deployer::graph_service(&placement, &demand, &serving, graph.as_ref());
        let winner = placement.chosen().and_then(|chosen| {
            let of_node = |name: &Option<String>| name.as_deref() == Some(chosen.device.as_str());
            ProfilingPrediction::from_candidate(
                candidates.iter().find(|candidate| of_node(&candidate.node))?,
                &inquiry.model,
            )
        });
        let (Some(service), Some(winner)) = (service, winner) else {
            return Err(no_node_problem(&placement));
        };
        // The cluster answered a moment ago, so it refuses the request itself.
        let applied = cluster.apply(&service, patience).map_err(|error| {
            tracing::warn!(%error, name = service.name, "a graph was not placed");
            ProblemDetails::new(StatusCode::CONFLICT, error.to_string())
        })?;
        tracing::info!(
            name = applied.name,
            namespace = applied.namespace,
            node = service.node,
            action = applied.action,
            is_available = applied.is_available,
            "a graph was placed"
        );
        placement.applied = Some(applied);
        let mut answer =
            inquiry.into_response(candidates, winner, Some(SnapshotSource::from_latest(&latest, source)));
        answer.placement = Some(placement);
        Ok(answer)
    }
}

/// The problem if no node is suitable.
fn no_node_problem(placement: &Placement) -> ProblemDetails {
    let reasons = placement.unplaced.iter().map(|workload| &workload.because).chain(&placement.notes);
    let reasons: Vec<&str> = reasons.map(String::as_str).collect();
    ProblemDetails::new(StatusCode::CONFLICT, format!("nothing was placed: {}", reasons.join("; ")))
}
