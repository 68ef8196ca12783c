//! `metier split`: cuts an ONNX graph into consecutive parts, each with only its own weights, and
//! assigns the parts to devices.

mod external_weights;
mod split_devices;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_onnx::OnnxLimits;
use metier_onnx::split::{GraphPart, OperatorChain};
use metier_predict::splitting::{SplitPart, SplitReport, even_cuts, least_work, multiply_adds};
use metier_types::{Bytes, Seconds};
use serde_json::json;

use super::CommandContext;
use super::inspect::BindingArgs;
use crate::console::OutputConsole;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{OutputFile, TableCell, TextTable, csv_cell};
use split_devices::SplitDeviceArgs;

const EXAMPLES: &str = "Examples:
  metier split net.onnx --parts 2 --out parts      two parts of about the same work: parts/net.1.onnx, parts/net.2.onnx
  metier split net.onnx --at conv3_out             a cut right after the operator that makes conv3_out
  metier split net.onnx --list                     every place to cut, and what flows over it
  metier split net.onnx --parts 3 --bandwidth 100  with the time that sending takes at 100 Mbit/s
  metier split net.onnx --devices raspberry-pi-5,jetson-nano --bandwidth 1000 --input-at raspberry-pi-5 --out parts
                                                   the best cut for these devices, the input being at the first
  metier split net.onnx --devices raspberry-pi-4b,raspberry-pi-4b --bandwidth 100 --goal throughput
                                                   a pipeline of two boards";

const AFTER: &str = "Devices are passports (`metier device list`), `here` is this one; what was learned on a device answers before its passport. A device may be given \
twice: the second is called NAME#2. Each device takes one part at most where the cut is left to us. Exit code 3: no cut has room in the devices' memory.";

/// Cut an ONNX graph into parts, and find the best cut for devices
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct SplitArgs {
    /// The graph's file
    graph: PathBuf,
    /// Cut after the operator that outputs this value; can be repeated
    #[arg(long, value_name = "VALUE", conflicts_with = "parts")]
    at: Vec<String>,
    /// Number of parts of about equal work, cut where least data crosses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    parts: Option<u64>,
    /// List the possible cuts and the data that crosses each; cut nothing
    #[arg(long, conflicts_with_all = ["at", "parts", "out", "devices"])]
    list: bool,
    /// Write the parts to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Bandwidth in Mbit/s between all devices, or between two; can be repeated
    #[arg(long, value_name = "[DEVICE:DEVICE=]MBIT/S")]
    bandwidth: Vec<String>,
    #[command(flatten)]
    devices: SplitDeviceArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

impl SplitArgs {
    /// Cuts the graph and prints the report.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let links = split_devices::parse_links(&self.bandwidth)?;
        if !self.devices.is_given() {
            self.devices.reject_device_flags()?;
            if let Some(pair) = links.pairs.first() {
                return Err(usage_error(format!(
                    "--bandwidth {}:{} names devices; want --devices too",
                    pair.0, pair.1
                )));
            }
        }
        let bytes = self.binding.read_graph(&self.graph)?;
        let limits = OnnxLimits::default();
        let model = self.binding.name_file_in_error(&self.graph, metier_onnx::read_onnx(&bytes, &limits))?;
        let bindings = self.binding.bindings()?;
        let whole = self
            .binding
            .name_file_in_error(&self.graph, metier_onnx::analyse_graph(&model, &bindings, &limits))?;
        let chain = self
            .binding
            .name_file_in_error(&self.graph, OperatorChain::new(&bytes, &model, &bindings, &limits))?;
        let chain = chain.with_file_stem(&self.stem());
        anyhow::ensure!(
            !chain.is_empty(),
            "{}: no operator in it runs, so nothing can be cut",
            self.graph.display()
        );
        if self.list {
            return self.print_places(context, &chain, links.all);
        }
        let costs = chain.cost_ranges(&whole);
        let work: Vec<Option<u64>> =
            costs.iter().map(|range| multiply_adds(&whole.operators[range.clone()])).collect();
        let least: Vec<f64> = costs.iter().map(|range| least_work(&whole.operators[range.clone()])).collect();
        let cuts = self.choose_cuts(&context.console, &chain, &least)?;
        let mut report = SplitReport::new(&self.graph);
        if self.devices.is_given() {
            let answer = match self.devices.plan_split(
                context,
                &self.graph,
                &chain,
                &whole,
                &links,
                cuts.as_deref(),
            )? {
                Ok(answer) => answer,
                Err(code) => return Ok(code),
            };
            answer.plan.notes.iter().for_each(|note| context.console.note(note));
            for (number, stage) in answer.plan.stages.iter().enumerate() {
                report.parts.push(self.part(number, &stage.part, &work, None)?);
            }
            report.add_plan(answer);
        } else {
            let cuts = cuts.ok_or_else(|| {
                usage_error(
                    "nothing to cut at; want --parts N, --at VALUE or --devices A,B; --list shows the places",
                )
            })?;
            let crossings = chain.crossings();
            for (number, part) in
                self.binding.name_file_in_error(&self.graph, chain.write_parts(&cuts))?.iter().enumerate()
            {
                let crossing = crossings.iter().find(|crossing| crossing.place == part.range.end);
                let sent = crossing.and_then(|crossing| crossing.bytes).map(Bytes);
                let mut row = self.part(number, part, &work, sent)?;
                row.send_seconds = send_time(links.all, sent);
                report.parts.push(row);
            }
        }
        context.console.print_record(
            &report,
            table::HEADER.split(','),
            table::csv_rows(&report),
            |paint| table::report_text(&report, paint),
        )?;
        Ok(CliExitCode::OK)
    }

    fn part(
        &self,
        number: usize,
        part: &GraphPart,
        work: &[Option<u64>],
        sent: Option<Bytes>,
    ) -> anyhow::Result<SplitPart> {
        let file = self.out.as_deref().map(|folder| self.write_part(folder, number + 1, part)).transpose()?;
        let adds = work[part.range.clone()].iter().try_fold(0u64, |sum, number| sum.checked_add((*number)?));
        Ok(SplitPart::new(part, adds, sent, file))
    }

    /// The requested cuts; `None` to choose them.
    fn choose_cuts(
        &self,
        console: &OutputConsole,
        chain: &OperatorChain,
        least: &[f64],
    ) -> anyhow::Result<Option<Vec<usize>>> {
        if let Some(parts) = self.parts {
            let cuts = even_cuts(chain, least, parts as usize);
            if cuts.len() + 1 < parts as usize {
                console.note(format!(
                    "--parts {parts}: made {}; there are no more operators that multiply and add, or no more places to cut",
                    cuts.len() + 1
                ));
            }
            return Ok(Some(cuts));
        }
        if self.at.is_empty() {
            return Ok(None);
        }
        let mut cuts = Vec::new();
        for value in &self.at {
            let place = chain.place_after(value).filter(|place| *place < chain.len()).ok_or_else(|| {
                usage_error(format!("--at {value:?}: no operator inside the graph makes it; `metier split --list` shows the places"))
            })?;
            cuts.push(place);
        }
        cuts.sort_unstable();
        cuts.dedup();
        Ok(Some(cuts))
    }

    fn stem(&self) -> String {
        self.graph.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn write_part(&self, folder: &Path, number: usize, part: &GraphPart) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--out {}: cannot make the folder", folder.display()))?;
        let path = folder.join(format!("{}.{number}.onnx", self.stem()));
        if let Some(outside) = &part.outside {
            external_weights::write_weights(&self.graph, folder, outside)?;
        }
        let mut file = OutputFile::open("--out", &path)?;
        file.write_all(&part.bytes).with_context(|| format!("--out: cannot write {}", path.display()))?;
        file.commit()?;
        Ok(path)
    }

    fn print_places(
        &self,
        context: &CommandContext,
        chain: &OperatorChain,
        speed: Option<f64>,
    ) -> anyhow::Result<CliExitCode> {
        let places = chain.crossings();
        let list: Vec<_> = places
            .iter()
            .map(|crossing| json!({ "place": crossing.place, "values": crossing.values, "bytes": crossing.bytes }))
            .collect();
        let record = json!({
            "schema": "metier.split-places/1",
            "graph": self.graph,
            "operators": chain.len(),
            "places": list,
        });
        let rows = places.iter().map(|crossing| {
            vec![crossing.place.to_string(), crossing.values.join(" "), csv_cell(crossing.bytes)]
        });
        context.console.print_record(&record, ["place", "values", "bytes"], rows, |paint| {
            let mut table = TextTable::with_header(&["AFTER", "SENDS", "IN", "VALUES"]);
            for crossing in &places {
                let bytes = crossing.bytes.map(Bytes);
                table.add_row(vec![
                    TableCell::number(crossing.place.to_string()),
                    TableCell::quantity(bytes),
                    TableCell::quantity(send_time(speed, bytes)),
                    TableCell::text(crossing.values.join(", ")).truncated(90),
                ]);
            }
            table.render(paint)
        })?;
        Ok(CliExitCode::OK)
    }
}

/// Transfer time at a bandwidth in bytes per second.
fn send_time(speed: Option<f64>, bytes: Option<Bytes>) -> Option<Seconds> {
    Some(Seconds(bytes?.get() as f64 / speed?))
}
