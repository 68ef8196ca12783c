//! `metier power profile`: power and activity of an idle node.

use clap::Args;
use metier_power::node::MachineSpec;
use metier_power::profile::IdleProfile;
use metier_power::training;
use serde_json::Value;

use super::extract::short_number;
use super::shared_args::{MachineArgs, PathArgs};
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier power profile -i idle -o node1                 profile_node1.json, and profile/<source>.json as Kepler's profiler writes it
  metier power profile -i idle -p mine --id node1       for the node type that node1 is in the pipeline mine
  metier power isolate -i kepler_query --isolator profile --profile profile_node1";

/// Profile a node from a query response of its idle time
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerProfileArgs {
    /// Query response of the idle machine: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Pipeline to add the profile to; its node types are used
    #[arg(short, long, value_name = "NAME")]
    pipeline_name: Option<String>,
    #[command(flatten)]
    which: MachineArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl PowerProfileArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let response = data.read_response("--input", &self.input)?;
        let idle = IdleProfile::of(&response)
            .map_err(|error| usage_error(format!("--input {}: {error}", self.input)))?;
        let machine = self.which.load_machine(&data)?;
        let folder = self.pipeline_name.as_ref().map_or_else(|| data.0.clone(), |name| data.0.join(name));
        let node_type = match &self.pipeline_name {
            Some(_) => training::join(&folder, machine.as_ref())?,
            None => 0,
        };
        for (source, profile) in &idle.levels {
            let path = folder.join("profile").join(format!("{}.json", source.name()));
            let before = std::fs::read(&path).unwrap_or_default();
            data.write_file(&path, profile.added_to(&before, node_type).to_string().as_bytes())?;
        }
        let spec: Option<MachineSpec> = machine.map(|machine| machine.spec);
        let file = idle.to_json(node_type, spec)?;
        let stem = self.paths.out.strip_suffix(".json").unwrap_or(&self.paths.out);
        let to = data
            .write_file(&data.file_path(&format!("profile_{stem}"), "json"), file.to_string().as_bytes())?;
        context.console.note(format!(
            "{} rows over {} s of node type {node_type}: {}",
            idle.rows,
            idle.seconds,
            to.display()
        ));
        print_profile(context, &idle, &file)?;
        Ok(CliExitCode::OK)
    }
}

fn print_profile(context: &CommandContext, idle: &IdleProfile, file: &Value) -> anyhow::Result<()> {
    let console = &context.console;
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, file)),
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, file)),
        DataFormat::Csv => {
            let header = ["what", "name", "min", "max", "mean", "deviation"];
            let levels = idle.levels.iter().flat_map(|(source, profile)| {
                profile.0.iter().map(|(component, level)| {
                    let numbers = [level.min_watt.to_string(), level.max_watt.to_string()];
                    let mut row = vec![source.name().to_string(), component.name().to_string()];
                    row.extend(numbers.into_iter().chain([String::new(), String::new()]));
                    row
                })
            });
            let features = idle.scalers.iter().map(|(name, scaler)| {
                let numbers = [scaler.min, scaler.max, scaler.mean, scaler.deviation];
                let mut row = vec!["feature".to_string(), name.clone()];
                row.extend(numbers.map(|number| number.to_string()));
                row
            });
            console.write_data(|out| output::write_csv(out, header, levels.chain(features)))
        }
        DataFormat::Table => {
            let mut power = TextTable::with_header(&["SOURCE", "COMPONENT", "LEAST W", "MOST W"]);
            for (source, profile) in &idle.levels {
                for (component, level) in &profile.0 {
                    power.add_row(vec![
                        TableCell::text(source.name()),
                        TableCell::text(component.name()),
                        TableCell::number(short_number(level.min_watt)),
                        TableCell::number(short_number(level.max_watt)),
                    ]);
                }
            }
            let mut features =
                TextTable::with_header(&["FEATURE, A SECOND", "LEAST", "MOST", "MEAN", "DEVIATION"]);
            for (name, scaler) in &idle.scalers {
                let numbers = [scaler.min, scaler.max, scaler.mean, scaler.deviation];
                let mut row = vec![TableCell::text(name)];
                row.extend(numbers.map(|number| TableCell::number(short_number(number))));
                features.add_row(row);
            }
            let names: Vec<&str> = idle.background.iter().map(String::as_str).collect();
            let background = format!("background: {} containers: {}\n", names.len(), names.join(", "));
            let (power, features) = (power.render(console.paint), features.render(console.paint));
            console.print(&format!("{power}\n{features}\n{background}"))
        }
    }
}
