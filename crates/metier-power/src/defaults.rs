//! Shipped predictors, trained by metier's own trainers on published measurements, with provenance
//! and error. A physical fallback (idle and full power per core, by processor class) serves
//! machines unlike any of those.
//!
//! Regenerate `defaults.json` with `cargo run --release -p metier-power --example defaults --
//! FOLDER > crates/metier-power/src/defaults.json`. A shipped predictor answers if the machine has
//! half to twice the cores of its training machine. Otherwise the fallback answers, since it scales
//! with the number of cores.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

use crate::Error;
use crate::formula::{FormulaKind, FormulaSpread, PowerFormula};
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType, PowerComponent};
use crate::node::{MachineSpec, NodeTypeIndex};
use crate::pipeline::{PipelineModel, PredictorPipeline};
use crate::raw_json::RawJson;
use crate::selection::{self, ModelRequest};

const SHIPPED: &str = include_str!("defaults.json");
/// Assumed cores of a machine without a specification.
const UNKNOWN_MACHINE_CORES: f64 = 4.0;
/// Assumed highest frequency of a machine without a specification, in MHz.
const UNKNOWN_MACHINE_MHZ: f64 = 2500.0;

/// Idle and full power of processors of a class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ProcessorClass {
    /// Prefix of the processor names in this class; empty matches all.
    pub begins: String,
    /// How many machines were measured.
    pub machines: u32,
    /// Watts of the whole machine at rest, for each logical core.
    pub idle_watts: f64,
    /// Watts of the whole machine at full load, for each logical core.
    pub full_watts: f64,
}

/// Deviation of single machines from the class median. Each published machine is compared with the
/// median of the other machines of its class.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct ClassDeviation {
    /// Number of machines compared.
    pub machines: u32,
    /// Share of machines inside the factor ranges, idle and full load together.
    pub coverage: f64,
    /// Smallest and largest factor when idle.
    pub idle: [f64; 2],
    /// Least and largest factor at full load.
    pub full: [f64; 2],
    /// Mean relative error when idle.
    pub idle_mape: f64,
    /// Mean relative error at full load.
    pub full_mape: f64,
}

/// Share of the machine's power that a component takes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct ComponentShare {
    pub idle: f64,
    pub full: f64,
}

#[derive(Deserialize)]
struct ShippedFile {
    name: String,
    provenance: String,
    index: Value,
    models: Vec<ShippedModelRecord>,
    classes: Vec<ProcessorClass>,
    apart: ClassDeviation,
    parts: BTreeMap<PowerComponent, ComponentShare>,
}

#[derive(Deserialize)]
struct ShippedModelRecord {
    name: String,
    source: String,
    output_type: OutputType,
    group: String,
    errors: BTreeMap<String, f64>,
    weights: RawJson,
}

#[derive(Debug)]
pub struct ShippedPredictors {
    pub pipeline: PredictorPipeline,
    /// Free-text origin of the measurements.
    pub provenance: String,
    /// Processor classes, the longest prefix first.
    pub classes: Vec<ProcessorClass>,
    /// Deviation of single machines from their class.
    pub apart: ClassDeviation,
    parts: BTreeMap<PowerComponent, ComponentShare>,
}

/// The shipped predictors, parsed once.
pub fn shipped() -> Result<Arc<ShippedPredictors>, Error> {
    static READ: OnceLock<Arc<ShippedPredictors>> = OnceLock::new();
    match READ.get() {
        Some(read) => Ok(read.clone()),
        None => {
            let read = ShippedPredictors::read(SHIPPED).map(Arc::new)?;
            Ok(READ.get_or_init(|| read).clone())
        }
    }
}

impl ShippedPredictors {
    fn read(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::file("defaults.json", why);
        let file: ShippedFile = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut models = Vec::new();
        for record in file.models {
            let name =
                ModelName::read(&record.name).ok_or_else(|| wrong(format!("{} is no name", record.name)))?;
            let source = EnergySource::named(&record.source)
                .ok_or_else(|| wrong(format!("{} is no source", record.source)))?;
            let group = FeatureGroup::named(&record.group)
                .ok_or_else(|| wrong(format!("{} is no group", record.group)))?;
            models.push(PipelineModel {
                name,
                full_name: record.name,
                source,
                output_type: record.output_type,
                group,
                errors: record.errors.into_iter().collect(),
                weights: Some(record.weights.0),
                archive: None,
                scale: None,
                predictor: None,
            });
        }
        let index = NodeTypeIndex::read(&file.index.to_string())?;
        let mut classes = file.classes;
        classes.sort_by_key(|class| std::cmp::Reverse(class.begins.len()));
        let pipeline =
            PredictorPipeline { name: file.name, index: Some(index), models, ..PredictorPipeline::default() };
        Ok(Self { pipeline, provenance: file.provenance, classes, apart: file.apart, parts: file.parts })
    }

    /// The shipped predictor for a request, with the core count of its training machine.
    pub fn select(
        &self,
        request: &ModelRequest,
        machine: &MachineSpec,
        error_key: &str,
    ) -> Option<(&PipelineModel, Option<f64>)> {
        let request = ModelRequest {
            trainer_name: String::new(),
            machine_spec: MachineSpec::default(),
            ..request.clone()
        };
        let index = self.pipeline.index.as_ref()?;
        let is_alike = |model: &PipelineModel| {
            let of = index.0.get(&model.name.node_type).and_then(|entry| entry.spec.cores);
            matches!((machine.cores, of), (Some(own), Some(of)) if own >= of / 2.0 && own <= of * 2.0)
        };
        let chosen = selection::select_in_pipeline(&self.pipeline, &request, error_key, &is_alike)?;
        let cores = index.0.get(&chosen.model.name.node_type).and_then(|entry| entry.spec.cores);
        Some((chosen.model, cores))
    }

    /// The class of a processor.
    pub fn class(&self, processor: Option<&str>) -> Option<&ProcessorClass> {
        self.classes.iter().find(|class| processor.unwrap_or_default().starts_with(&class.begins))
    }

    /// The physical fallback: power rises linearly from idle to full with processor utilisation.
    /// The interval ends rise likewise; the interval is wide, since machines of a class differ
    /// severalfold. `None` if the metrics do not give the utilisation.
    pub fn fallback(
        &self,
        metrics: &[String],
        machine: &MachineSpec,
        output_type: OutputType,
        source: EnergySource,
    ) -> Option<(String, Vec<(PowerComponent, PowerFormula)>)> {
        let class = self.class(machine.processor.as_deref())?;
        let cores = machine.cores.unwrap_or(UNKNOWN_MACHINE_CORES);
        let has = |name: &str| metrics.iter().any(|metric| metric == name);
        let (feature, full) = if has("bpf_cpu_time_ms") {
            ("bpf_cpu_time_ms", 1000.0 * cores)
        } else if has("cpu_cycles") {
            ("cpu_cycles", 1e6 * machine.frequency.unwrap_or(UNKNOWN_MACHINE_MHZ) * cores)
        } else {
            return None;
        };
        let formulas = source.components().iter().filter_map(|component| {
            let part = match component {
                PowerComponent::Platform => ComponentShare { idle: 1.0, full: 1.0 },
                other => *self.parts.get(other)?,
            };
            let (idle, most) = (class.idle_watts * cores * part.idle, class.full_watts * cores * part.full);
            let line =
                |idle: f64, most: f64, bias: f64| FormulaKind::Linear { bias, weights: vec![most - idle] };
            let is_whole = output_type == OutputType::AbsPower;
            let kind = line(idle, most.max(idle), if is_whole { idle } else { 0.0 });
            let mut formula = PowerFormula::new(*component, vec![feature.to_string()], vec![full], kind);
            let end = |end: usize| {
                let (idle, most) = (idle * self.apart.idle[end], most * self.apart.full[end]);
                line(idle, most, idle)
            };
            // The deviation of single machines was measured for total power only, not for power
            // without idle.
            formula.spread = is_whole.then(|| FormulaSpread::Between(Box::new([end(0), end(1)])));
            Some((*component, formula))
        });
        let name = if class.begins.is_empty() { "any" } else { class.begins.as_str() };
        Some((name.to_string(), formulas.collect()))
    }
}
