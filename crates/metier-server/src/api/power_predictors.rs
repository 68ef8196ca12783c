//! All known predictors of power with their errors by component, grouped by training machine.

use metier_power::defaults;
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use metier_power::node::MachineSpec;
use metier_power::selection::{ListedPredictor, PredictorFilter, list};
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{Bytes, Hertz, Ratio, Watts};
use schemars::JsonSchema;
use serde::Serialize;

use super::power::{NodePowerPredictor, power_monitor};
use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::power::{ActivePowerPredictor, PowerMonitor};

const SOURCES: &[&str] = &["rapl-sysfs", "rapl-msr", "acpi", "hmc", "redfish", "trained_power_model"];
const OUTPUT_TYPES: &[&str] = &["AbsPower", "DynPower"];
const GROUPS: &[&str] = &[
    "Full",
    "WorkloadOnly",
    "CounterOnly",
    "BPFOnly",
    "BPFIRQ",
    "CounterIRQCombined",
    "Basic",
    "AcceleratorOnly",
    "ThirdParty",
];

/// Filters of the list.
pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::query("pipeline", ParameterForm::Text(200), "Of that pipeline."),
    RouteParameter::query("source", ParameterForm::OneOf(SOURCES), "For that source of energy."),
    RouteParameter::query("output_type", ParameterForm::OneOf(OUTPUT_TYPES), "With idle power or without."),
    RouteParameter::query("feature_group", ParameterForm::OneOf(GROUPS), "That look at these features."),
    RouteParameter::query("trainer", ParameterForm::Text(100), "Learned by that trainer."),
    RouteParameter::query(
        "node_type",
        ParameterForm::Whole { least: 0, most: u32::MAX as i64, otherwise: None },
        "Of that node type.",
    ),
    RouteParameter::query(
        "usable",
        ParameterForm::OneOf(&["true", "false"]),
        "Only those that can answer here, or only those that cannot.",
    ),
    RouteParameter::query(
        "from",
        ParameterForm::Whole { least: 0, most: 1_000_000, otherwise: Some(0) },
        "How many of the first are passed over.",
    ),
    RouteParameter::query(
        "limit",
        ParameterForm::Whole { least: 1, most: 1000, otherwise: Some(200) },
        "Number of listed predictors.",
    ),
];

/// Predictors of power: those of the most similar machines first; for one machine, the smallest
/// error first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerPredictorList {
    /// `metier.power-predictor-list/1`.
    pub schema: RecordSchema<PowerPredictorList>,
    /// This machine.
    pub machine: PowerMachine,
    /// Number of matching predictors.
    pub total: usize,
    /// The requested page of them.
    pub predictors: Vec<PowerPredictor>,
    /// All pipelines, in the order in which they were added; of those with a source, the last one
    /// takes precedence.
    pub pipelines: Vec<PowerPipeline>,
    /// The estimate for machines unlike all of these.
    pub fallback: Option<PowerFallback>,
}

impl VersionedRecord for PowerPredictorList {
    const SCHEMA: &'static str = "metier.power-predictor-list/1";
}

/// A predictor of power.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PowerPredictor {
    /// Its pipeline.
    pub pipeline: String,
    /// Its name: trainer and node type.
    pub name: String,
    /// Its trainer.
    pub trainer: String,
    /// Source of its training energy.
    pub source: &'static str,
    /// `AbsPower` with idle power, `DynPower` without.
    pub output_type: &'static str,
    /// Its feature group.
    pub feature_group: &'static str,
    /// Node type of its training machine.
    pub node_type: u32,
    /// Its training machine, if the pipeline records it.
    pub machine: Option<PowerMachine>,
    /// Number of measured machines of that type.
    pub machines: Option<usize>,
    /// Similarity of that machine to this one, 0 to 1.
    pub similarity: Option<f64>,
    /// Its errors on held-out rows, the worst component first; empty if the pipeline records none.
    pub errors: Vec<PowerComponentError>,
    /// Whether it can be used here; a pickle can only be passed on.
    pub is_usable: bool,
    /// Whether the estimator uses it now.
    pub is_in_use: bool,
}

/// Error of a predictor for one component.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PowerComponentError {
    /// The component; `null` if only one error for all is known.
    pub component: Option<&'static str>,
    /// Mean absolute error.
    pub mae_watts: Option<Watts>,
    /// Mean relative error.
    pub mape_ratio: Option<Ratio>,
}

/// A machine, as node types describe it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PowerMachine {
    /// Its processor.
    pub processor: Option<String>,
    /// Its logical cores.
    pub cores: Option<f64>,
    /// Its packages.
    pub chips: Option<f64>,
    /// Its memory.
    pub memory_bytes: Option<Bytes>,
    /// Its highest frequency.
    pub frequency_hertz: Option<Hertz>,
}

impl PowerMachine {
    /// Converts a machine specification to base units.
    pub fn from_spec(spec: &MachineSpec) -> Self {
        Self {
            processor: spec.processor.clone(),
            cores: spec.cores,
            chips: spec.chips,
            memory_bytes: spec.memory.map(|gib| Bytes((gib * f64::from(1u32 << 30)) as u64)),
            frequency_hertz: spec.frequency.map(|mhz| Hertz(mhz * 1e6)),
        }
    }
}

/// A pipeline.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerPipeline {
    /// Its name.
    pub name: String,
    /// Its predictors.
    pub predictors: usize,
    /// Its node types, where it has an index.
    pub node_types: Option<usize>,
    /// Energy sources for which it takes precedence.
    pub asked_for: Vec<&'static str>,
    /// Its source, if known.
    pub origin: Option<String>,
}

/// The physical fallback: idle and full power per core, by processor class.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerFallback {
    /// Prefix of the processor names of the class; empty for all.
    pub class: String,
    /// Number of measured machines.
    pub machines: u32,
    /// Idle power of the whole machine per logical core, in watts.
    pub idle_watts: Watts,
    /// Power of the whole machine at full load per logical core, in watts.
    pub full_watts: Watts,
    /// Mean relative error of idle power: each machine against the median of the others of its
    /// class.
    pub idle_mape_ratio: Ratio,
    /// The same at full load.
    pub full_mape_ratio: Ratio,
    /// Number of machines behind these errors.
    pub compared: u32,
}

impl PowerPredictor {
    fn from_listed(predictor: &ListedPredictor<'_>, in_use: &dyn Fn(&ListedPredictor<'_>) -> bool) -> Self {
        let model = predictor.model;
        Self {
            pipeline: predictor.pipeline.name.clone(),
            name: model.full_name.clone(),
            trainer: model.name.trainer.clone(),
            source: model.source.name(),
            output_type: model.output_type.name(),
            feature_group: model.group.name(),
            node_type: model.name.node_type,
            machine: predictor.machine.map(|entry| PowerMachine::from_spec(&entry.spec)),
            machines: predictor.machine.map(|entry| entry.members.len()),
            similarity: predictor.similarity,
            errors: predictor
                .errors
                .iter()
                .map(|error| PowerComponentError {
                    component: error.component.map(|component| component.name()),
                    mae_watts: error.mae.map(Watts),
                    mape_ratio: error.mape.map(|percent| Ratio(percent / 100.0)),
                })
                .collect(),
            is_usable: model.is_usable(),
            is_in_use: in_use(predictor),
        }
    }
}

/// Whether the estimator has answered with a predictor since its pipelines were read.
fn in_use_filter(watch: &PowerMonitor) -> impl Fn(&ListedPredictor<'_>) -> bool {
    let known = watch.power.estimator.in_use();
    move |predictor: &ListedPredictor<'_>| {
        known.iter().any(|used| {
            used.pipeline == predictor.pipeline.name
                && used.predictor == predictor.model.full_name
                && used.group == predictor.model.group.name()
                && used.output_type == predictor.model.output_type
                && used.source.components() == predictor.model.source.components()
        })
    }
}

/// The source of a pipeline, if known.
fn pipeline_origin(pipeline: &str) -> Option<String> {
    let shipped = defaults::shipped().ok()?;
    (shipped.pipeline.name == pipeline).then(|| shipped.provenance.clone())
}

fn power_fallback(machine: &MachineSpec) -> Option<PowerFallback> {
    let shipped = defaults::shipped().ok()?;
    let class = shipped.class(machine.processor.as_deref())?;
    Some(PowerFallback {
        class: class.begins.clone(),
        machines: class.machines,
        idle_watts: Watts(class.idle_watts),
        full_watts: Watts(class.full_watts),
        idle_mape_ratio: Ratio(shipped.apart.idle_mape),
        full_mape_ratio: Ratio(shipped.apart.full_mape),
        compared: shipped.apart.machines,
    })
}

impl NodePowerPredictor {
    /// The predictor in use, with its full record.
    pub fn from_active(watch: &PowerMonitor, inforce: &ActivePowerPredictor) -> Self {
        let about = &inforce.about;
        let machine = watch.power.estimator.machine();
        let registry = watch.power.estimator.registry();
        let filter = PredictorFilter {
            pipeline: Some(about.pipeline.clone()),
            group: FeatureGroup::named(&about.group),
            output_type: Some(about.output_type),
            ..PredictorFilter::default()
        };
        let known = list(&registry, &filter, machine);
        let found = known.iter().find(|predictor| {
            predictor.model.full_name == about.predictor
                && predictor.model.source.components() == about.source.components()
        });
        let of_class = || {
            let class = power_fallback(machine)?;
            let name = if class.class.is_empty() { "all processors" } else { class.class.as_str() };
            Some(format!(
                "idle and full power a core, the medians of {} published machines ({name}), scaled to the cores of this one",
                class.machines
            ))
        };
        Self {
            pipeline: about.pipeline.clone(),
            name: about.predictor.clone(),
            origin: pipeline_origin(&about.pipeline)
                .or_else(|| if about.group.is_empty() { of_class() } else { None })
                .unwrap_or_else(|| format!("pipeline {}", about.pipeline)),
            in_range: inforce.in_range,
            core_ratio: Ratio(inforce.core_ratio),
            about: found.map(|predictor| PowerPredictor::from_listed(predictor, &|_| true)),
        }
    }
}

/// All predictors of power.
pub fn list_power_predictors(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let watch = power_monitor(app)?;
    let arguments = &call.arguments;
    let text = |name: &str| arguments.text(name).map(str::to_string);
    let filter = PredictorFilter {
        pipeline: text("pipeline"),
        source: arguments.text("source").and_then(EnergySource::named),
        output_type: arguments.text("output_type").and_then(OutputType::named),
        group: arguments.text("feature_group").and_then(FeatureGroup::named),
        name: None,
        trainer: text("trainer"),
        node_type: arguments.integer("node_type").and_then(|number| u32::try_from(number).ok()),
        is_usable: arguments.text("usable").map(|usable| usable == "true"),
    };
    let whole =
        |name: &str| arguments.integer(name).and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    let machine = watch.power.estimator.machine();
    let registry = watch.power.estimator.registry();
    let all = list(&registry, &filter, machine);
    let is_in_use = in_use_filter(watch);
    let take = all.iter().skip(whole("from")).take(whole("limit"));
    let pipelines = registry.pipelines.iter().map(|pipeline| PowerPipeline {
        name: pipeline.name.clone(),
        predictors: pipeline.models.len(),
        node_types: pipeline.index.as_ref().map(|index| index.0.len()),
        asked_for: pipeline
            .sources()
            .into_iter()
            .filter(|source| registry.active(*source).is_some_and(|active| active.name == pipeline.name))
            .map(EnergySource::name)
            .collect(),
        origin: pipeline_origin(&pipeline.name),
    });
    HandlerResponse::json(&PowerPredictorList {
        schema: RecordSchema::new(),
        machine: PowerMachine::from_spec(machine),
        total: all.len(),
        predictors: take.map(|predictor| PowerPredictor::from_listed(predictor, &is_in_use)).collect(),
        pipelines: pipelines.collect(),
        fallback: power_fallback(machine),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_that_predictors_know_can_be_asked_for() {
        assert_eq!(SOURCES, EnergySource::ALL.map(EnergySource::name));
        assert_eq!(OUTPUT_TYPES, OutputType::ALL.map(OutputType::name));
        assert_eq!(GROUPS, FeatureGroup::ALL.map(FeatureGroup::name));
    }
}
