//! `metier predict`: predicts latency on any device with a passport or predictor.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use metier_linux::KernelRoots;
use metier_onnx::GraphAnalysis;
use metier_predict::latency::conditions::{ALL_PROCESSORS, MAX_LOAD};
use metier_predict::latency::{
    InferenceConditions, LatencyError, LatencyPredictor as Asked, PredictedOperatorTime, measured_graph,
};
use metier_store::RecordStore;
use metier_types::{ContentDigest, Device, Passport, Prediction, Ratio, Seconds};
use serde_json::{Value, json};

use super::CommandContext;
use super::inspect::BindingArgs;
use crate::config::data_folder;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, StreamPaint, TableCell, TextTable, csv_cell};

const EXAMPLES: &str = "Examples:
  metier predict latency net.onnx                                here
  metier predict latency net.onnx --device raspberry-pi-5 --device jetson-nano
                                                                 on devices of which there is a passport, the fastest first
  metier predict latency net.onnx --shape x=1x3x640x640 --threads 4 --load 50%
  metier predict latency net.onnx --operators                    operator by operator";

/// Predict the latency of a graph
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PredictArgs {
    #[command(subcommand)]
    what: PredictCommand,
}

#[derive(Debug, Subcommand)]
enum PredictCommand {
    /// Predict the latency of a graph
    Latency(PredictLatencyArgs),
}

/// Predict the latency of a graph
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct PredictLatencyArgs {
    /// ONNX file of the graph
    graph: PathBuf,
    #[command(flatten)]
    binding: BindingArgs,
    /// Device by name or id, `here`, or `all` with a passport; can be repeated [default: here]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Runtime: rten or onnxruntime
    #[arg(long, value_name = "RUNTIME", default_value = "rten")]
    runtime: String,
    /// Number of threads [default: all processors of each device]
    #[arg(long, value_name = "COUNT")]
    threads: Option<u32>,
    /// Load of the processors by other programs, as 50%; above 100% their threads queue
    #[arg(long, value_name = "SHARE")]
    load: Option<String>,
    /// Share of the memory bandwidth that other programs use
    #[arg(long, value_name = "SHARE")]
    memory_load: Option<String>,
    /// List every operator with its time
    #[arg(long)]
    operators: bool,
}

impl PredictArgs {
    /// Runs the prediction.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        match &self.what {
            PredictCommand::Latency(latency) => latency.run(context),
        }
    }
}

/// Name of this device in flags.
pub const THIS_DEVICE: &str = "here";

/// The passport that a flag names.
pub fn find_passport(store: &RecordStore, flag: &str, name: &str) -> anyhow::Result<Passport> {
    if name == THIS_DEVICE {
        let roots = KernelRoots::default();
        let device = metier_device::identity::identify_device(&roots, data_folder().as_deref())?;
        return own_passport(store, &roots, device);
    }
    metier_device::passport::find_passport(Some(store), name).ok_or_else(|| {
        let known: Vec<String> = metier_device::passport::list_passports(Some(store))
            .into_iter()
            .map(|passport| passport.id)
            .collect();
        usage_error(format!(
            "{flag} is {name:?}, of which there is no passport; want {THIS_DEVICE} or one of {}",
            known.join(", ")
        ))
    })
}

/// The passport of this device. Without one, a quick one is measured and stored.
pub fn own_passport(store: &RecordStore, roots: &KernelRoots, device: Device) -> anyhow::Result<Passport> {
    if let Some(known) = metier_device::passport::find_for_device(Some(store), &device) {
        return Ok(known);
    }
    let passport = metier_device::passport::measure_quick_passport(device, roots)?;
    store.put_device(&passport.device)?;
    store.put_passport(&passport)?;
    Ok(passport)
}

/// The requested number of threads; else all of each device.
pub fn thread_count(given: Option<u32>) -> anyhow::Result<u32> {
    match given {
        Some(ALL_PROCESSORS) => Err(usage_error(format!("--threads is {ALL_PROCESSORS}; want 1 to 4096"))),
        given => Ok(given.unwrap_or(ALL_PROCESSORS)),
    }
}

/// Parses a share: `50%` or `0.5`.
pub fn parse_share(flag: &str, given: Option<&String>, most: f64) -> anyhow::Result<Option<Ratio>> {
    let Some(text) = given else { return Ok(None) };
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let ratio = number.ok().filter(|share| (0.0..=most).contains(share));
    let want = || usage_error(format!("{flag} is {text:?}; want 0% to {:.0}%", 100.0 * most));
    ratio.map(|share| Some(Ratio(share))).ok_or_else(want)
}

impl PredictLatencyArgs {
    fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let bytes = self.binding.read_graph(&self.graph)?;
        let bindings = self.binding.bindings()?;
        let limits = metier_onnx::OnnxLimits::default();
        let read = metier_onnx::read_onnx(&bytes, &limits);
        let graph = self.binding.name_file_in_error(
            &self.graph,
            read.and_then(|model| metier_onnx::analyse_graph(&model, &bindings, &limits)),
        )?;
        let conditions = InferenceConditions {
            runtime: self.runtime.clone(),
            threads: thread_count(self.threads)?,
            cpu_load: parse_share("--load", self.load.as_ref(), MAX_LOAD)?,
            memory_load: parse_share("--memory-load", self.memory_load.as_ref(), 1.0)?,
        };
        conditions.check().map_err(|error| usage_error(error.to_string()))?;
        let store = context.writable_store()?;
        let latency = Asked::open(&store)?;
        let mut answers: Vec<(Passport, Prediction)> = Vec::new();
        let digest = metier_store::digest::digest_bytes(&bytes);
        for passport in self.selected_passports(&store)? {
            match predict_or_measured(&store, &latency, &digest, &graph, &passport, &conditions) {
                Ok(prediction) => answers.push((passport, prediction)),
                // Among many devices some may lack a figure; for a single device the error is the
                // result.
                Err(error) if self.device.iter().any(|name| name == "all") => context.console.warn(error),
                Err(error) => anyhow::bail!("{}: {error}", self.graph.display()),
            }
        }
        answers.sort_by(|a, b| a.1.value().total_cmp(&b.1.value()));
        let operators = match answers.first().filter(|_| self.operators) {
            Some((passport, _)) => Some(latency.operators(&graph, passport, &conditions)?),
            None => None,
        };
        self.print_predictions(context, &answers, &graph, &conditions, operators.as_deref())?;
        if let Some(operators) = operators.filter(|_| context.console.format == DataFormat::Table) {
            print_operators(context, &graph, &operators)?;
        }
        Ok(CliExitCode::OK)
    }

    fn selected_passports(&self, store: &RecordStore) -> anyhow::Result<Vec<Passport>> {
        if self.device.iter().any(|name| name == "all") {
            // This device has one from here on.
            find_passport(store, "--device", THIS_DEVICE)?;
            return Ok(metier_device::passport::list_passports(Some(store)));
        }
        if self.device.is_empty() {
            return Ok(vec![find_passport(store, "--device", THIS_DEVICE)?]);
        }
        self.device.iter().map(|name| find_passport(store, "--device", name)).collect()
    }

    fn print_predictions(
        &self,
        context: &CommandContext,
        answers: &[(Passport, Prediction)],
        graph: &GraphAnalysis,
        conditions: &InferenceConditions,
        operators: Option<&[PredictedOperatorTime]>,
    ) -> anyhow::Result<()> {
        let console = &context.console;
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
            // The operators of the fastest device.
            if let (Some(first), Some(operators)) = (all.first_mut(), operators) {
                first["operators"] = operators.iter().map(|time| operator_record(graph, time)).collect();
            }
            Ok(match <[Value; 1]>::try_from(all) {
                Ok([one]) => one,
                Err(all) => json!({ "schema": "metier.predictions/1", "predictions": all }),
            })
        };
        match console.format {
            DataFormat::Json => console.write_data(|out| output::write_json(out, &record()?)),
            DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record()?)),
            // A table has one kind of row: operators if requested, as in `metier inspect`.
            DataFormat::Csv if operators.is_some() => console.write_data(|out| {
                let rows = operators.unwrap_or_default().iter().map(|time| {
                    let own = &graph.operators[time.operator];
                    vec![
                        own.name.clone(),
                        own.kind.clone(),
                        time.seconds.get().to_string(),
                        time.share.get().to_string(),
                        csv_cell(time.within),
                    ]
                });
                output::write_csv(out, ["name", "kind", "seconds", "share", "within"], rows)
            }),
            DataFormat::Csv => console.write_data(|out| {
                let rows = answers.iter().map(|(passport, prediction)| {
                    let (low, high) = interval_ends(prediction);
                    vec![
                        passport.id.clone(),
                        threads(passport).to_string(),
                        prediction.value().to_string(),
                        low.to_string(),
                        high.to_string(),
                        prediction.in_range().to_string(),
                        prediction.reason().to_string(),
                    ]
                });
                output::write_csv(
                    out,
                    ["device", "threads", "value", "low", "high", "in_range", "because"],
                    rows,
                )
            }),
            DataFormat::Table => {
                let mut table = TextTable::with_header(&[
                    "DEVICE",
                    "THREADS",
                    "LATENCY",
                    "9 OF 10 BETWEEN",
                    "",
                    "IN LEARNED RANGE",
                    "BECAUSE",
                ]);
                for (passport, prediction) in answers {
                    let (low, high) = interval_ends(prediction);
                    table.add_row(vec![
                        TableCell::text(&passport.name).truncated(36),
                        TableCell::number(threads(passport).to_string()),
                        TableCell::quantity(Some(Seconds(prediction.value()))),
                        TableCell::quantity(Some(Seconds(low))),
                        TableCell::quantity(Some(Seconds(high))),
                        TableCell::text(if prediction.in_range() { "yes" } else { "no" }),
                        TableCell::text(prediction.reason()).styled(StreamPaint::dim),
                    ]);
                }
                console.print(&table.render(console.paint))
            }
        }
    }
}

/// What was measured there; else what is predicted.
fn predict_or_measured(
    store: &RecordStore,
    latency: &Asked,
    file: &ContentDigest,
    graph: &GraphAnalysis,
    passport: &Passport,
    conditions: &InferenceConditions,
) -> Result<Prediction, LatencyError> {
    let conditions = conditions.on(passport);
    match measured_graph::measured_time(store, file, graph, &passport.device.id, &conditions)? {
        Some(measured) => Ok(measured),
        None => latency.graph(graph, passport, &conditions),
    }
}

/// An operator with its time, as a record.
fn operator_record(graph: &GraphAnalysis, time: &PredictedOperatorTime) -> Value {
    let own = &graph.operators[time.operator];
    json!({ "name": own.name, "kind": own.kind, "seconds": time.seconds, "share": time.share, "within": time.within })
}

fn print_operators(
    context: &CommandContext,
    graph: &GraphAnalysis,
    operators: &[PredictedOperatorTime],
) -> anyhow::Result<()> {
    let mut table = TextTable::with_header(&["OPERATOR", "KIND", "TIME", "SHARE"]);
    for time in operators {
        let operator = &graph.operators[time.operator];
        let name = if operator.name.is_empty() { "–" } else { operator.name.as_str() };
        let host = time.within.and_then(|at| graph.operators.get(at));
        table.add_row(vec![
            TableCell::text(name).truncated(40),
            TableCell::text(&operator.kind),
            match host {
                Some(host) => TableCell::text(format!("with {}", host.kind)).styled(StreamPaint::dim),
                None => TableCell::quantity(Some(time.seconds)),
            },
            TableCell::quantity(host.is_none().then_some(time.share)),
        ]);
    }
    context.console.print(&format!("\n{}", table.render(context.console.paint)))
}

fn interval_ends(prediction: &Prediction) -> (f64, f64) {
    let interval = prediction.interval();
    (interval.low(), interval.high())
}
