//! A graph that goes to the fastest node with room: the nodes as Prometheus shows them, joined by name with those of the cluster.

use std::collections::{BTreeMap, HashMap};

use axum::http::StatusCode;
use metier_types::{Digest, Origin, Prediction};
use metier_work::choose::Candidate;
use metier_work::placing::{self, Access, Demand, Hands, PassportUse, Placement, Predicted};

use super::deployment::Deployment;
use super::profiling::unavailable;
use super::reply::{Profiling, Winner};
use crate::app::App;
use crate::http::problem::Problem;

/// Nodes that only Prometheus knows, that are named.
const MOST_NAMED: usize = 8;

/// Everything that placing needs beside the cluster.
pub struct Plan {
    /// What the graph is called.
    pub model: String,
    /// The answer as it would be without placing.
    pub answer: Profiling,
    /// The memory that it needs.
    pub memory: Prediction,
    pub wanted: Deployment,
    /// The digest of its file, where there is one.
    pub graph: Option<Digest>,
}

impl Plan {
    /// Looks at the cluster, chooses, writes and waits. Blocks.
    pub fn carry_out(self, app: &App) -> Result<Profiling, Problem> {
        let Self { model, mut answer, memory, wanted, graph } = self;
        let Deployment { serving, namespace, threads, replicas, patience } = wanted;
        let access = Access { namespace, ..app.config.soprano.cluster.clone() };
        let unseen = |error: &dyn std::fmt::Display| {
            unavailable(format!("the cluster could not be looked at, so nothing was placed: {error}"))
        };
        let hands = Hands::reach(&access).map_err(|error| unseen(&error))?;
        let survey = hands.survey(Some(&serving.name)).map_err(|error| unseen(&error))?;
        let demand = Demand {
            workload: serving.name.clone(),
            threads,
            replicas,
            architecture: None,
            labels: BTreeMap::new(),
        };
        let seen: HashMap<&str, &Candidate> =
            answer.candidates.iter().filter_map(|one| Some((one.node.as_deref()?, one))).collect();
        let known = |name: &str, hostname: Option<&str>| {
            seen.get(name).or_else(|| hostname.and_then(|name| seen.get(name))).copied()
        };
        let mut placement = placing::choose(&survey, &demand, &|node| {
            let one = known(&node.name, node.hostname())
                .ok_or("Prometheus knows no node of this name, so its device and load are not known")?;
            Ok(Predicted {
                latency: one.prediction()?,
                memory: memory.clone(),
                threads: one.threads.unwrap_or(threads),
                passport: passport(one),
            })
        });
        let of_cluster: Vec<&str> = survey
            .nodes
            .iter()
            .filter_map(|node| known(&node.name, node.hostname())?.node.as_deref())
            .collect();
        placement.notes.extend(strangers(&answer.candidates, &of_cluster));
        let service = placing::service(&placement, &demand, &serving, graph.as_ref());
        let chosen = placement.chosen().and_then(|chosen| {
            let node = survey.nodes.iter().find(|node| node.name == chosen.device)?;
            Winner::node(known(&node.name, node.hostname())?, &model)
        });
        let (Some(service), Some(winner)) = (service, chosen) else { return Err(nowhere(&placement)) };
        // The cluster answered a moment ago: it is what was asked for that it does not take.
        let applied = hands.apply(&service, patience).map_err(|error| {
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
        answer.profiling_prediction = winner;
        answer.placement = Some(placement);
        Ok(answer)
    }
}

/// The passport that a candidate's time comes from; none where its cores were all that was known.
fn passport(one: &Candidate) -> Option<PassportUse> {
    let known = one.known_from.as_ref()?;
    let origin = match known.origin {
        "measured" => Origin::Measured,
        "specified" => Origin::Specified,
        _ => return None,
    };
    let name = one.device_model.clone().unwrap_or_else(|| known.passport.clone());
    Some(PassportUse { id: known.passport.clone(), name, origin })
}

/// Says which nodes only Prometheus knows.
fn strangers(candidates: &[Candidate], of_cluster: &[&str]) -> Vec<String> {
    let names = candidates.iter().filter_map(|one| one.node.as_deref());
    let strange: Vec<&str> = names.filter(|name| !of_cluster.contains(name)).collect();
    let note = |name: &&str| format!("{name}: left out, the cluster has no node of this name");
    let mut notes: Vec<String> = strange.iter().take(MOST_NAMED).map(note).collect();
    if strange.len() > MOST_NAMED {
        notes
            .push(format!("{} more are left out that the cluster does not have", strange.len() - MOST_NAMED));
    }
    notes
}

/// No node can take it.
fn nowhere(placement: &Placement) -> Problem {
    let reasons = placement.unplaced.iter().map(|one| &one.because).chain(&placement.notes);
    let reasons: Vec<&str> = reasons.map(String::as_str).collect();
    Problem::new(StatusCode::CONFLICT, format!("nothing was placed: {}", reasons.join("; ")))
}
