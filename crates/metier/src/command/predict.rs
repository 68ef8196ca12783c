//! `metier predict`: what something would take, on devices that need not be here.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use metier_linux::Roots;
use metier_onnx::Analysis;
use metier_predict::latency::conditions::{ALL, MOST_LOAD};
use metier_predict::latency::{Conditions, Latency as Asked, OperatorTime};
use metier_store::Store;
use metier_types::{Passport, Prediction, Ratio, Seconds};
use serde_json::{Value, json};

use super::Room;
use super::inspect::Binding;
use crate::config::data_folder;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Paint, Table, plain};

const EXAMPLES: &str = "Examples:
  metier predict latency net.onnx                                here
  metier predict latency net.onnx --device raspberry-pi-5 --device jetson-nano
                                                                 on devices of which there is a passport, the fastest first
  metier predict latency net.onnx --shape x=1x3x640x640 --threads 4 --load 50%
  metier predict latency net.onnx --operators                    operator by operator";

/// Predict what a graph would take
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Predict {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How long a graph takes
    Latency(Latency),
}

/// Predict how long a graph takes
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct Latency {
    /// The graph's file
    graph: PathBuf,
    #[command(flatten)]
    binding: Binding,
    /// A device by name or id, `here`, or `all` that have a passport; may be given again [default: here]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// What runs the graph: rten or onnxruntime
    #[arg(long, value_name = "RUNTIME", default_value = "rten")]
    runtime: String,
    /// Threads that it may use [default: as many as each device has processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<u32>,
    /// How busy the processors are with something else, as 50%; above 100% others wait in a queue
    #[arg(long, value_name = "SHARE")]
    load: Option<String>,
    /// How much of the memory bandwidth something else uses
    #[arg(long, value_name = "SHARE")]
    memory_load: Option<String>,
    /// List every operator with its time
    #[arg(long)]
    operators: bool,
}

impl Predict {
    /// Predicts what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        match &self.what {
            What::Latency(latency) => latency.run(room),
        }
    }
}

/// What this device is called where devices are named.
pub const HERE: &str = "here";

/// The passport that a flag names.
pub fn passport_of(store: &Store, flag: &str, name: &str) -> anyhow::Result<Passport> {
    if name == HERE {
        let device = metier_device::identity::this(&Roots::default(), data_folder().as_deref())?;
        let known = metier_device::passport::of_device(Some(store), &device);
        return Ok(known.unwrap_or_else(|| metier_predict::latency::unmeasured(device)));
    }
    metier_device::passport::find(Some(store), name).ok_or_else(|| {
        let known: Vec<String> =
            metier_device::passport::all(Some(store)).into_iter().map(|one| one.id).collect();
        usage(format!(
            "{flag} is {name:?}, of which there is no passport; want {HERE} or one of {}",
            known.join(", ")
        ))
    })
}

/// The number of threads that a flag asks for; else all of each device.
pub fn threads(given: Option<u32>) -> anyhow::Result<u32> {
    match given {
        Some(ALL) => Err(usage(format!("--threads is {ALL}; want 1 to 4096"))),
        given => Ok(given.unwrap_or(ALL)),
    }
}

/// A share that a flag gives, as `50%` or `0.5`.
pub fn share(flag: &str, given: Option<&String>, most: f64) -> anyhow::Result<Option<Ratio>> {
    let Some(text) = given else { return Ok(None) };
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let ratio = number.ok().filter(|share| (0.0..=most).contains(share));
    let want = || usage(format!("{flag} is {text:?}; want 0% to {:.0}%", 100.0 * most));
    ratio.map(|share| Some(Ratio(share))).ok_or_else(want)
}

impl Latency {
    fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let bytes = self.binding.bytes(&self.graph)?;
        let bindings = self.binding.bindings()?;
        let limits = metier_onnx::Limits::default();
        let read = metier_onnx::read(&bytes, &limits);
        let graph = self
            .binding
            .named(&self.graph, read.and_then(|model| metier_onnx::analyse(&model, &bindings, &limits)))?;
        let conditions = Conditions {
            runtime: self.runtime.clone(),
            threads: threads(self.threads)?,
            cpu_load: share("--load", self.load.as_ref(), MOST_LOAD)?,
            memory_load: share("--memory-load", self.memory_load.as_ref(), 1.0)?,
        };
        conditions.check().map_err(|error| usage(error.to_string()))?;
        let store = room.writable_store()?;
        let latency = Asked::open(&store)?;
        let mut answers: Vec<(Passport, Prediction)> = Vec::new();
        for passport in self.passports(&store)? {
            match latency.graph(&graph, &passport, &conditions) {
                Ok(prediction) => answers.push((passport, prediction)),
                // Of many devices some may lack a figure; of one that was named it is the answer.
                Err(error) if self.device.iter().any(|name| name == "all") => room.console.warn(error),
                Err(error) => anyhow::bail!("{}: {error}", self.graph.display()),
            }
        }
        answers.sort_by(|a, b| a.1.value().total_cmp(&b.1.value()));
        let operators = match answers.first().filter(|_| self.operators) {
            Some((passport, _)) => Some(latency.operators(&graph, passport, &conditions)?),
            None => None,
        };
        self.show(room, &answers, &graph, &conditions, operators.as_deref())?;
        if let Some(operators) = operators.filter(|_| room.console.format == Format::Table) {
            list(room, &graph, &operators)?;
        }
        Ok(Code::OK)
    }

    fn passports(&self, store: &Store) -> anyhow::Result<Vec<Passport>> {
        if self.device.iter().any(|name| name == "all") {
            return Ok(metier_device::passport::all(Some(store)));
        }
        if self.device.is_empty() {
            return Ok(vec![passport_of(store, "--device", HERE)?]);
        }
        self.device.iter().map(|name| passport_of(store, "--device", name)).collect()
    }

    fn show(
        &self,
        room: &Room,
        answers: &[(Passport, Prediction)],
        graph: &Analysis,
        conditions: &Conditions,
        operators: Option<&[OperatorTime]>,
    ) -> anyhow::Result<()> {
        let console = &room.console;
        let threads = |passport: &Passport| conditions.on(passport).threads;
        let with_device = |(passport, prediction): &(Passport, Prediction)| -> anyhow::Result<Value> {
            let mut value = serde_json::to_value(prediction)?;
            value["device"] = json!({ "id": passport.id, "name": passport.name });
            value["runtime"] = json!(conditions.runtime);
            value["threads"] = json!(threads(passport));
            Ok(value)
        };
        let record = || -> anyhow::Result<Value> {
            let mut all = answers.iter().map(with_device).collect::<anyhow::Result<Vec<_>>>()?;
            // They are those of the fastest device.
            if let (Some(first), Some(operators)) = (all.first_mut(), operators) {
                first["operators"] = operators.iter().map(|one| operator(graph, one)).collect();
            }
            Ok(match <[Value; 1]>::try_from(all) {
                Ok([one]) => one,
                Err(all) => json!({ "schema": "metier.predictions/1", "predictions": all }),
            })
        };
        match console.format {
            Format::Json => console.data(|out| output::json(out, &record()?)),
            Format::Yaml => console.data(|out| output::yaml(out, &record()?)),
            // A table has one kind of row: what was asked for last, as `metier inspect` has it.
            Format::Csv if operators.is_some() => console.data(|out| {
                let rows = operators.unwrap_or_default().iter().map(|one| {
                    let own = &graph.operators[one.operator];
                    vec![
                        own.name.clone(),
                        own.kind.clone(),
                        one.seconds.get().to_string(),
                        one.share.get().to_string(),
                        plain(one.within),
                    ]
                });
                output::csv(out, &["name", "kind", "seconds", "share", "within"], rows)
            }),
            Format::Csv => console.data(|out| {
                let rows = answers.iter().map(|(passport, prediction)| {
                    let (low, high) = ends(prediction);
                    vec![
                        passport.id.clone(),
                        threads(passport).to_string(),
                        prediction.value().to_string(),
                        low.to_string(),
                        high.to_string(),
                        prediction.in_range().to_string(),
                        prediction.because().to_string(),
                    ]
                });
                output::csv(out, &["device", "threads", "value", "low", "high", "in_range", "because"], rows)
            }),
            Format::Table => {
                let mut table = Table::with_header(&[
                    "DEVICE",
                    "THREADS",
                    "LATENCY",
                    "9 OF 10 BETWEEN",
                    "",
                    "SEEN LIKE IT",
                    "BECAUSE",
                ]);
                for (passport, prediction) in answers {
                    let (low, high) = ends(prediction);
                    table.row(vec![
                        Cell::text(&passport.name).at_most(36),
                        Cell::number(threads(passport).to_string()),
                        Cell::quantity(Some(Seconds(prediction.value()))),
                        Cell::quantity(Some(Seconds(low))),
                        Cell::quantity(Some(Seconds(high))),
                        Cell::text(if prediction.in_range() { "yes" } else { "no" }),
                        Cell::text(prediction.because()).styled(Paint::dim),
                    ]);
                }
                console.print(&table.render(console.paint))
            }
        }
    }
}

/// An operator with its time, for programs.
fn operator(graph: &Analysis, one: &OperatorTime) -> Value {
    let own = &graph.operators[one.operator];
    json!({ "name": own.name, "kind": own.kind, "seconds": one.seconds, "share": one.share, "within": one.within })
}

fn list(room: &Room, graph: &Analysis, operators: &[OperatorTime]) -> anyhow::Result<()> {
    let mut table = Table::with_header(&["OPERATOR", "KIND", "TIME", "SHARE"]);
    for one in operators {
        let operator = &graph.operators[one.operator];
        let name = if operator.name.is_empty() { "–" } else { operator.name.as_str() };
        let host = one.within.and_then(|at| graph.operators.get(at));
        table.row(vec![
            Cell::text(name).at_most(40),
            Cell::text(&operator.kind),
            match host {
                Some(host) => Cell::text(format!("with {}", host.kind)).styled(Paint::dim),
                None => Cell::quantity(Some(one.seconds)),
            },
            Cell::quantity(host.is_none().then_some(one.share)),
        ]);
    }
    room.console.print(&format!("\n{}", table.render(room.console.paint)))
}

fn ends(prediction: &Prediction) -> (f64, f64) {
    let interval = prediction.interval();
    (interval.low(), interval.high())
}
