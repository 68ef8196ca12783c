//! Learns a pipeline: from what Prometheus answered, or from tables, to the folder that a model server reads.
//!
//! ```text
//! response ─► [`tables`] (one for each source, group and output type) ─► [`train_pipeline`] ─► <name>/<source>/<output type>/<group>/<trainer>_<node type>/
//! ```
//!
//! Everything can be broken off and gone on with: a predictor is written whole or not at all, `metadata.json` last, with a digest of the rows that it was learned from.
//! Where the same rows come again, what is there is kept; where others come, learning goes on from it. One trainer that fails is said and left out; nothing learned at all is an error.
//! The folder is the original's, but for pickles: our own `predictor.json` takes their place, and only we can read it. Weights are the original's own form.

mod errors;
mod export;
mod plan;
pub mod published;
mod run;
mod tables;
mod write;

pub use errors::{PredictorErrorRow, errors_of};
pub use export::{PipelinePublication, PublishedPipeline, VERSION, export, passes};
pub use plan::{MeasuredMachine, PipelinePlan};
pub use run::{TrainedEntry, TrainedState, TrainingOutcome, TrainingStep, train_pipeline};
pub use tables::{PowerTable, PowerTables, check, isolate_power, judges, tables};

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use crate::Error;
use crate::kepler_terms::EnergySource;
use crate::pipeline::{PredictorPipeline, read_node_types, write_node_types};
use crate::profile::IdleProfile;
use crate::response::KeplerResponse;

/// What beside the response is known.
#[derive(Clone, Copy, Default)]
pub struct TrainingKnowledge<'a> {
    /// The idle machine: the `profile` isolator needs it.
    pub idle: Option<&'a IdleProfile>,
    /// Predictors of node power: the `trainer` isolator needs them.
    pub judges: Option<&'a PredictorPipeline>,
}

/// Learns a pipeline from responses, into `root/<name>`: node type, tables, predictors, metadata. The machine joins the pipeline's index.
pub fn train_from_responses(
    responses: &[KeplerResponse],
    known: TrainingKnowledge<'_>,
    plan: &PipelinePlan,
    root: &Path,
    progress: &mut dyn FnMut(TrainingStep<'_>) -> ControlFlow<()>,
) -> Result<TrainingOutcome, Error> {
    plan.check()?;
    let folder = root.join(&plan.name);
    let node_type = join(&folder, plan.machine.as_ref())?;
    let mut all = PowerTables::default();
    // Each by itself: the time between two responses is no row.
    for response in responses {
        all.append(tables(response, known, plan, node_type)?)?;
    }
    if let Some(idle) = known.idle {
        write::profiles(&folder, idle, node_type)?;
    }
    train_pipeline(&all, plan, root, progress)
}

/// The node type of a machine in the pipeline of a folder; it joins the index there. Type 0 where no machine is named.
pub fn join(folder: &Path, machine: Option<&MeasuredMachine>) -> Result<u32, Error> {
    let Some(machine) = machine else { return Ok(0) };
    let mut index = read_node_types(folder)?;
    let Some(node_type) = index.join(&machine.id, &machine.spec) else {
        let why = "does not say all of processor, cores, chips, memory and frequency";
        return Err(Error::table(format!("machine {}: its specification {why}", machine.id)));
    };
    write_node_types(folder, &index)?;
    Ok(node_type)
}

/// The profiles by source that a pipeline's folder keeps (`profile/<source>.json`), for a node type.
pub fn profiles(
    folder: &Path,
    node_type: u32,
) -> Result<BTreeMap<EnergySource, crate::profile::IdleLevels>, Error> {
    let mut profiles = BTreeMap::new();
    for source in EnergySource::ALL {
        let path = folder.join("profile").join(format!("{}.json", source.name()));
        if let Ok(text) = fs::read(&path) {
            let profile = crate::profile::IdleLevels::read(&text, node_type);
            profiles.insert(source, profile.map_err(|error| Error::file(&path, error))?);
        }
    }
    Ok(profiles)
}
