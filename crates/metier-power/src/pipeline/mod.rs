//! Pipelines of predictors as kepler-model-db publishes them: a folder or zip with
//! `<source>/<output type>/<group>/<trainer>_<node type>.{zip,json}`, an index of node types, and
//! tables of errors.
//!
//! Loading reads only names, errors and weights. Archives are opened on request; their contents
//! (scikit-learn pickles among them) are treated as opaque bytes. Nothing is unpacked to disk, so
//! names inside a zip cannot cause path traversal. All reads are bounded ([`files`]). A pipeline
//! may be downloaded from an address ([`download`]), and single predictors from a model server
//! ([`model_server`]). Besides Prometheus these are the crate's only network requests.

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
pub use model_server::{ModelServerClient, UnmetPredictorRequest, download_initial};
pub use single::{PredictorPurpose, SinglePredictor};

use crate::kepler_terms::EnergySource;
use crate::node::NodeTypeIndex;

/// Predictors that were trained together.
#[derive(Debug, Clone, Default)]
pub struct PredictorPipeline {
    /// Name, such as `ec2-0.7.11`.
    pub name: String,
    /// Node types, if it has an index.
    pub index: Option<NodeTypeIndex>,
    /// Predictors by source, output type, group and name.
    pub models: Vec<PipelineModel>,
    /// Messages about parts that could not be used.
    pub warnings: Vec<String>,
    /// Whether the online trainer promoted its predictors; they were trained on this machine.
    pub is_promoted: bool,
}

impl PredictorPipeline {
    /// Sources with predictors.
    pub fn sources(&self) -> Vec<EnergySource> {
        let mut sources: Vec<EnergySource> = self.models.iter().map(|model| model.source).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}
