//! What came of cutting a graph: the document `metier.split/1`.

use std::path::{Path, PathBuf};

use metier_onnx::split::GraphPart;
use metier_onnx::split::solver::SplitObjective;
use metier_types::{Bytes, Passport, PassportUse, Prediction, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SplitTotal, StagePlan, StageTransfer};
use crate::latency::InferenceConditions;

/// What came of cutting a graph.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Split")]
pub struct SplitReport {
    /// `metier.split/1`.
    pub schema: String,
    /// The graph's file.
    pub graph: PathBuf,
    /// The parts, in their order.
    pub parts: Vec<SplitPart>,
    /// Which part goes where, where devices were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<SplitPlan>,
}

/// One part.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct SplitPart {
    /// Operators that it has.
    pub operators: usize,
    /// What it is given.
    pub inputs: Vec<String>,
    /// What it gives.
    pub outputs: Vec<String>,
    /// Multiply-adds of one inference; `null` where one is not known.
    pub multiply_adds: Option<u64>,
    /// Real numbers among its weights.
    pub parameters: u64,
    /// Bytes of its weights.
    pub weight_bytes: Bytes,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// What it sends on.
    pub sent_bytes: Option<Bytes>,
    /// How long that takes.
    pub send_seconds: Option<Seconds>,
    /// Where it was written.
    pub file: Option<PathBuf>,
    /// The device that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its time on each device, in their order; `null` where there is nothing to do that takes time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Option<Prediction>>,
}

/// Which part goes where.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Planned")]
pub struct SplitPlan {
    /// What was to be small: `latency` or `throughput`.
    pub goal: &'static str,
    /// What runs the parts.
    pub runtime: String,
    /// With how many threads at most; each device says how many it has of them.
    pub threads: u32,
    /// The devices.
    pub devices: Vec<SplitDevice>,
    /// The time of all parts and sendings, as the goal counts it.
    pub total: SplitTotal,
    /// The input's way to the first part.
    pub input_sent: Option<SplitSending>,
    /// What was assumed or left out.
    pub notes: Vec<String>,
}

/// A device.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub struct SplitDevice {
    /// What it is called here.
    pub name: String,
    /// Whose passport it has.
    pub passport: PassportUse,
    /// Threads that the runtime has there.
    pub threads: u32,
    /// The whole graph there, sendings included; `null` where its weights have no room.
    pub alone: Option<SplitTotal>,
}

/// Something that is sent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sent")]
pub struct SplitSending {
    /// To which device.
    pub to: String,
    /// How much.
    pub bytes: Bytes,
    /// How long it takes.
    pub seconds: Seconds,
}

/// A plan, and what it was made for.
pub struct SplitAnswer {
    pub plan: StagePlan,
    /// Names of the devices: as they were given, a second one of a name with its number.
    pub labels: Vec<String>,
    pub passports: Vec<Passport>,
    /// How they run their parts.
    pub conditions: InferenceConditions,
    pub goal: SplitObjective,
}

impl SplitPart {
    /// A part that is on no device yet.
    pub fn new(
        part: &GraphPart,
        multiply_adds: Option<u64>,
        sent: Option<Bytes>,
        file: Option<PathBuf>,
    ) -> Self {
        Self {
            operators: part.operators,
            inputs: part.inputs.clone(),
            outputs: part.outputs.clone(),
            multiply_adds,
            parameters: part.weights.parameters,
            weight_bytes: Bytes(part.weights.bytes),
            file_bytes: part.bytes.len() as u64,
            sent_bytes: sent,
            send_seconds: None,
            file,
            device: None,
            predictions: Vec::new(),
        }
    }

    /// Its time on its own device.
    pub fn own_prediction(&self, plan: Option<&SplitPlan>) -> Option<&Prediction> {
        let at = plan?.devices.iter().position(|device| Some(&device.name) == self.device.as_ref())?;
        self.predictions.get(at)?.as_ref()
    }
}

impl SplitReport {
    /// Nothing was cut yet.
    pub fn new(graph: &Path) -> Self {
        Self {
            schema: "metier.split/1".to_string(),
            graph: graph.to_path_buf(),
            parts: Vec::new(),
            plan: None,
        }
    }

    /// Adds which part goes where.
    pub fn add_plan(&mut self, answer: SplitAnswer) {
        let SplitAnswer { plan, labels, passports, conditions, goal } = answer;
        for (row, stage) in self.parts.iter_mut().zip(plan.stages) {
            row.device = Some(labels[stage.device].clone());
            row.predictions = stage.predictions;
            row.sent_bytes = stage.sends.map(|sent| sent.bytes);
            row.send_seconds = stage.sends.map(|sent| sent.seconds);
        }
        let sent = |sent: StageTransfer| SplitSending {
            to: labels[sent.to].clone(),
            bytes: sent.bytes,
            seconds: sent.seconds,
        };
        let threads: Vec<u32> = passports.iter().map(|passport| conditions.on(passport).threads).collect();
        let goal = match goal {
            SplitObjective::Latency => "latency",
            SplitObjective::Throughput => "throughput",
        };
        self.plan = Some(SplitPlan {
            goal,
            runtime: conditions.runtime,
            threads: threads.iter().copied().max().unwrap_or(1),
            input_sent: plan.arrives.map(sent),
            total: plan.total,
            notes: plan.notes,
            devices: labels
                .into_iter()
                .zip(&passports)
                .zip(threads)
                .zip(plan.alone)
                .map(|(((name, passport), threads), alone)| SplitDevice {
                    name,
                    passport: PassportUse::without_figures(passport),
                    threads,
                    alone,
                })
                .collect(),
        });
    }
}
