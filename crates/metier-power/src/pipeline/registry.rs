//! All pipelines that are there, and which of them is asked for a source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Model, Pipeline, load};
use crate::Error;
use crate::vocabulary::Source;

/// Most pipelines.
const PIPELINES: usize = 1000;

/// What loading gave.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The pipelines.
    pub registry: Registry,
    /// What could not be used, in words.
    pub warnings: Vec<String>,
}

/// All pipelines; the last that has predictors for a source is asked for it.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// By name, in the order in which they were added.
    pub pipelines: Vec<Arc<Pipeline>>,
    active: BTreeMap<Source, usize>,
    /// The pipeline that comes with the program.
    shipped: Option<usize>,
    /// Pipelines that somebody placed here as a whole: neither shipped, nor made of single predictors that were sent.
    placed: BTreeSet<usize>,
}

impl Registry {
    /// Reads pipelines: each path is a folder or zip of one, or a folder of such. One that cannot be read is left out and said.
    pub fn load(paths: &[PathBuf]) -> Loaded {
        let mut loaded = Loaded::default();
        for path in paths {
            let candidates = match candidates(path) {
                Ok(candidates) => candidates,
                Err(error) => {
                    loaded.warnings.push(error.to_string());
                    continue;
                }
            };
            for candidate in candidates {
                match load(&candidate) {
                    Ok(pipeline) => {
                        let of = |warning: &String| format!("{}: {warning}", candidate.display());
                        loaded.warnings.extend(pipeline.warnings.iter().map(of));
                        loaded.registry.add(pipeline);
                    }
                    Err(error) => loaded.warnings.push(error.to_string()),
                }
            }
        }
        loaded
    }

    /// Adds the pipeline that comes with the program. It answers for the sources that no placed pipeline has.
    pub fn add_shipped(&mut self, pipeline: Pipeline) {
        self.shipped = self.put(pipeline);
    }

    /// Adds a pipeline; it takes the place of one of the same name, and its sources.
    pub fn add(&mut self, pipeline: Pipeline) {
        let at = self.put(pipeline);
        self.placed.extend(at);
    }

    fn put(&mut self, pipeline: Pipeline) -> Option<usize> {
        let sources = pipeline.sources();
        let at = match self.pipelines.iter().position(|known| known.name == pipeline.name) {
            Some(at) => {
                self.active.retain(|_, active| *active != at);
                self.pipelines[at] = Arc::new(pipeline);
                at
            }
            None if self.pipelines.len() >= PIPELINES => return None,
            None => {
                self.pipelines.push(Arc::new(pipeline));
                self.pipelines.len() - 1
            }
        };
        for source in sources {
            self.active.insert(source, at);
        }
        Some(at)
    }

    /// Adds predictors to a pipeline of that name, where there is one: those of the same name take its place, all others stay. Node types that it has stay what they are.
    pub fn merge(&mut self, mut pipeline: Pipeline) {
        if let Some(known) = self.named(&pipeline.name) {
            let place =
                |model: &Model| (model.source, model.output_type, model.group, model.full_name.clone());
            let new: BTreeSet<_> = pipeline.models.iter().map(place).collect();
            let stay = known.models.iter().filter(|model| !new.contains(&place(model)));
            pipeline.models.extend(stay.cloned());
            pipeline.models.sort_by_key(place);
            if let Some(index) = &known.index {
                let all = pipeline.index.get_or_insert_default();
                all.0.extend(index.0.iter().map(|(number, entry)| (*number, entry.clone())));
            }
        }
        self.put(pipeline);
    }

    /// Whether a pipeline of that name was placed here as a whole.
    pub fn is_placed(&self, name: &str) -> bool {
        self.placed.iter().any(|at| self.pipelines[*at].name == name)
    }

    /// Who else may be asked for a source, the last that was added first. Where somebody placed a pipeline for it, what that lacks is not there: the shipped one is
    /// of other machines, and a client that wants something else asks for it after a refusal, as it does with the original.
    pub fn others(&self, source: Source) -> impl Iterator<Item = &Arc<Pipeline>> {
        let has = |at: &usize| self.pipelines[*at].models.iter().any(|model| model.source == source);
        let without = self.shipped.filter(|_| self.placed.iter().any(has));
        self.pipelines
            .iter()
            .enumerate()
            .rev()
            .filter(move |(at, _)| Some(*at) != without)
            .map(|(_, one)| one)
    }

    /// The pipeline that is asked for a source.
    pub fn active(&self, source: Source) -> Option<&Arc<Pipeline>> {
        self.pipelines.get(*self.active.get(&source)?)
    }

    /// The pipeline of that name.
    pub fn named(&self, name: &str) -> Option<&Arc<Pipeline>> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }
}

/// The pipelines at a path: itself, or all inside of it, by name.
pub(super) fn candidates(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() || path.join("metadata.json").is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Error::file(path, error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.join("metadata.json").is_file() || path.extension().is_some_and(|extension| extension == "zip")
    });
    found.sort_unstable();
    // A folder and a zip of one name are the same pipeline; the folder is newer, since it is what is changed.
    let folders: Vec<PathBuf> = found.iter().filter(|path| path.is_dir()).cloned().collect();
    found.retain(|path| path.is_dir() || !folders.iter().any(|folder| *folder == path.with_extension("")));
    found.truncate(PIPELINES);
    Ok(found)
}
