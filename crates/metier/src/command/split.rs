//! `metier split`: cuts an ONNX graph into parts that run one after the other, each with only its own weights.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_onnx::split::{Chain, Part};
use metier_onnx::{Analysis, Limits};
use metier_types::{Bytes, Seconds};
use serde_json::json;

use super::Room;
use super::inspect::{Binding, big};
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Table, plain};

const EXAMPLES: &str = "Examples:
  metier split net.onnx --parts 2 --out parts      two parts of about the same work: parts/net.1.onnx, parts/net.2.onnx
  metier split net.onnx --at conv3_out             a cut right after the operator that makes conv3_out
  metier split net.onnx --list                     every place to cut, and what flows over it
  metier split net.onnx --parts 3 --bandwidth 100  with the time that sending takes at 100 Mbit/s";

/// Cut an ONNX graph into parts
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Split {
    /// The graph's file
    graph: PathBuf,
    /// Cut right after the operator that makes this value; may be given again
    #[arg(long, value_name = "VALUE", conflicts_with = "parts")]
    at: Vec<String>,
    /// Cut into so many parts of about the same work, where least flows over the cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    parts: Option<u64>,
    /// List the places to cut, and what flows over each
    #[arg(long)]
    list: bool,
    /// Write the parts into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Megabits a second between the devices, to tell how long sending takes
    #[arg(long, value_name = "MBIT/S")]
    bandwidth: Option<f64>,
    #[command(flatten)]
    binding: Binding,
}

/// What is said of one part.
struct Told {
    part: Part,
    multiply_adds: Option<u64>,
    sent: Option<Bytes>,
    file: Option<PathBuf>,
}

impl Split {
    /// Cuts, and says what came of it.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        if self.bandwidth.is_some_and(|speed| !speed.is_finite() || speed <= 0.0) {
            return Err(usage("--bandwidth wants megabits a second above 0"));
        }
        let bytes = self.binding.bytes(&self.graph)?;
        let limits = Limits::default();
        let model = self.binding.named(&self.graph, metier_onnx::read(&bytes, &limits))?;
        let bindings = self.binding.bindings()?;
        let whole = self.binding.named(&self.graph, metier_onnx::analyse(&model, &bindings, &limits))?;
        let chain = self.binding.named(&self.graph, Chain::new(&bytes, &model, &bindings, &limits))?;
        if self.list {
            return self.places(room, &chain);
        }
        let work = work(&whole, &model, &chain);
        let cuts = self.cuts(&chain, &work)?;
        let parts = self.binding.named(&self.graph, chain.parts(&cuts))?;
        let crossings = chain.crossings();
        let mut told = Vec::new();
        let mut from = 0;
        for (number, part) in parts.into_iter().enumerate() {
            let to = from + part.operators;
            let crossing = crossings.iter().find(|crossing| crossing.place == to);
            told.push(Told {
                multiply_adds: work[from..to].iter().try_fold(0u64, |sum, one| sum.checked_add((*one)?)),
                sent: crossing.and_then(|crossing| crossing.bytes).map(Bytes),
                file: self
                    .out
                    .as_deref()
                    .map(|folder| self.write(folder, number + 1, &part.bytes))
                    .transpose()?,
                part,
            });
            from = to;
        }
        self.say(room, &told)?;
        Ok(Code::OK)
    }

    fn cuts(&self, chain: &Chain, work: &[Option<u64>]) -> anyhow::Result<Vec<usize>> {
        if let Some(parts) = self.parts {
            return Ok(even(chain, work, parts as usize));
        }
        if self.at.is_empty() {
            return Err(usage(
                "nothing to cut at; want --parts N or --at VALUE, and --list shows the places",
            ));
        }
        let mut cuts = Vec::new();
        for value in &self.at {
            let place = chain.after(value).filter(|place| *place < chain.len()).ok_or_else(|| {
                usage(format!("--at {value:?}: no operator inside the graph makes it; `metier split --list` shows the places"))
            })?;
            cuts.push(place);
        }
        cuts.sort_unstable();
        cuts.dedup();
        Ok(cuts)
    }

    fn write(&self, folder: &Path, number: usize, bytes: &[u8]) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--out {}: cannot make the folder", folder.display()))?;
        let stem = self.graph.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let path = folder.join(format!("{stem}.{number}.onnx"));
        std::fs::write(&path, bytes).with_context(|| format!("--out: cannot write {}", path.display()))?;
        Ok(path)
    }

    fn send(&self, bytes: Option<Bytes>) -> Option<Seconds> {
        Some(Seconds(bytes?.get() as f64 * 8.0 / (self.bandwidth? * 1e6)))
    }

    fn say(&self, room: &Room, told: &[Told]) -> anyhow::Result<()> {
        let record = || {
            let parts = told.iter().map(|one| {
                json!({
                    "operators": one.part.operators, "inputs": one.part.inputs, "outputs": one.part.outputs,
                    "multiply_adds": one.multiply_adds, "parameters": one.part.weights.parameters,
                    "weight_bytes": one.part.weights.bytes, "file_bytes": one.part.bytes.len(),
                    "sent_bytes": one.sent, "send_seconds": self.send(one.sent), "file": one.file,
                })
            });
            json!({ "schema": "metier.split/1", "graph": self.graph, "parts": parts.collect::<Vec<_>>() })
        };
        let console = &room.console;
        match console.format {
            Format::Json => console.data(|out| output::json(out, &record())),
            Format::Yaml => console.data(|out| output::yaml(out, &record())),
            Format::Csv => console.data(|out| {
                let head = [
                    "part",
                    "operators",
                    "multiply_adds",
                    "parameters",
                    "file_bytes",
                    "sent_bytes",
                    "send_seconds",
                    "file",
                ];
                let rows = told.iter().enumerate().map(|(number, one)| {
                    vec![
                        (number + 1).to_string(),
                        one.part.operators.to_string(),
                        plain(one.multiply_adds),
                        one.part.weights.parameters.to_string(),
                        one.part.bytes.len().to_string(),
                        plain(one.sent.map(Bytes::get)),
                        plain(self.send(one.sent).map(Seconds::get)),
                        plain(one.file.as_ref().map(|file| file.display())),
                    ]
                });
                output::csv(out, &head, rows)
            }),
            Format::Table => {
                let mut table = Table::with_header(&[
                    "PART",
                    "OPERATORS",
                    "MULTIPLY-ADDS",
                    "PARAMETERS",
                    "FILE",
                    "SENDS",
                    "IN",
                    "WRITTEN TO",
                ]);
                for (number, one) in told.iter().enumerate() {
                    let file = one.file.as_ref().map_or("–".to_string(), |file| file.display().to_string());
                    table.row(vec![
                        Cell::number((number + 1).to_string()),
                        Cell::number(one.part.operators.to_string()),
                        Cell::quantity(one.multiply_adds.map(big)),
                        Cell::number(big(one.part.weights.parameters)),
                        Cell::number(Bytes(one.part.bytes.len() as u64).to_string()),
                        Cell::quantity(one.sent),
                        Cell::quantity(self.send(one.sent)),
                        Cell::text(file),
                    ]);
                }
                console.print(&table.render(console.paint))
            }
        }
    }

    fn places(&self, room: &Room, chain: &Chain) -> anyhow::Result<Code> {
        let places = chain.crossings();
        let console = &room.console;
        match console.format {
            Format::Json | Format::Yaml => {
                let list: Vec<_> = places
                    .iter()
                    .map(|one| json!({ "place": one.place, "values": one.values, "bytes": one.bytes }))
                    .collect();
                let record = json!({ "schema": "metier.split-places/1", "graph": self.graph, "operators": chain.len(), "places": list });
                match console.format {
                    Format::Json => console.data(|out| output::json(out, &record))?,
                    _ => console.data(|out| output::yaml(out, &record))?,
                }
            }
            Format::Csv => console.data(|out| {
                let rows = places
                    .iter()
                    .map(|one| vec![one.place.to_string(), one.values.join(" "), plain(one.bytes)]);
                output::csv(out, &["place", "values", "bytes"], rows)
            })?,
            Format::Table => {
                let mut table = Table::with_header(&["AFTER", "SENDS", "IN", "VALUES"]);
                for one in &places {
                    let bytes = one.bytes.map(Bytes);
                    table.row(vec![
                        Cell::number(one.place.to_string()),
                        Cell::quantity(bytes),
                        Cell::quantity(self.send(bytes)),
                        Cell::text(one.values.join(", ")).at_most(90),
                    ]);
                }
                console.print(&table.render(console.paint))?;
            }
        }
        Ok(Code::OK)
    }
}

/// Multiply-adds of each operator of the order, those of its sub-graphs included.
fn work(whole: &Analysis, model: &metier_onnx::Model, chain: &Chain) -> Vec<Option<u64>> {
    let mut operators = whole.operators.iter().peekable();
    chain
        .steps()
        .iter()
        .map(|index| {
            let node = &model.graph.nodes[*index];
            let has_graphs = node.graphs().next().is_some();
            let mut sum = Some(0u64);
            let mut add = |one: &metier_onnx::OperatorCost| {
                sum = sum
                    .zip(one.multiply_adds)
                    .and_then(|(sum, adds)| sum.checked_add(adds.checked_mul(one.turns)?));
            };
            if !has_graphs {
                operators.next().iter().for_each(|one| add(one));
            }
            while has_graphs && operators.peek().is_some_and(|one| !one.inside.is_empty()) {
                operators.next().iter().for_each(|one| add(one));
            }
            sum
        })
        .collect()
}

/// Places that part the work evenly, each moved by at most a tenth of a share to where least flows over it.
fn even(chain: &Chain, work: &[Option<u64>], parts: usize) -> Vec<usize> {
    let crossings = chain.crossings();
    let known: Vec<f64> = work.iter().map(|one| one.unwrap_or(0) as f64 + 1.0).collect();
    let mut sums = vec![0.0];
    known.iter().for_each(|one| sums.push(sums[sums.len() - 1] + one));
    let total = sums[sums.len() - 1];
    let share = total / parts as f64;
    let mut cuts: Vec<usize> = Vec::new();
    for part in 1..parts {
        let target = share * part as f64;
        let near = crossings.iter().filter(|one| cuts.last().is_none_or(|last| one.place > *last));
        let distance = |place: usize| (sums[place] - target).abs();
        let closest = near.clone().map(|one| distance(one.place)).fold(f64::INFINITY, f64::min);
        let reach = closest.max(share * 0.1);
        let best =
            near.filter(|one| distance(one.place) <= reach).min_by_key(|one| one.bytes.unwrap_or(u64::MAX));
        cuts.extend(best.map(|one| one.place));
    }
    cuts
}
