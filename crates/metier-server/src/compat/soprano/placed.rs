//! A graph that goes to the fastest node with room: the nodes as Prometheus shows them, joined with
//! those of the cluster.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use metier_cluster::deployer::{self, ClusterAccess, ClusterDeployer};
use metier_cluster::inventory;
use metier_place::{Placement, PlacementDemand};
use metier_types::Digest;

use super::deployment::Deployment;
use super::profiling::{Inquiry, latest, unavailable};
use super::reply::{Profiling, Seen, Winner};
use crate::app::App;
use crate::http::problem::{FieldError, Problem};

/// Why nothing is placed with a predictor file.
const WITHOUT_INTERVAL: &str =
    "the predictor file that the server was given has no interval, and nothing is placed without one";

/// Everything that placing needs beside the cluster.
pub struct Plan {
    inquiry: Inquiry,
    wanted: Deployment,
    /// The digest of the graph's file, where there is one.
    graph: Option<Digest>,
}

impl Plan {
    /// Refuses where a predictor file answers.
    pub fn new(
        app: &App,
        inquiry: Inquiry,
        wanted: Deployment,
        graph: Option<Digest>,
    ) -> Result<Self, Problem> {
        match app.soprano.predictors().file {
            None => Ok(Self { inquiry, wanted, graph }),
            Some(_) => {
                let want = "false or absent where a predictor file answers";
                let detail = format!("apply: {WITHOUT_INTERVAL}");
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
                    .because(vec![FieldError::new("apply", "true", want)]))
            }
        }
    }

    /// Looks at the cluster, chooses, writes and waits. Blocks.
    pub fn carry_out(self, app: &App) -> Result<Profiling, Problem> {
        let Self { inquiry, wanted, graph } = self;
        let Deployment { serving, namespace, threads, replicas, patience } = wanted;
        let (source, latest) = latest(app)?;
        let access = ClusterAccess { namespace, ..app.config.soprano.cluster.clone() };
        let unseen = |error: &dyn std::fmt::Display| {
            unavailable(format!("the cluster could not be looked at, so nothing was placed: {error}"))
        };
        let cluster = ClusterDeployer::connect(&access).map_err(|error| unseen(&error))?;
        let survey = cluster.survey(Some(&serving.name)).map_err(|error| unseen(&error))?;
        let inventory = inventory::join(Some(Ok(&survey)), Some(Ok(&latest.snapshot)));
        let workload = serving.name.clone();
        let demand =
            PlacementDemand { workload, threads, replicas, architecture: None, labels: BTreeMap::new() };
        let predictors = app.soprano.predictors();
        let (candidates, mut placement) = inquiry.question.placed(&predictors, &inventory, &demand);
        let service = deployer::service(&placement, &demand, &serving, graph.as_ref());
        let winner = placement.chosen().and_then(|chosen| {
            let of_node = |name: &Option<String>| name.as_deref() == Some(chosen.device.as_str());
            Winner::node(candidates.iter().find(|one| of_node(&one.node))?, &inquiry.model)
        });
        let (Some(service), Some(winner)) = (service, winner) else { return Err(nowhere(&placement)) };
        // The cluster answered a moment ago: it is what was asked for that it does not take.
        let applied = cluster.apply(&service, patience).map_err(|error| {
            tracing::warn!(%error, name = service.name, "a graph was not placed");
            Problem::new(StatusCode::CONFLICT, error.to_string())
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
        let mut answer = inquiry.answer(candidates, winner, Some(Seen::of(&latest, source)));
        answer.placement = Some(placement);
        Ok(answer)
    }
}

/// No node can take it.
fn nowhere(placement: &Placement) -> Problem {
    let reasons = placement.unplaced.iter().map(|one| &one.because).chain(&placement.notes);
    let reasons: Vec<&str> = reasons.map(String::as_str).collect();
    Problem::new(StatusCode::CONFLICT, format!("nothing was placed: {}", reasons.join("; ")))
}
