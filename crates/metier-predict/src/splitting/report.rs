//! The document `metier.split/1` with the result of a split.

use std::path::{Path, PathBuf};

use metier_onnx::split::GraphPart;
use metier_onnx::split::solver::SplitObjective;
use metier_types::{Bytes, Passport, PassportUse, Prediction, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SplitTotal, StagePlan, StageTransfer};
use crate::latency::InferenceConditions;

/// Result of a split.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Split")]
pub struct SplitReport {
    /// `metier.split/1`.
    pub schema: String,
    /// Path of the graph.
    pub graph: PathBuf,
    /// The parts in order.
    pub parts: Vec<SplitPart>,
    /// Assignment of parts to devices, if devices were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<SplitPlan>,
}

/// A part of the graph.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct SplitPart {
    /// Number of operators.
    pub operators: usize,
    /// Names of its inputs.
    pub inputs: Vec<String>,
    /// Names of its outputs.
    pub outputs: Vec<String>,
    /// Multiply-adds of one inference; `null` if any is unknown.
    pub multiply_adds: Option<u64>,
    /// Number of real-valued weights.
    pub parameters: u64,
    /// Bytes of its weights.
    pub weight_bytes: Bytes,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// Bytes sent to the next device.
    pub sent_bytes: Option<Bytes>,
    /// Seconds of that transfer.
    pub send_seconds: Option<Seconds>,
    /// Path of its file, if written.
    pub file: Option<PathBuf>,
    /// Its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Predicted time on each device in order; `null` if nothing in the part takes time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Option<Prediction>>,
}

/// Assignment of parts to devices.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Planned")]
pub struct SplitPlan {
    /// The objective: `latency` or `throughput`.
    pub goal: &'static str,
    /// Runtime of the parts.
    pub runtime: String,
    /// Largest number of threads; each device states its own number.
    pub threads: u32,
    /// The devices.
    pub devices: Vec<SplitDevice>,
    /// Total time of parts and transfers according to the objective.
    pub total: SplitTotal,
    /// Transfer of the input to the first part.
    pub input_sent: Option<SplitSending>,
    /// Notes on assumptions and omissions.
    pub notes: Vec<String>,
}

/// A device.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub struct SplitDevice {
    /// Label of the device.
    pub name: String,
    /// Passport of the device.
    pub passport: PassportUse,
    /// Threads of the runtime on the device.
    pub threads: u32,
    /// Time of the whole graph there with transfers; `null` if its weights do not fit.
    pub alone: Option<SplitTotal>,
}

/// A transfer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sent")]
pub struct SplitSending {
    /// Receiving device.
    pub to: String,
    /// Transferred bytes.
    pub bytes: Bytes,
    /// Seconds of the transfer.
    pub seconds: Seconds,
}

/// A plan with its inputs.
pub struct SplitAnswer {
    pub plan: StagePlan,
    /// Device labels: as given, with a number for repeated names.
    pub labels: Vec<String>,
    pub passports: Vec<Passport>,
    /// Conditions of the parts.
    pub conditions: InferenceConditions,
    pub goal: SplitObjective,
}

impl SplitPart {
    /// A part without a device.
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

    /// Predicted time on its own device.
    pub fn own_prediction(&self, plan: Option<&SplitPlan>) -> Option<&Prediction> {
        let at = plan?.devices.iter().position(|device| Some(&device.name) == self.device.as_ref())?;
        self.predictions.get(at)?.as_ref()
    }
}

impl SplitReport {
    /// A report without parts.
    pub fn new(graph: &Path) -> Self {
        Self {
            schema: "metier.split/1".to_string(),
            graph: graph.to_path_buf(),
            parts: Vec::new(),
            plan: None,
        }
    }

    /// Adds the assignment of parts to devices.
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
