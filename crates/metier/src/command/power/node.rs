//! `metier power node`: shows this machine as Kepler describes it, and its nearest node type.

use std::path::{Path, PathBuf};

use clap::Args;
use metier_power::node::{MachineSpec, NodeTypeIndex, discover};
use serde_json::{Value, json};

use super::shared_args::PathArgs;
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier power node                                            this machine, and the nearest shipped node types
  metier power node -p specpower-0.7.11.zip                    the same for a pipeline
  metier power node -p mine --machine-spec other.json --exact  another machine; only what covers it
  metier power node --save --id node1                          machine_spec/node1.json, for `metier power train --id node1`";

/// Show this machine and its nearest node type
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerNodeArgs {
    /// Folder or zip of a pipeline, or a node_type_index.json [default: shipped]
    #[arg(short, long, value_name = "NAME")]
    pipeline_name: Option<String>,
    /// File that describes the machine [default: this machine]
    #[arg(long, value_name = "FILE")]
    machine_spec: Option<PathBuf>,
    /// Only node types that match all known attributes
    #[arg(long)]
    exact: bool,
    /// Number of node types to show
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    limit: usize,
    /// Save the machine as `machine_spec/ID.json`
    #[arg(long, requires = "id")]
    save: bool,
    /// Name of the machine
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    paths: PathArgs,
}

/// This machine as a record.
pub fn discover_machine_json() -> anyhow::Result<String> {
    Ok(serde_json::to_string(&discover::discover(Path::new("/proc"), Path::new("/sys")))?)
}

impl PowerNodeArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let spec = match &self.machine_spec {
            None => discover::discover(Path::new("/proc"), Path::new("/sys")),
            Some(path) => {
                let wrong = |why: String| usage_error(format!("--machine-spec {}: {why}", path.display()));
                let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
                serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?
            }
        };
        if let Some(id) = self.id.as_ref().filter(|_| self.save) {
            let path =
                data.write_file(&data.machine_spec_path(id)?, serde_json::to_string(&spec)?.as_bytes())?;
            context.console.note(format!("saved as {}", path.display()));
        }
        let (name, index) = self.load_index(&data)?;
        self.print_node_types(context, &spec, &name, &index)?;
        Ok(CliExitCode::OK)
    }

    fn load_index(&self, data: &super::power_files::DataFolder) -> anyhow::Result<(String, NodeTypeIndex)> {
        let Some(name) = &self.pipeline_name else {
            let shipped = metier_power::defaults::shipped()?;
            return Ok((shipped.pipeline.name.clone(), shipped.pipeline.index.clone().unwrap_or_default()));
        };
        if name.ends_with(".json") {
            let (path, text) = data.read_file("--pipeline-name", name, "json")?;
            let index = NodeTypeIndex::read(&String::from_utf8_lossy(&text))
                .map_err(|error| usage_error(format!("--pipeline-name {}: {error}", path.display())))?;
            return Ok((name.clone(), index));
        }
        // A folder may have an index and no predictors yet.
        let folder = data.0.join(name);
        if folder.join("node_type_index.json").is_file() {
            return Ok((name.clone(), metier_power::pipeline::read_node_types(&folder)?));
        }
        let pipeline = data.load_pipeline("--pipeline-name", name)?;
        match pipeline.index {
            Some(index) => Ok((pipeline.name, index)),
            None => Err(usage_error(format!("--pipeline-name {name}: has no node_type_index.json"))),
        }
    }

    fn print_node_types(
        &self,
        context: &CommandContext,
        spec: &MachineSpec,
        name: &str,
        index: &NodeTypeIndex,
    ) -> anyhow::Result<()> {
        let console = &context.console;
        let found = index.lookup(spec, !self.exact);
        let mut like: Vec<(f64, u32)> =
            index.0.iter().map(|(number, entry)| (spec.similarity(&entry.spec), *number)).collect();
        like.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(&two.1)));
        like.truncate(self.limit);
        let record = || {
            let one = |(similarity, number): &(f64, u32)| json!({ "node_type": number, "similarity": similarity, "spec": index.0[number].spec, "members": index.0[number].members });
            let found = found.map(|found| json!({ "node_type": found.node_type, "uncertainty": found.uncertainty, "looseness": found.looseness }));
            json!({
                "schema": "metier.power-node/1", "machine_spec": spec, "pipeline": name, "node_types": index.0.len(),
                "found": found.unwrap_or(Value::Null), "like": like.iter().map(one).collect::<Vec<_>>(),
            })
        };
        match console.format {
            DataFormat::Json => return console.write_data(|out| output::write_json(out, &record())),
            DataFormat::Yaml => return console.write_data(|out| output::write_yaml(out, &record())),
            DataFormat::Csv => {
                let header = [
                    "node_type",
                    "similarity",
                    "processor",
                    "cores",
                    "chips",
                    "memory",
                    "frequency",
                    "members",
                ];
                let row = |(similarity, number): &(f64, u32)| {
                    let entry = &index.0[number];
                    let mut row = vec![number.to_string(), similarity.to_string()];
                    row.extend(attribute_cells(&entry.spec));
                    row.push(entry.members.len().to_string());
                    row
                };
                return console.write_data(|out| output::write_csv(out, header, like.iter().map(row)));
            }
            DataFormat::Table => {}
        }
        let mut table = TextTable::with_header(&[
            "",
            "PROCESSOR",
            "CORES",
            "CHIPS",
            "MEMORY GiB",
            "MHz",
            "MACHINES",
            "SIMILARITY",
        ]);
        let line = |title: String, spec: &MachineSpec, members: String, similarity: String| {
            let mut row = vec![TableCell::text(title)];
            let mut cells = attribute_cells(spec).into_iter();
            row.push(TableCell::text(cells.next().unwrap_or_default()));
            row.extend(
                cells.map(|cell| TableCell::number(if cell.is_empty() { "–".to_string() } else { cell })),
            );
            row.extend([TableCell::number(members), TableCell::number(similarity)]);
            row
        };
        table.add_row(line("this machine".to_string(), spec, String::new(), String::new()));
        for (similarity, number) in &like {
            let entry = &index.0[number];
            let members = entry.members.len().to_string();
            table.add_row(line(format!("type {number}"), &entry.spec, members, format!("{similarity:.3}")));
        }
        console.print(&table.render(console.paint))?;
        let types = index.0.len();
        console.print(&match found {
            None if types == 0 => format!("{name} has no node types\n"),
            None => format!("none of the {types} node types of {name} matches all known attributes\n"),
            Some(found) => {
                let how = match (found.looseness, found.uncertainty) {
                    (0.0, 0.0) => "exactly".to_string(),
                    (0.0, unsure) => {
                        format!("of those that it may be the likeliest; uncertainty {unsure:.2}")
                    }
                    (loose, unsure) => {
                        format!("the most similar of {types}; looseness {loose:.3}, uncertainty {unsure:.2}")
                    }
                };
                format!("{} type {} of {name}, {how}\n", console.paint.bold("node"), found.node_type)
            }
        })?;
        Ok(())
    }
}

/// Text of its five attributes; unknown ones are empty.
fn attribute_cells(spec: &MachineSpec) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    vec![
        spec.processor.clone().unwrap_or_default(),
        number(spec.cores),
        number(spec.chips),
        number(spec.memory),
        number(spec.frequency),
    ]
}
