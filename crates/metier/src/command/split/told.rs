//! What `metier split` says: `metier.split/1`, and the same as tables.

use std::path::{Path, PathBuf};

use metier_onnx::split::Part;
use metier_place::PassportUse;
use metier_predict::splitting::{Sending, Total};
use metier_types::{Bytes, Prediction, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

use super::devices::Answer;
use crate::command::Room;
use crate::command::inspect::big;
use crate::output::{self, Cell, Format, Paint, Table, plain};

/// What came of cutting a graph.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Split")]
pub struct Told {
    /// `metier.split/1`.
    schema: String,
    /// The graph's file.
    graph: PathBuf,
    /// The parts, in their order.
    pub parts: Vec<Row>,
    /// Which part goes where, where devices were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Planned>,
}

/// One part.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Row {
    /// Operators that it has.
    operators: usize,
    /// What it is given.
    inputs: Vec<String>,
    /// What it gives.
    outputs: Vec<String>,
    /// Multiply-adds of one inference; `null` where one is not known.
    multiply_adds: Option<u64>,
    /// Real numbers among its weights.
    parameters: u64,
    /// Bytes of its weights.
    weight_bytes: Bytes,
    /// Bytes of its file.
    file_bytes: u64,
    /// What it sends on.
    sent_bytes: Option<Bytes>,
    /// How long that takes.
    pub send_seconds: Option<Seconds>,
    /// Where it was written.
    file: Option<PathBuf>,
    /// The device that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// Its time on each device, in their order; `null` where there is nothing to do that takes time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predictions: Vec<Option<Prediction>>,
}

/// Which part goes where.
#[derive(Debug, Serialize, JsonSchema)]
struct Planned {
    /// What was to be small: `latency` or `throughput`.
    goal: &'static str,
    /// What runs the parts.
    runtime: String,
    /// With how many threads at most; each device says how many it has of them.
    threads: u32,
    /// The devices.
    devices: Vec<Device>,
    /// The time of all parts and sendings, as the goal counts it.
    total: Total,
    /// The input's way to the first part.
    input_sent: Option<Sent>,
    /// What was assumed or left out.
    notes: Vec<String>,
}

/// A device.
#[derive(Debug, Serialize, JsonSchema)]
struct Device {
    /// What it is called here.
    name: String,
    /// Whose passport it has.
    passport: PassportUse,
    /// Threads that the runtime has there.
    threads: u32,
    /// The whole graph there, sendings included; `null` where its weights have no room.
    alone: Option<Total>,
}

/// Something that is sent.
#[derive(Debug, Serialize, JsonSchema)]
struct Sent {
    /// To which device.
    to: String,
    /// How much.
    bytes: Bytes,
    /// How long it takes.
    seconds: Seconds,
}

impl Row {
    pub fn new(part: &Part, multiply_adds: Option<u64>, sent: Option<Bytes>, file: Option<PathBuf>) -> Self {
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
    fn own(&self, plan: Option<&Planned>) -> Option<&Prediction> {
        let at = plan?.devices.iter().position(|one| Some(&one.name) == self.device.as_ref())?;
        self.predictions.get(at)?.as_ref()
    }
}

impl Told {
    pub fn new(graph: &Path) -> Self {
        Self {
            schema: "metier.split/1".to_string(),
            graph: graph.to_path_buf(),
            parts: Vec::new(),
            plan: None,
        }
    }

    /// With what was found for devices.
    pub fn planned(&mut self, answer: Answer) {
        let Answer { plan, labels, passports, conditions, goal } = answer;
        for (row, stage) in self.parts.iter_mut().zip(plan.stages) {
            row.device = Some(labels[stage.device].clone());
            row.predictions = stage.predictions;
            row.sent_bytes = stage.sends.map(|sent| sent.bytes);
            row.send_seconds = stage.sends.map(|sent| sent.seconds);
        }
        let sent =
            |sent: Sending| Sent { to: labels[sent.to].clone(), bytes: sent.bytes, seconds: sent.seconds };
        let threads: Vec<u32> = passports.iter().map(|one| conditions.on(one).threads).collect();
        self.plan = Some(Planned {
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
                .map(|(((name, passport), threads), alone)| Device {
                    name,
                    passport: PassportUse::of(passport),
                    threads,
                    alone,
                })
                .collect(),
        });
    }

    /// Prints it in the wanted form.
    pub fn print(&self, room: &Room) -> anyhow::Result<()> {
        let console = &room.console;
        match console.format {
            Format::Json => console.data(|out| output::json(out, self)),
            Format::Yaml => console.data(|out| output::yaml(out, self)),
            Format::Csv => console.data(|out| output::csv(out, &HEADER, self.rows())),
            Format::Table => {
                let mut text = self.table(console.paint);
                if let Some(plan) = &self.plan {
                    text.push_str(&self.times(plan, console.paint));
                }
                console.print(&text)
            }
        }
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.parts.iter().enumerate().map(|(number, one)| {
            let own = one.own(self.plan.as_ref());
            vec![
                (number + 1).to_string(),
                one.operators.to_string(),
                plain(one.multiply_adds),
                one.parameters.to_string(),
                one.file_bytes.to_string(),
                plain(one.sent_bytes.map(Bytes::get)),
                plain(one.send_seconds.map(Seconds::get)),
                plain(one.file.as_ref().map(|file| file.display())),
                plain(one.device.as_ref()),
                plain(own.map(Prediction::value)),
                plain(own.map(|own| own.interval().low())),
                plain(own.map(|own| own.interval().high())),
            ]
        })
    }

    fn table(&self, paint: Paint) -> String {
        let mut header = vec!["PART", "OPERATORS", "MULTIPLY-ADDS", "PARAMETERS", "FILE"];
        if self.plan.is_some() {
            header.extend(["DEVICE", "TAKES"]);
        }
        header.extend(["SENDS", "IN"]);
        let is_written = self.parts.iter().any(|one| one.file.is_some());
        if is_written {
            header.push("WRITTEN TO");
        }
        let mut table = Table::with_header(&header);
        for (number, one) in self.parts.iter().enumerate() {
            let mut cells = vec![
                Cell::number((number + 1).to_string()),
                Cell::number(one.operators.to_string()),
                Cell::quantity(one.multiply_adds.map(big)),
                Cell::number(big(one.parameters)),
                Cell::number(Bytes(one.file_bytes).to_string()),
            ];
            if let Some(plan) = &self.plan {
                cells.push(Cell::text(one.device.as_deref().unwrap_or("–")).at_most(36));
                cells.push(
                    Cell::quantity(one.own(Some(plan)).map(|own| Seconds(own.value()))).styled(Paint::bold),
                );
            }
            cells.extend([Cell::quantity(one.sent_bytes), Cell::quantity(one.send_seconds)]);
            if is_written {
                cells.push(Cell::text(
                    one.file.as_ref().map_or("–".into(), |file| file.display().to_string()),
                ));
            }
            table.row(cells);
        }
        table.render(paint)
    }

    /// Each part on each device, and what it comes to.
    fn times(&self, plan: &Planned, paint: Paint) -> String {
        let mut header = vec!["DEVICE".to_string()];
        header.extend((1..=self.parts.len()).map(|number| format!("PART {number}")));
        let with_alone = self.parts.len() > 1 || plan.devices.len() > 1;
        if with_alone {
            header.push("WHOLE, SENDINGS TOO".to_string());
        }
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::with_header(&header);
        for (at, device) in plan.devices.iter().enumerate() {
            let mut cells = vec![Cell::text(&device.name).at_most(36)];
            for part in &self.parts {
                let cell = match part.predictions.get(at).and_then(Option::as_ref) {
                    Some(one) => {
                        let interval = one.interval();
                        within(Seconds(one.value()), Seconds(interval.low()), Seconds(interval.high()))
                    }
                    None => "–".to_string(),
                };
                let is_own = part.device.as_ref() == Some(&device.name);
                cells.push(if is_own { Cell::number(cell).styled(Paint::bold) } else { Cell::number(cell) });
            }
            if with_alone {
                cells.push(Cell::number(match device.alone {
                    Some(all) => within(all.seconds, all.low, all.high),
                    None => "no room".to_string(),
                }));
            }
            table.row(cells);
        }
        let mut text =
            format!("\n{}\n{}", paint.bold("Predicted time, 9 of 10 between"), table.render(paint));
        let Total { seconds, low, high } = plan.total;
        let what = match plan.goal {
            "latency" => "From input to result",
            _ => "Between two results of a full pipeline",
        };
        let input = plan.input_sent.as_ref();
        let input = input
            .map(|sent| format!(", {} of it for the input ({}) to {}", sent.seconds, sent.bytes, sent.to));
        text.push_str(&format!(
            "\n{what}: {} ({low} – {high}){}\n",
            paint.bold(&seconds.to_string()),
            input.unwrap_or_default()
        ));
        let used: std::collections::BTreeSet<_> =
            self.parts.iter().filter_map(|one| one.device.as_ref()).collect();
        if let (1, Some(only), true) = (used.len(), used.first(), plan.devices.len() > 1) {
            text.push_str(&paint.dim(&format!("no cut is predicted to be faster than {only} alone\n")));
        }
        text
    }
}

fn within(value: Seconds, low: Seconds, high: Seconds) -> String {
    format!("{value} ({low} – {high})")
}

const HEADER: [&str; 12] = [
    "part",
    "operators",
    "multiply_adds",
    "parameters",
    "file_bytes",
    "sent_bytes",
    "send_seconds",
    "file",
    "device",
    "seconds",
    "low",
    "high",
];

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_schema_is_that_of_the_code() {
        crate::output::published::<super::Told>("metier.split-1");
    }
}
