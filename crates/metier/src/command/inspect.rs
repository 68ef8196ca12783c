//! `metier inspect`: shows the operators of an ONNX graph and the work of one inference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_onnx::analysis::ValueDescription;
use metier_onnx::soprano::GraphCharacteristics;
use metier_onnx::{Error, GraphAnalysis, OnnxLimits, OperatorCost, ShapeBindings};

use super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{StreamPaint, TableCell, TextTable, csv_cell, serialised_word};

const EXAMPLES: &str = "Examples:
  metier inspect net.onnx                            a summary
  metier inspect net.onnx --shape x=1x3x640x640      with a size for an open input
  metier inspect net.onnx --dim batch=8              with a size for a named dimension
  metier inspect net.onnx --operators                every operator that runs
  metier inspect net.onnx -o json                    everything (metier.graph/1)";

/// Show the operators and cost of an ONNX graph
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct InspectArgs {
    /// The graph's file
    graph: PathBuf,
    #[command(flatten)]
    binding: BindingArgs,
    /// List every executed operator
    #[arg(long)]
    operators: bool,
}

/// Sizes of open dimensions.
#[derive(Debug, Args)]
pub struct BindingArgs {
    /// Shape of an input, as NAME=1x3x224x224; can be repeated
    #[arg(long, value_name = "INPUT=SHAPE")]
    shape: Vec<String>,
    /// Size of a named dimension; can be repeated
    #[arg(long, value_name = "NAME=SIZE")]
    dim: Vec<String>,
    /// Value of an input that selects what the graph computes, as sr=16000; can be repeated
    #[arg(long, value_name = "INPUT=NUMBER[,NUMBER…]")]
    value: Vec<String>,
}

impl InspectArgs {
    /// Prints the analysis of the graph.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let limits = OnnxLimits::default();
        let bytes = self.binding.read_graph(&self.graph)?;
        let bindings = self.binding.bindings()?;
        let read = metier_onnx::read_onnx(&bytes, &limits);
        let analysis = read.and_then(|model| metier_onnx::analyse_graph(&model, &bindings, &limits));
        let graph_analysis = self.binding.name_file_in_error(&self.graph, analysis)?;
        context.console.print_record(
            &graph_analysis,
            CSV_COLUMNS.split(','),
            graph_analysis.operators.iter().map(operator_row),
            |paint| {
                let operators =
                    if self.operators { operator_table(&graph_analysis, paint) } else { String::new() };
                summary_text(&graph_analysis, paint) + &operators
            },
        )?;
        Ok(CliExitCode::OK)
    }
}

impl BindingArgs {
    /// The flags as shape bindings.
    pub fn bindings(&self) -> anyhow::Result<ShapeBindings> {
        let shapes = parse_pairs("--shape", &self.shape, "INPUT=1x3x224x224", |text| {
            text.split('x').map(|size| size.parse().ok()).collect::<Option<Vec<u64>>>()
        })?;
        let dims = parse_pairs("--dim", &self.dim, "NAME=SIZE", |text| text.parse().ok())?;
        let values = parse_pairs("--value", &self.value, "INPUT=NUMBER", |text| {
            text.split(',').map(|number| number.parse().ok()).collect::<Option<Vec<i64>>>()
        })?;
        Ok(ShapeBindings { shapes, dims, values })
    }

    /// Reads a graph's file.
    pub fn read_graph(&self, path: &Path) -> anyhow::Result<Vec<u8>> {
        let most = OnnxLimits::default().file_bytes as u64;
        let about = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::ensure!(about.is_file(), "{} is not a file; want an ONNX file", path.display());
        let size = about.len();
        anyhow::ensure!(size <= most, "{} has {size} bytes; an ONNX file has at most {most}", path.display());
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Adds the file's name to an error; invalid input is a usage error.
    pub fn name_file_in_error<T>(&self, path: &Path, result: Result<T, Error>) -> anyhow::Result<T> {
        result.map_err(|error| match error {
            Error::Shape { .. } | Error::Dimension { .. } => {
                usage_error(format!("{}: {error}", path.display()))
            }
            other => anyhow::anyhow!("{}: {other}", path.display()),
        })
    }
}

/// Parses `NAME=…` flags. The last `=` separates, since names of inputs may contain one.
pub fn parse_pairs<T>(
    flag: &str,
    given: &[String],
    want: &str,
    read: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<BTreeMap<String, T>> {
    let mut all = BTreeMap::new();
    for text in given {
        let parsed = text.rsplit_once('=').and_then(|(name, rest)| Some((name.to_string(), read(rest)?)));
        let (name, value) = parsed.ok_or_else(|| usage_error(format!("{flag} is {text:?}; want {want}")))?;
        if all.insert(name, value).is_some() {
            return Err(usage_error(format!("{flag} {text:?}: this one was given before")));
        }
    }
    Ok(all)
}

fn shape_text(shape: Option<&Vec<Option<u64>>>) -> String {
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

fn value_text(value: &ValueDescription) -> String {
    let kind = value.data_type.map(|kind| format!(" {}", serialised_word(&kind))).unwrap_or_default();
    format!("{} {}{kind}", value.name, shape_text(value.shape.as_ref()))
}

/// A count with an SI prefix: 4.09 G.
pub fn short_count(count: u64) -> String {
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

fn summary_text(analysis: &GraphAnalysis, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut line = |label: &str, text: String| {
        table.add_row(vec![TableCell::text(label).styled(StreamPaint::dim), TableCell::text(text)]);
    };
    let whose =
        if analysis.producer.is_empty() { String::new() } else { format!(", by {}", analysis.producer) };
    line("graph", format!("{} (opset {}{whose})", analysis.name, analysis.opset));
    analysis.inputs.iter().for_each(|input| line("input", value_text(input)));
    analysis.outputs.iter().for_each(|output| line("output", value_text(output)));
    line(
        "operators",
        format!("{} run, {} in the file", analysis.operators.len(), analysis.operators_in_file),
    );
    line("parameters", format!("{} in {}", short_count(analysis.parameters), analysis.weight_bytes));
    let open = match analysis.operators_without_cost {
        0 => String::new(),
        count => format!(", without {count} operators of unknown size or kind"),
    };
    line("multiply-adds", format!("{}{open}", short_count(analysis.multiply_adds)));
    let peak = analysis
        .peak_activation_bytes
        .map_or("not known: some size is open".to_string(), |bytes| format!("{bytes} at most"));
    line("activations", peak);
    if !analysis.external_files.is_empty() {
        line("weights in", analysis.external_files.iter().cloned().collect::<Vec<_>>().join(", "));
    }
    line("network", serialised_word(&analysis.network_type));
    line("SOPRANO", characteristics_text(&analysis.characteristics));
    if let Some(counts) = &analysis.characteristics_by_rules {
        line("", format!("by its own rules: {}", characteristics_text(counts)));
    }
    let mut text = table.render(paint);
    let mut kinds: Vec<_> = analysis.kinds.iter().collect();
    kinds
        .sort_by_key(|(_, cost)| std::cmp::Reverse((cost.multiply_adds, cost.written_bytes, cost.operators)));
    let mut table = TextTable::with_header(&["KIND", "OPERATORS", "MULTIPLY-ADDS", "SHARE", "WRITES"]);
    for (kind, cost) in kinds {
        let share = (analysis.multiply_adds > 0)
            .then(|| 100.0 * cost.multiply_adds as f64 / analysis.multiply_adds as f64);
        let of_kind = || analysis.operators.iter().filter(|cost| cost.kind == *kind);
        let adds = of_kind().filter(|cost| cost.multiply_adds.is_some()).count() as u64;
        let writes = of_kind().filter(|cost| cost.written_bytes.is_some()).count() as u64;
        table.add_row(vec![
            TableCell::text(kind),
            TableCell::number(cost.operators.to_string()),
            TableCell::quantity(partial_sum(adds, cost.operators, short_count(cost.multiply_adds))),
            TableCell::quantity(share.filter(|share| *share >= 0.05).map(|share| format!("{share:.1} %"))),
            TableCell::quantity(partial_sum(writes, cost.operators, cost.written_bytes.to_string())),
        ]);
    }
    text.push_str(&format!("\n{}", table.render(paint)));
    if !analysis.notes.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Assumed")));
        analysis.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    }
    text
}

/// A sum of which `some` of `all` terms are known: empty without any, marked as a lower bound with
/// some.
fn partial_sum(some: u64, all: u64, sum: String) -> Option<String> {
    match some {
        0 => None,
        _ if some < all => Some(format!("≥{sum}")),
        _ => Some(sum),
    }
}

fn characteristics_text(counts: &GraphCharacteristics) -> String {
    let GraphCharacteristics { conv_layers, pool_layers, fc_layers, filter_details, total_parameters } =
        counts;
    format!(
        "{conv_layers} conv, {pool_layers} pool, {fc_layers} fc, {filter_details} filters, {total_parameters} parameters"
    )
}

fn operator_table(analysis: &GraphAnalysis, paint: StreamPaint) -> String {
    let mut table =
        TextTable::with_header(&["OPERATOR", "KIND", "MAKES", "MULTIPLY-ADDS", "READS", "WRITES", "TURNS"]);
    for cost in &analysis.operators {
        let name = if cost.name.is_empty() { "–" } else { cost.name.as_str() };
        table.add_row(vec![
            TableCell::text(name).truncated(40),
            TableCell::text(&cost.kind),
            TableCell::text(shape_text(cost.outputs.first().and_then(|output| output.shape.as_ref()))),
            TableCell::quantity(cost.multiply_adds.map(short_count)),
            TableCell::quantity(cost.read_bytes),
            TableCell::quantity(cost.written_bytes),
            TableCell::number(cost.turns.to_string()),
        ]);
    }
    format!("\n{}", table.render(paint))
}

const CSV_COLUMNS: &str = "\
    name,kind,domain,inside,inputs,outputs,multiply_adds,elements,read_bytes,written_bytes,\
    weight_bytes,turns";

fn operator_row(cost: &OperatorCost) -> Vec<String> {
    let shapes = |values: &[ValueDescription]| {
        values.iter().map(|description| shape_text(description.shape.as_ref())).collect::<Vec<_>>().join(" ")
    };
    vec![
        cost.name.clone(),
        cost.kind.clone(),
        cost.domain.clone(),
        cost.inside.clone(),
        shapes(&cost.inputs),
        shapes(&cost.outputs),
        csv_cell(cost.multiply_adds),
        csv_cell(cost.elements),
        csv_cell(cost.read_bytes.map(|bytes| bytes.0)),
        csv_cell(cost.written_bytes.map(|bytes| bytes.0)),
        csv_cell(cost.weight_bytes.map(|bytes| bytes.0)),
        cost.turns.to_string(),
    ]
}
