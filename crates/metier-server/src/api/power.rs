//! The power of this node over time: measured, estimated, and who takes it.

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

/// How much of it.
pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::query(
        "last",
        ParameterForm::Whole { least: 1, most: MAX_ENTRIES as i64, otherwise: Some(MAX_ENTRIES as i64) },
        "How many of the latest entries.",
    ),
    RouteParameter::query(
        "top",
        ParameterForm::Whole { least: 0, most: MAX_NAMED_PARTS as i64, otherwise: Some(10) },
        "How many of those that take most are told by name.",
    ),
];

/// The power of this node. Lists have one place for each of `times`; what is not known there is `null`.
/// In each place idle, consumers, others and unseen add up to what was measured, else to what was estimated, within rounding to milliwatts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodePower {
    /// `metier.node-power/1`.
    pub schema: RecordSchema<NodePower>,
    /// How often one looks.
    pub interval_seconds: Seconds,
    /// This machine.
    pub machine: PowerMachine,
    /// What the figures are of.
    pub covers: PowerCoverage,
    /// The meters that `measured` is the sum of.
    pub meters: Vec<String>,
    /// The predictor that `estimated` is of.
    pub predictor: Option<NodePowerPredictor>,
    /// How the idle part was found.
    pub idle_from: IdlePowerSource,
    /// The estimate against the meter, over all entries that are told.
    pub compared: Option<MeterComparison>,
    /// The moment that `times` count from.
    pub since: Option<UtcTimestamp>,
    /// The end of each entry.
    pub times: Vec<Seconds>,
    /// Processors that were busy, on average.
    pub busy_cores: Vec<Option<f64>>,
    /// What the meter said.
    pub measured: Vec<Option<Watts>>,
    /// What the predictor said.
    pub estimated: Vec<Option<Watts>>,
    /// The lower end of its interval.
    pub low: Vec<Option<Watts>>,
    /// The upper end of its interval.
    pub high: Vec<Option<Watts>>,
    /// What the node would take if nobody worked.
    pub idle: Vec<Option<Watts>>,
    /// Those that take most, by the energy of all entries that are told.
    pub consumers: Vec<PowerConsumer>,
    /// All others together.
    pub others: Vec<Option<Watts>>,
    /// Work for which nobody was found: interrupts, and processes that ended unseen.
    pub unseen: Vec<Option<Watts>>,
    /// What there is no figure of, and why.
    pub missing: MissingFields,
}

impl VersionedRecord for NodePower {
    const SCHEMA: &'static str = "metier.node-power/1";
}

/// What figures of power are of.
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

/// How the idle part was found.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdlePowerSource {
    /// A line through what was measured, over how busy the processors were.
    MeterFitted,
    /// The least that was measured.
    MeterLeast,
    /// The predictor says so.
    Predictor,
}

/// The predictor that estimates the node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodePowerPredictor {
    /// Its pipeline; `fallback` where none fits this machine and what is known of its use.
    pub pipeline: String,
    /// Its name; of the fallback the class of the processor.
    pub name: String,
    /// Where it comes from.
    pub origin: String,
    /// Whether the latest use is within what it was learned from.
    pub in_range: bool,
    /// Cores of this machine for each of the machine that it was learned on.
    pub core_ratio: Ratio,
    /// All that is known of it; `null` for the fallback.
    pub about: Option<PowerPredictor>,
}

/// The estimate against the meter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeterComparison {
    /// Entries that have both.
    pub entries: usize,
    /// Mean of the absolute differences.
    pub mae_watts: Watts,
    /// Mean of the differences relative to the meter, in entries above a watt.
    pub mape_ratio: Option<Ratio>,
    /// Mean of estimated less measured.
    pub bias_watts: Watts,
    /// Of the entries whose estimate has an interval those whose measured power is inside.
    pub inside_ratio: Option<Ratio>,
}

/// One who takes power.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerConsumer {
    /// The command, as the kernel cuts its name.
    pub name: String,
    /// What is around it.
    pub owner: Option<ConsumerOwner>,
    /// Its processes at the latest look; 0 where none of them works now.
    pub processes: u32,
    /// On average over all entries that are told.
    pub mean_watts: Watts,
    /// In each entry; `null` where it was among the others.
    pub watts: Vec<Option<Watts>>,
}

/// What is around a process.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConsumerOwner {
    /// `container`, `pod`, `run` or `unit`.
    pub kind: &'static str,
    /// Its identifier.
    pub id: String,
    /// What people call it, where a container engine on this node knows that.
    pub name: Option<String>,
}

impl ConsumerOwner {
    fn from_consumer(who: &ConsumerIdentity, names: &HashMap<String, String>) -> Option<Self> {
        let (kind, id) = match who.owner.as_ref()? {
            CgroupKind::Container(id) => ("container", id),
            CgroupKind::Pod(id) => ("pod", id),
            CgroupKind::Run(id) => ("run", id),
            CgroupKind::Unit(id) => ("unit", id),
        };
        Some(Self { kind, id: id.clone(), name: names.get(id).cloned() })
    }
}

/// What is running that looks at the node's power.
pub fn power_monitor(app: &SharedAppState) -> Result<&PowerMonitor, ProblemDetails> {
    app.power.as_ref().map(|sampler| &*sampler.watch).ok_or_else(|| {
        ProblemDetails::unavailable(
            "this server does not look at the power of its node; start it without --no-power to see it",
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

/// To milliwatts: more is noise, and longer.
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
