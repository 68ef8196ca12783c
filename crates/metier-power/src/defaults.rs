//! What is shipped: predictors learned by our own trainers from published measurements, with their provenance and error, and a physical
//! fallback (idle and full power a core, by class of processor) for machines unlike any of those.
//!
//! `defaults.json` is made by `cargo run --release -p metier-power --example defaults -- FOLDER > crates/metier-power/src/defaults.json`. A shipped predictor answers where the machine
//! has about as many cores as the one it was learned on (half to twice); else the fallback does, which knows the machine's size.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

use crate::Error;
use crate::formula::{Formula, Kind, Spread};
use crate::node::{Index, MachineSpec};
use crate::pipeline::{Model, Pipeline};
use crate::selection::{self, Request};
use crate::vocabulary::{Component, FeatureGroup, ModelName, OutputType, Source};
use crate::written::Written;

const SHIPPED: &str = include_str!("defaults.json");
/// Cores of a machine that says nothing of itself.
const CORES: f64 = 4.0;
/// Highest frequency of such a machine, in MHz.
const MHZ: f64 = 2500.0;

/// Idle and full power of processors of a class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Class {
    /// How the names of its processors begin; empty for all.
    pub begins: String,
    /// How many machines were measured.
    pub machines: u32,
    /// Watts of the whole machine at rest, for each logical core.
    pub idle_watts: f64,
    /// Watts of the whole machine at full load, for each logical core.
    pub full_watts: f64,
}

/// How far the medians of classes are from single machines: each published machine against the median of the others of its class.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Apart {
    /// How many machines were compared.
    pub machines: u32,
    /// The share of them that is between the two factors, of either pair.
    pub coverage: f64,
    /// Least and largest factor at rest.
    pub idle: [f64; 2],
    /// Least and largest factor at full load.
    pub full: [f64; 2],
    /// Mean relative error at rest.
    pub idle_mape: f64,
    /// Mean relative error at full load.
    pub full_mape: f64,
}

/// Which part of the machine's power a component takes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Part {
    pub idle: f64,
    pub full: f64,
}

#[derive(Deserialize)]
struct File {
    name: String,
    provenance: String,
    index: Value,
    models: Vec<One>,
    classes: Vec<Class>,
    apart: Apart,
    parts: BTreeMap<Component, Part>,
}

#[derive(Deserialize)]
struct One {
    name: String,
    source: String,
    output_type: OutputType,
    group: String,
    errors: BTreeMap<String, f64>,
    weights: Written,
}

#[derive(Debug)]
pub struct Defaults {
    pub pipeline: Pipeline,
    /// Where they come from, in words.
    pub provenance: String,
    /// Classes of processors, the longest beginning first.
    pub classes: Vec<Class>,
    /// How far off they are.
    pub apart: Apart,
    parts: BTreeMap<Component, Part>,
}

/// What is shipped, read once.
pub fn shipped() -> Result<Arc<Defaults>, Error> {
    static READ: OnceLock<Arc<Defaults>> = OnceLock::new();
    match READ.get() {
        Some(read) => Ok(read.clone()),
        None => {
            let read = Defaults::read(SHIPPED).map(Arc::new)?;
            Ok(READ.get_or_init(|| read).clone())
        }
    }
}

impl Defaults {
    fn read(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::file("defaults.json", why);
        let file: File = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut models = Vec::new();
        for one in file.models {
            let name = ModelName::read(&one.name).ok_or_else(|| wrong(format!("{} is no name", one.name)))?;
            let source =
                Source::named(&one.source).ok_or_else(|| wrong(format!("{} is no source", one.source)))?;
            let group =
                FeatureGroup::named(&one.group).ok_or_else(|| wrong(format!("{} is no group", one.group)))?;
            models.push(Model {
                name,
                full_name: one.name,
                source,
                output_type: one.output_type,
                group,
                errors: one.errors.into_iter().collect(),
                weights: Some(one.weights.0),
                archive: None,
                scale: None,
                predictor: None,
            });
        }
        let index = Index::read(&file.index.to_string())?;
        let mut classes = file.classes;
        classes.sort_by_key(|class| std::cmp::Reverse(class.begins.len()));
        let pipeline = Pipeline { name: file.name, index: Some(index), models, ..Pipeline::default() };
        Ok(Self { pipeline, provenance: file.provenance, classes, apart: file.apart, parts: file.parts })
    }

    /// The shipped predictor for a request, with the cores of the machine that it was learned on.
    pub fn select(
        &self,
        request: &Request,
        machine: &MachineSpec,
        error_key: &str,
    ) -> Option<(&Model, Option<f64>)> {
        let request =
            Request { trainer_name: String::new(), machine_spec: MachineSpec::default(), ..request.clone() };
        let index = self.pipeline.index.as_ref()?;
        let is_alike = |model: &Model| {
            let of = index.0.get(&model.name.node_type).and_then(|entry| entry.spec.cores);
            matches!((machine.cores, of), (Some(own), Some(of)) if own >= of / 2.0 && own <= of * 2.0)
        };
        let chosen = selection::from(&self.pipeline, &request, error_key, &is_alike)?;
        let cores = index.0.get(&chosen.model.name.node_type).and_then(|entry| entry.spec.cores);
        Some((chosen.model, cores))
    }

    /// The class of a processor.
    pub fn class(&self, processor: Option<&str>) -> Option<&Class> {
        self.classes.iter().find(|class| processor.unwrap_or_default().starts_with(&class.begins))
    }

    /// The physical fallback: power rises in a straight line from idle to full with the share of time that the cores work, and so do the ends of its interval, which is wide: machines of a
    /// class differ by a factor of several. `None` where the metrics do not tell that.
    pub fn fallback(
        &self,
        metrics: &[String],
        machine: &MachineSpec,
        output_type: OutputType,
        source: Source,
    ) -> Option<(String, Vec<(Component, Formula)>)> {
        let class = self.class(machine.processor.as_deref())?;
        let cores = machine.cores.unwrap_or(CORES);
        let has = |name: &str| metrics.iter().any(|metric| metric == name);
        let (feature, full) = if has("bpf_cpu_time_ms") {
            ("bpf_cpu_time_ms", 1000.0 * cores)
        } else if has("cpu_cycles") {
            ("cpu_cycles", 1e6 * machine.frequency.unwrap_or(MHZ) * cores)
        } else {
            return None;
        };
        let formulas = source.components().iter().filter_map(|component| {
            let part = match component {
                Component::Platform => Part { idle: 1.0, full: 1.0 },
                other => *self.parts.get(other)?,
            };
            let (idle, most) = (class.idle_watts * cores * part.idle, class.full_watts * cores * part.full);
            let line = |idle: f64, most: f64, bias: f64| Kind::Linear { bias, weights: vec![most - idle] };
            let is_whole = output_type == OutputType::AbsPower;
            let kind = line(idle, most.max(idle), if is_whole { idle } else { 0.0 });
            let mut formula = Formula::new(*component, vec![feature.to_string()], vec![full], kind);
            let end = |end: usize| {
                let (idle, most) = (idle * self.apart.idle[end], most * self.apart.full[end]);
                line(idle, most, idle)
            };
            // What single machines differ by without their idle power nobody has looked at.
            formula.spread = is_whole.then(|| Spread::Between(Box::new([end(0), end(1)])));
            Some((*component, formula))
        });
        let name = if class.begins.is_empty() { "any" } else { class.begins.as_str() };
        Some((name.to_string(), formulas.collect()))
    }
}
