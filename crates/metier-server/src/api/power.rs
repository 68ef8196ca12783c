//! The power of this node over time: measured, estimated, and by process.

use std::collections::HashMap;
use std::sync::Arc;

use metier_device::sensors::MeterScope;
use metier_linux::cgroup::group_identity::CgroupKind;
use metier_linux::cpu_consumers::ConsumerIdentity;
use metier_power::ledger::{IdleMethod, LedgerEntry, MAX_ENTRIES, MAX_NAMED_PARTS};
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{MissingFields, Ratio, Seconds, UtcTimestamp, Watts};
use schemars::JsonSchema;
use serde::Serialize;

use super::power_predictors::{PowerMachine, PowerPredictor};
use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::power::{PowerHistory, PowerMonitor};

/// Time range and number of consumers.
pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::query(
        "last",
        ParameterForm::Whole { least: 1, most: MAX_ENTRIES as i64, otherwise: Some(MAX_ENTRIES as i64) },
        "Number of the latest entries.",
    ),
    RouteParameter::query(
        "top",
        ParameterForm::Whole { least: 0, most: MAX_NAMED_PARTS as i64, otherwise: Some(10) },
        "Number of the largest consumers that are listed by name.",
    ),
];

/// The power of this node. Each list has one entry for each of `times`; an unknown value is `null`.
/// In each entry idle, consumers, others and unseen add up to the measured power, else to the
/// estimated one, within rounding to milliwatts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodePower {
    /// `metier.node-power/1`.
    pub schema: RecordSchema<NodePower>,
    /// Sampling interval.
    pub interval_seconds: Seconds,
    /// This machine.
    pub machine: PowerMachine,
    /// The part of the machine that the figures cover.
    pub covers: PowerCoverage,
    /// The meters that add up to `measured`.
    pub meters: Vec<String>,
    /// The predictor of `estimated`.
    pub predictor: Option<NodePowerPredictor>,
    /// How idle power was determined.
    pub idle_from: IdlePowerSource,
    /// Error of the estimate against the meter, over all entries of this answer.
    pub compared: Option<MeterComparison>,
    /// The moment that `times` count from.
    pub since: Option<UtcTimestamp>,
    /// The end of each entry.
    pub times: Vec<Seconds>,
    /// Busy processors, on average.
    pub busy_cores: Vec<Option<f64>>,
    /// Measured power.
    pub measured: Vec<Option<Watts>>,
    /// Estimated power.
    pub estimated: Vec<Option<Watts>>,
    /// Lower end of the estimate's interval.
    pub low: Vec<Option<Watts>>,
    /// Upper end of the estimate's interval.
    pub high: Vec<Option<Watts>>,
    /// Power of the idle node.
    pub idle: Vec<Option<Watts>>,
    /// The largest consumers, by energy over all entries of this answer.
    pub consumers: Vec<PowerConsumer>,
    /// Power of all other consumers.
    pub others: Vec<Option<Watts>>,
    /// Power that belongs to no known process: interrupts, and processes that ended between two
    /// samples.
    pub unseen: Vec<Option<Watts>>,
    /// Figures that are missing, each with its reason.
    pub missing: MissingFields,
}

impl VersionedRecord for NodePower {
    const SCHEMA: &'static str = "metier.node-power/1";
}

/// The part of the machine that a power figure covers.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PowerCoverage {
    /// The whole machine.
    Platform,
    /// The processor.
    Package,
    /// The processor and its memory.
    PackageAndMemory,
}

/// How idle power was determined.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdlePowerSource {
    /// A line fitted to measured power over processor use.
    MeterFitted,
    /// The least measured power.
    MeterLeast,
    /// The predictor's estimate at idle.
    Predictor,
}

/// The predictor of the node's power.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodePowerPredictor {
    /// Its pipeline; `fallback` if no predictor fits this machine and its available metrics.
    pub pipeline: String,
    /// Its name; of the fallback, the processor class.
    pub name: String,
    /// Source of its pipeline.
    pub origin: String,
    /// Whether the latest use lies within its training range.
    pub in_range: bool,
    /// Cores of this machine divided by cores of the training machine.
    pub core_ratio: Ratio,
    /// The full record of the predictor; `null` for the fallback.
    pub about: Option<PowerPredictor>,
}

/// Error of the estimate against the meter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeterComparison {
    /// Entries that have both values.
    pub entries: usize,
    /// Mean absolute error.
    pub mae_watts: Watts,
    /// Mean relative error, over entries above a watt.
    pub mape_ratio: Option<Ratio>,
    /// Mean of estimated minus measured power.
    pub bias_watts: Watts,
    /// Share of entries whose measured power lies inside the estimate's interval.
    pub inside_ratio: Option<Ratio>,
}

/// A consumer of power.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerConsumer {
    /// The command name, truncated by the kernel.
    pub name: String,
    /// The enclosing container, pod, run or unit.
    pub owner: Option<ConsumerOwner>,
    /// Its processes at the latest sample; 0 if none runs now.
    pub processes: u32,
    /// Mean over all entries of this answer.
    pub mean_watts: Watts,
    /// Power in each entry; `null` where it was among the others.
    pub watts: Vec<Option<Watts>>,
}

/// The container, pod, run or unit that encloses a process.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConsumerOwner {
    /// `container`, `pod`, `run` or `unit`.
    pub kind: &'static str,
    /// Its identifier.
    pub id: String,
    /// Its name, if a container engine on this node has one.
    pub name: Option<String>,
}

impl ConsumerOwner {
    fn from_consumer(identity: &ConsumerIdentity, names: &HashMap<String, String>) -> Option<Self> {
        let (kind, id) = match identity.owner.as_ref()? {
            CgroupKind::Container(id) => ("container", id),
            CgroupKind::Pod(id) => ("pod", id),
            CgroupKind::Run(id) => ("run", id),
            CgroupKind::Unit(id) => ("unit", id),
        };
        Some(Self { kind, id: id.clone(), name: names.get(id).cloned() })
    }
}

/// The power monitor of this server.
pub fn power_monitor(app: &SharedAppState) -> Result<&PowerMonitor, ProblemDetails> {
    app.power.as_ref().map(|sampler| &*sampler.watch).ok_or_else(|| {
        ProblemDetails::unavailable(
            "this server does not monitor the power of its node; start it without --no-power",
        )
    })
}

/// The power of this node.
pub fn get_node_power(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let watch = power_monitor(app)?;
    let whole =
        |name: &str| call.arguments.integer(name).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let power = render_node_power(watch, &watch.lock_history(), whole("last"), whole("top"));
    HandlerResponse::json(&power)
}

/// Rounds to milliwatts: more digits are noise, and longer.
fn round_milliwatts(watts: f64) -> Watts {
    Watts((watts * 1000.0).round() / 1000.0)
}

fn render_node_power(watch: &PowerMonitor, seen: &PowerHistory, last: usize, top: usize) -> NodePower {
    let view = seen.ledger.view(last, top);
    let since = view.entries.first().map(|entry| entry.at);
    let list = |of: &dyn Fn(&LedgerEntry<Arc<ConsumerIdentity>>) -> Option<f64>| -> Vec<Option<Watts>> {
        view.entries.iter().map(|entry| of(entry).map(round_milliwatts)).collect()
    };
    let all = |watts: &[Option<f64>]| watts.iter().map(|watts| watts.map(round_milliwatts)).collect();
    let consumers = view.consumers.iter().map(|consumer| PowerConsumer {
        name: consumer.identity.name.clone(),
        owner: ConsumerOwner::from_consumer(&consumer.identity, &seen.names),
        processes: seen.processes.get(&consumer.identity).copied().unwrap_or_default(),
        mean_watts: round_milliwatts(consumer.mean),
        watts: all(&consumer.watts),
    });
    NodePower {
        schema: RecordSchema::new(),
        interval_seconds: Seconds(watch.power.interval.as_secs_f64()),
        machine: PowerMachine::from_spec(watch.power.estimator.machine()),
        covers: match seen.meter.as_ref().map(|(covers, _)| covers) {
            None | Some(MeterScope::Platform) => PowerCoverage::Platform,
            Some(MeterScope::Package) => PowerCoverage::Package,
            Some(MeterScope::PackageAndMemory) => PowerCoverage::PackageAndMemory,
        },
        meters: seen.meter.as_ref().map(|(_, names)| names.clone()).unwrap_or_default(),
        predictor: seen.predictor.as_ref().map(|inforce| NodePowerPredictor::from_active(watch, inforce)),
        idle_from: match seen.ledger.how() {
            IdleMethod::Fitted => IdlePowerSource::MeterFitted,
            IdleMethod::Least => IdlePowerSource::MeterLeast,
            IdleMethod::Predicted => IdlePowerSource::Predictor,
        },
        compared: view.compared.map(|comparison| MeterComparison {
            entries: comparison.entries,
            mae_watts: round_milliwatts(comparison.mae),
            mape_ratio: comparison.mape.map(Ratio),
            bias_watts: round_milliwatts(comparison.bias),
            inside_ratio: comparison.inside.map(|(of, inside)| Ratio(inside as f64 / of as f64)),
        }),
        since: since.and_then(|at| UtcTimestamp::from_millisecond(at).ok()),
        times: view
            .entries
            .iter()
            .map(|entry| Seconds((entry.at - since.unwrap_or_default()) as f64 / 1000.0))
            .collect(),
        busy_cores: view
            .entries
            .iter()
            .map(|entry| entry.busy_cores.map(|cores| (cores * 1000.0).round() / 1000.0))
            .collect(),
        measured: list(&|entry| entry.measured),
        estimated: list(&|entry| entry.estimated.map(|power| power.watts)),
        low: list(&|entry| entry.estimated?.interval.map(|(low, _)| low)),
        high: list(&|entry| entry.estimated?.interval.map(|(_, high)| high)),
        idle: list(&|entry| entry.parts.as_ref().map(|parts| parts.idle)),
        consumers: consumers.collect(),
        others: all(&view.others),
        unseen: list(&|entry| entry.parts.as_ref().map(|parts| parts.unseen)),
        missing: seen.missing.clone(),
    }
}
