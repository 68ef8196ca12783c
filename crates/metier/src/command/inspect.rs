//! `metier inspect`: what an ONNX graph consists of, and what one inference has to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_onnx::analysis::Value;
use metier_onnx::soprano::Characteristics;
use metier_onnx::{Analysis, Bindings, Error, Limits, OperatorCost};

use super::Room;
use crate::exit::{Code, usage};
use crate::output::{Cell, Paint, Table, plain, word_of};

const EXAMPLES: &str = "Examples:
  metier inspect net.onnx                            a summary
  metier inspect net.onnx --shape x=1x3x640x640      with a size for an open input
  metier inspect net.onnx --dim batch=8              with a size for a named dimension
  metier inspect net.onnx --operators                every operator that runs
  metier inspect net.onnx -o json                    everything (metier.graph/1)";

/// Say what an ONNX graph consists of and costs
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Inspect {
    /// The graph's file
    graph: PathBuf,
    #[command(flatten)]
    binding: Binding,
    /// List every operator that runs
    #[arg(long)]
    operators: bool,
}

/// Sizes for what a graph leaves open.
#[derive(Debug, Args)]
pub struct Binding {
    /// Shape of an input, as NAME=1x3x224x224; may be given again
    #[arg(long, value_name = "INPUT=SHAPE")]
    shape: Vec<String>,
    /// Size of a named dimension; may be given again
    #[arg(long, value_name = "NAME=SIZE")]
    dim: Vec<String>,
    /// Value of an input that decides what the graph does, as sr=16000; may be given again
    #[arg(long, value_name = "INPUT=NUMBER[,NUMBER…]")]
    value: Vec<String>,
}

impl Inspect {
    /// Prints what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let limits = Limits::default();
        let bytes = self.binding.bytes(&self.graph)?;
        let bindings = self.binding.bindings()?;
        let read = metier_onnx::read(&bytes, &limits);
        let told = read.and_then(|model| metier_onnx::analyse(&model, &bindings, &limits));
        let told = self.binding.named(&self.graph, told)?;
        room.console.show(&told, HEADER.split(','), told.operators.iter().map(row), |paint| {
            let operators = if self.operators { operators(&told, paint) } else { String::new() };
            summary(&told, paint) + &operators
        })?;
        Ok(Code::OK)
    }
}

impl Binding {
    /// What was given, as the reader of graphs takes it.
    pub fn bindings(&self) -> anyhow::Result<Bindings> {
        let shapes = pairs("--shape", &self.shape, "INPUT=1x3x224x224", |text| {
            text.split('x').map(|size| size.parse().ok()).collect::<Option<Vec<u64>>>()
        })?;
        let dims = pairs("--dim", &self.dim, "NAME=SIZE", |text| text.parse().ok())?;
        let values = pairs("--value", &self.value, "INPUT=NUMBER", |text| {
            text.split(',').map(|number| number.parse().ok()).collect::<Option<Vec<i64>>>()
        })?;
        Ok(Bindings { shapes, dims, values })
    }

    /// The content of a graph's file.
    pub fn bytes(&self, path: &Path) -> anyhow::Result<Vec<u8>> {
        let most = Limits::default().file_bytes as u64;
        let about = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::ensure!(about.is_file(), "{} is not a file; want an ONNX file", path.display());
        let size = about.len();
        anyhow::ensure!(size <= most, "{} has {size} bytes; an ONNX file has at most {most}", path.display());
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// An error with the file's name; what the user gave wrong is an error of usage.
    pub fn named<T>(&self, path: &Path, result: Result<T, Error>) -> anyhow::Result<T> {
        result.map_err(|error| match error {
            Error::Shape { .. } | Error::Dimension { .. } => usage(format!("{}: {error}", path.display())),
            other => anyhow::anyhow!("{}: {other}", path.display()),
        })
    }
}

/// `NAME=…` flags; the last sign of equality separates, since names of inputs may hold one.
pub fn pairs<T>(
    flag: &str,
    given: &[String],
    want: &str,
    read: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<BTreeMap<String, T>> {
    let mut all = BTreeMap::new();
    for text in given {
        let parsed = text.rsplit_once('=').and_then(|(name, rest)| Some((name.to_string(), read(rest)?)));
        let (name, value) = parsed.ok_or_else(|| usage(format!("{flag} is {text:?}; want {want}")))?;
        if all.insert(name, value).is_some() {
            return Err(usage(format!("{flag} {text:?}: this one was given before")));
        }
    }
    Ok(all)
}

fn dims(shape: Option<&Vec<Option<u64>>>) -> String {
    let Some(shape) = shape else { return "?".to_string() };
    if shape.is_empty() {
        return "one".to_string();
    }
    shape
        .iter()
        .map(|size| size.map_or("?".to_string(), |size| size.to_string()))
        .collect::<Vec<_>>()
        .join("x")
}

fn value(value: &Value) -> String {
    let kind = value.data_type.map(|kind| format!(" {}", word_of(&kind))).unwrap_or_default();
    format!("{} {}{kind}", value.name, dims(value.shape.as_ref()))
}

/// A count as people read it: 4.09 G.
pub fn big(count: u64) -> String {
    let steps = [(1_000_000_000_000u64, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match steps.into_iter().find(|(step, _)| count >= *step) {
        Some((step, word)) => {
            let scaled = count as f64 / step as f64;
            let digits = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
            format!("{scaled:.digits$} {word}")
        }
        None => count.to_string(),
    }
}

fn summary(told: &Analysis, paint: Paint) -> String {
    let mut table = Table::default();
    let mut line = |label: &str, text: String| {
        table.row(vec![Cell::text(label).styled(Paint::dim), Cell::text(text)]);
    };
    let whose = if told.producer.is_empty() { String::new() } else { format!(", by {}", told.producer) };
    line("graph", format!("{} (opset {}{whose})", told.name, told.opset));
    told.inputs.iter().for_each(|input| line("input", value(input)));
    told.outputs.iter().for_each(|output| line("output", value(output)));
    line("operators", format!("{} run, {} in the file", told.operators.len(), told.operators_in_file));
    line("parameters", format!("{} in {}", big(told.parameters), told.weight_bytes));
    let open = match told.operators_without_cost {
        0 => String::new(),
        count => format!(", without {count} operators of unknown size or kind"),
    };
    line("multiply-adds", format!("{}{open}", big(told.multiply_adds)));
    let peak = told
        .peak_activation_bytes
        .map_or("not known: some size is open".to_string(), |bytes| format!("{bytes} at most"));
    line("activations", peak);
    if !told.external_files.is_empty() {
        line("weights in", told.external_files.iter().cloned().collect::<Vec<_>>().join(", "));
    }
    line("network", word_of(&told.network_type));
    line("SOPRANO", characteristics(&told.characteristics));
    if let Some(counts) = &told.characteristics_by_rules {
        line("", format!("by its own rules: {}", characteristics(counts)));
    }
    let mut text = table.render(paint);
    let mut kinds: Vec<_> = told.kinds.iter().collect();
    kinds
        .sort_by_key(|(_, cost)| std::cmp::Reverse((cost.multiply_adds, cost.written_bytes, cost.operators)));
    let mut table = Table::with_header(&["KIND", "OPERATORS", "MULTIPLY-ADDS", "SHARE", "WRITES"]);
    for (kind, cost) in kinds {
        let share =
            (told.multiply_adds > 0).then(|| 100.0 * cost.multiply_adds as f64 / told.multiply_adds as f64);
        let of_kind = || told.operators.iter().filter(|one| one.kind == *kind);
        let adds = of_kind().filter(|one| one.multiply_adds.is_some()).count() as u64;
        let writes = of_kind().filter(|one| one.written_bytes.is_some()).count() as u64;
        table.row(vec![
            Cell::text(kind),
            Cell::number(cost.operators.to_string()),
            Cell::quantity(known(adds, cost.operators, big(cost.multiply_adds))),
            Cell::quantity(share.filter(|share| *share >= 0.05).map(|share| format!("{share:.1} %"))),
            Cell::quantity(known(writes, cost.operators, cost.written_bytes.to_string())),
        ]);
    }
    text.push_str(&format!("\n{}", table.render(paint)));
    if !told.notes.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Assumed")));
        told.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    }
    text
}

/// A sum of which so many of all are known: none of them is no figure, some are the least that it can be.
fn known(some: u64, all: u64, sum: String) -> Option<String> {
    match some {
        0 => None,
        _ if some < all => Some(format!("≥{sum}")),
        _ => Some(sum),
    }
}

fn characteristics(counts: &Characteristics) -> String {
    let Characteristics { conv_layers, pool_layers, fc_layers, filter_details, total_parameters } = counts;
    format!(
        "{conv_layers} conv, {pool_layers} pool, {fc_layers} fc, {filter_details} filters, {total_parameters} parameters"
    )
}

fn operators(told: &Analysis, paint: Paint) -> String {
    let mut table =
        Table::with_header(&["OPERATOR", "KIND", "MAKES", "MULTIPLY-ADDS", "READS", "WRITES", "TURNS"]);
    for one in &told.operators {
        let name = if one.name.is_empty() { "–" } else { one.name.as_str() };
        table.row(vec![
            Cell::text(name).at_most(40),
            Cell::text(&one.kind),
            Cell::text(dims(one.outputs.first().and_then(|output| output.shape.as_ref()))),
            Cell::quantity(one.multiply_adds.map(big)),
            Cell::quantity(one.read_bytes),
            Cell::quantity(one.written_bytes),
            Cell::number(one.turns.to_string()),
        ]);
    }
    format!("\n{}", table.render(paint))
}

const HEADER: &str = "\
    name,kind,domain,inside,inputs,outputs,multiply_adds,elements,read_bytes,written_bytes,\
    weight_bytes,turns";

fn row(one: &OperatorCost) -> Vec<String> {
    let shapes =
        |values: &[Value]| values.iter().map(|one| dims(one.shape.as_ref())).collect::<Vec<_>>().join(" ");
    vec![
        one.name.clone(),
        one.kind.clone(),
        one.domain.clone(),
        one.inside.clone(),
        shapes(&one.inputs),
        shapes(&one.outputs),
        plain(one.multiply_adds),
        plain(one.elements),
        plain(one.read_bytes.map(|bytes| bytes.0)),
        plain(one.written_bytes.map(|bytes| bytes.0)),
        plain(one.weight_bytes.map(|bytes| bytes.0)),
        one.turns.to_string(),
    ]
}
