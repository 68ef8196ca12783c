//! Pipelines of predictors as kepler-model-db publishes them: a folder or zip with
//! `<source>/<output type>/<group>/<trainer>_<node type>.{zip,json}`, an index of node types, and tables of errors.
//!
//! What is read is small: names, errors, weights. Archives stay where they are and are read when somebody asks for one; what is inside
//! (pickles of scikit-learn among it) is opaque bytes to us. Nothing is ever unpacked to disk, so no name inside of a zip can lead anywhere.
//! Everything read is bounded ([`files`]). A pipeline may also be at an address ([`download`]), and a model server may be asked for a predictor ([`ask`]):
//! beside Prometheus the only things of this crate that are asked over a network.

mod archive;
mod ask;
mod download;
mod files;
mod folder;
pub(crate) mod load;
mod model;
mod pack;
mod place;
mod single;

pub use archive::{pack, pack_file};
pub use ask::{Lacking, ModelServer, bring_initial};
pub use download::{Download, Limits};
pub use files::{ARCHIVE_BYTES, Files, MEMBERS, Reader, replace};
pub use folder::{
    group_folder, predictor_metadata, read_metadata, read_node_types, write_metadata, write_node_types,
};
pub use load::{load, load_bytes};
pub use model::{Archive, Model};
pub use place::Place;
pub use single::{Purpose, Single};

use crate::node::Index;
use crate::vocabulary::Source;

/// Predictors that were learned together.
#[derive(Debug, Clone, Default)]
pub struct Pipeline {
    /// Its name, as `ec2-0.7.11`.
    pub name: String,
    /// Its node types, where it has an index.
    pub index: Option<Index>,
    /// Its predictors, by source, output type, group and name.
    pub models: Vec<Model>,
    /// What could not be used, in words.
    pub warnings: Vec<String>,
    /// Whether the online trainer promoted what is in it: it was learned on this machine.
    pub is_promoted: bool,
}

impl Pipeline {
    /// The sources that it has predictors for.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources: Vec<Source> = self.models.iter().map(|model| model.source).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}
