//! The power of this node over time: measured, estimated, and who takes it.

use std::collections::HashMap;
use std::sync::Arc;

use metier_device::sensors::Covers;
use metier_linux::cgroup::naming::Kind;
use metier_linux::consumers::Who;
use metier_power::ledger::{ENTRIES, Entry, How, PARTS};
use metier_types::schema::{Schema, Versioned};
use metier_types::{MissingFields, Ratio, Seconds, Timestamp, Watts};
use schemars::JsonSchema;
use serde::Serialize;

use super::power_predictors::{PowerMachine, PowerPredictor};
use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::power::{Seen, Watch};

/// How much of it.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::query(
        "last",
        Form::Whole { least: 1, most: ENTRIES as i64, otherwise: Some(ENTRIES as i64) },
        "How many of the latest entries.",
    ),
    Parameter::query(
        "top",
        Form::Whole { least: 0, most: PARTS as i64, otherwise: Some(10) },
        "How many of those that take most are told by name.",
    ),
];

/// The power of this node. Lists have one place for each of `times`; what is not known there is `null`.
/// In each place idle, consumers, others and unseen add up to what was measured, else to what was estimated, within rounding to milliwatts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodePower {
    /// `metier.node-power/1`.
    pub schema: Schema<NodePower>,
    /// How often one looks.
    pub interval_seconds: Seconds,
    /// This machine.
    pub machine: PowerMachine,
    /// What the figures are of.
    pub covers: PowerOf,
    /// The meters that `measured` is the sum of.
    pub meters: Vec<String>,
    /// The predictor that `estimated` is of.
    pub predictor: Option<EstimatedBy>,
    /// How the idle part was found.
    pub idle_from: IdleFrom,
    /// The estimate against the meter, over all entries that are told.
    pub compared: Option<AgainstMeter>,
    /// The moment that `times` count from.
    pub since: Option<Timestamp>,
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

impl Versioned for NodePower {
    const SCHEMA: &'static str = "metier.node-power/1";
}

/// What figures of power are of.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PowerOf {
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
pub enum IdleFrom {
    /// A line through what was measured, over how busy the processors were.
    MeterFitted,
    /// The least that was measured.
    MeterLeast,
    /// The predictor says so.
    Predictor,
}

/// The predictor that estimates the node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EstimatedBy {
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
pub struct AgainstMeter {
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
    fn of(who: &Who, names: &HashMap<String, String>) -> Option<Self> {
        let (kind, id) = match who.owner.as_ref()? {
            Kind::Container(id) => ("container", id),
            Kind::Pod(id) => ("pod", id),
            Kind::Run(id) => ("run", id),
            Kind::Unit(id) => ("unit", id),
        };
        Some(Self { kind, id: id.clone(), name: names.get(id).cloned() })
    }
}

/// What is running that looks at the node's power.
pub fn watch(app: &App) -> Result<&Watch, Problem> {
    app.power.as_ref().map(|sampler| &*sampler.watch).ok_or_else(|| {
        Problem::unavailable(
            "this server does not look at the power of its node; start it without --no-power to see it",
        )
    })
}

/// The power of this node.
pub fn power(app: &App, call: &Call) -> Result<Reply, Problem> {
    let watch = watch(app)?;
    let whole =
        |name: &str| call.arguments.whole(name).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let told = told(watch, &watch.seen(), whole("last"), whole("top"));
    Reply::json(&told)
}

/// To milliwatts: more is noise, and longer.
fn short(watts: f64) -> Watts {
    Watts((watts * 1000.0).round() / 1000.0)
}

fn told(watch: &Watch, seen: &Seen, last: usize, top: usize) -> NodePower {
    let view = seen.ledger.view(last, top);
    let since = view.entries.first().map(|entry| entry.at);
    let list = |of: &dyn Fn(&Entry<Arc<Who>>) -> Option<f64>| -> Vec<Option<Watts>> {
        view.entries.iter().map(|entry| of(entry).map(short)).collect()
    };
    let all = |watts: &[Option<f64>]| watts.iter().map(|watts| watts.map(short)).collect();
    let consumers = view.consumers.iter().map(|one| PowerConsumer {
        name: one.who.name.clone(),
        owner: ConsumerOwner::of(&one.who, &seen.names),
        processes: seen.processes.get(&one.who).copied().unwrap_or_default(),
        mean_watts: short(one.mean),
        watts: all(&one.watts),
    });
    NodePower {
        schema: Schema::new(),
        interval_seconds: Seconds(watch.power.interval.as_secs_f64()),
        machine: PowerMachine::of(watch.power.estimator.machine()),
        covers: match seen.meter.as_ref().map(|(covers, _)| covers) {
            None | Some(Covers::Platform) => PowerOf::Platform,
            Some(Covers::Package) => PowerOf::Package,
            Some(Covers::PackageAndMemory) => PowerOf::PackageAndMemory,
        },
        meters: seen.meter.as_ref().map(|(_, names)| names.clone()).unwrap_or_default(),
        predictor: seen.predictor.as_ref().map(|inforce| EstimatedBy::of(watch, inforce)),
        idle_from: match seen.ledger.how() {
            How::Fitted => IdleFrom::MeterFitted,
            How::Least => IdleFrom::MeterLeast,
            How::Predicted => IdleFrom::Predictor,
        },
        compared: view.compared.map(|one| AgainstMeter {
            entries: one.entries,
            mae_watts: short(one.mae),
            mape_ratio: one.mape.map(Ratio),
            bias_watts: short(one.bias),
            inside_ratio: one.inside.map(|(of, inside)| Ratio(inside as f64 / of as f64)),
        }),
        since: since.and_then(|at| Timestamp::from_millisecond(at).ok()),
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
        estimated: list(&|entry| entry.estimated.map(|one| one.watts)),
        low: list(&|entry| entry.estimated?.interval.map(|(low, _)| low)),
        high: list(&|entry| entry.estimated?.interval.map(|(_, high)| high)),
        idle: list(&|entry| entry.parts.as_ref().map(|parts| parts.idle)),
        consumers: consumers.collect(),
        others: all(&view.others),
        unseen: list(&|entry| entry.parts.as_ref().map(|parts| parts.unseen)),
        missing: seen.missing.clone(),
    }
}
