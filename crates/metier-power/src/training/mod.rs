//! Trains a pipeline from Prometheus responses or tables, and writes the folder that a model server
//! reads.
//!
//! ```text
//! response ─► [`tables`] (one for each source, group and output type) ─► [`train_pipeline`]
//! ─► <name>/<source>/<output type>/<group>/<trainer>_<node type>/
//! ```
//!
//! Training can be interrupted and resumed: a predictor is written completely or not at all,
//! `metadata.json` last, with a digest of its training rows. For the same rows an existing
//! predictor is left unchanged; for other rows training continues from it. A trainer that fails is
//! skipped with a warning; if all fail, training is an error. The folder has the original's layout,
//! except for pickles. `predictor.json` replaces them, which only metier reads. Weights have the
//! original's format.

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

/// Training inputs besides the response.
#[derive(Clone, Copy, Default)]
pub struct TrainingKnowledge<'a> {
    /// Idle profile, for the `profile` isolator.
    pub idle: Option<&'a IdleProfile>,
    /// Node power predictors, for the `trainer` isolator.
    pub judges: Option<&'a PredictorPipeline>,
}

/// Trains a pipeline from responses into `root/<name>`: node type, tables, predictors, metadata.
/// Adds the machine to the pipeline's index.
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
    // Each response is extracted separately, since the gap between two is not a sample interval.
    for response in responses {
        all.append(tables(response, known, plan, node_type)?)?;
    }
    if let Some(idle) = known.idle {
        write::profiles(&folder, idle, node_type)?;
    }
    train_pipeline(&all, plan, root, progress)
}

/// The machine's node type in a pipeline's folder; adds the machine to the index. Type 0 without a
/// machine.
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

/// The profiles by source in a pipeline's folder (`profile/<source>.json`), for a node type.
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
