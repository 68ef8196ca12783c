//! Pipelines of predictors as kepler-model-db publishes them: a folder or zip with
//! `<source>/<output type>/<group>/<trainer>_<node type>.{zip,json}`, an index of node types, and tables of errors.
//!
//! What is read is small: names, errors, weights. Archives stay where they are and are read when somebody asks for one; what is inside
//! (pickles of scikit-learn among it) is opaque bytes to us. Nothing is ever unpacked to disk, so no name inside of a zip can lead anywhere.
//! Everything read is bounded ([`files`]). A pipeline may also be at an address ([`download`]), and a model server may be asked for a predictor ([`model_server`]):
//! beside Prometheus the only things of this crate that are asked over a network.

mod archive;
mod download;
mod files;
mod folder;
pub(crate) mod load;
mod location;
mod model;
mod model_server;
mod model_zip;
mod single;

pub use archive::{pack, pack_file};
pub use download::{DownloadLimits, PipelineDownload};
pub use files::{MAX_ARCHIVE_BYTES, MAX_MEMBERS, PipelineFiles, PipelineReader, replace};
pub use folder::{
    group_folder, predictor_metadata, read_metadata, read_node_types, write_metadata, write_node_types,
};
pub use load::{load, load_bytes};
pub use location::PipelineLocation;
pub use model::{ModelArchive, PipelineModel};
pub use model_server::{MissingPredictor, ModelServerClient, download_initial};
pub use single::{PredictorPurpose, SinglePredictor};

use crate::kepler_terms::EnergySource;
use crate::node::NodeTypeIndex;

/// Predictors that were learned together.
#[derive(Debug, Clone, Default)]
pub struct PredictorPipeline {
    /// Its name, as `ec2-0.7.11`.
    pub name: String,
    /// Its node types, where it has an index.
    pub index: Option<NodeTypeIndex>,
    /// Its predictors, by source, output type, group and name.
    pub models: Vec<PipelineModel>,
    /// What could not be used, in words.
    pub warnings: Vec<String>,
    /// Whether the online trainer promoted what is in it: it was learned on this machine.
    pub is_promoted: bool,
}

impl PredictorPipeline {
    /// The sources that it has predictors for.
    pub fn sources(&self) -> Vec<EnergySource> {
        let mut sources: Vec<EnergySource> = self.models.iter().map(|model| model.source).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}
