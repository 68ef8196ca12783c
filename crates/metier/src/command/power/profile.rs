//! `metier power profile`: what a node takes and does while no workload runs.

use clap::Args;
use metier_power::node::MachineSpec;
use metier_power::profile::Idle;
use metier_power::training;
use serde_json::Value;

use super::extract::short;
use super::flags::{Paths, Which};
use crate::command::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Table};

const EXAMPLES: &str = "Examples:
  metier power profile -i idle -o node1                 profile_node1.json, and profile/<source>.json as Kepler's profiler writes it
  metier power profile -i idle -p mine --id node1       for the node type that node1 is in the pipeline mine
  metier power isolate -i kepler_query --isolator profile --profile profile_node1";

/// Profile a node from a query response of its idle time
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Profile {
    /// Query response of the idle machine: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Pipeline that the profile goes into; its node types are used
    #[arg(short, long, value_name = "NAME")]
    pipeline_name: Option<String>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    paths: Paths,
}

impl Profile {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let response = data.response("--input", &self.input)?;
        let idle = Idle::of(&response).map_err(|error| usage(format!("--input {}: {error}", self.input)))?;
        let machine = self.which.machine(&data)?;
        let folder = self.pipeline_name.as_ref().map_or_else(|| data.0.clone(), |name| data.0.join(name));
        let node_type = match &self.pipeline_name {
            Some(_) => training::join(&folder, machine.as_ref())?,
            None => 0,
        };
        for (source, profile) in &idle.levels {
            let path = folder.join("profile").join(format!("{}.json", source.name()));
            let before = std::fs::read(&path).unwrap_or_default();
            data.write(&path, profile.added_to(&before, node_type).to_string().as_bytes())?;
        }
        let spec: Option<MachineSpec> = machine.map(|machine| machine.spec);
        let file = idle.to_json(node_type, spec)?;
        let stem = self.paths.out.strip_suffix(".json").unwrap_or(&self.paths.out);
        let to = data.write(&data.path(&format!("profile_{stem}"), "json"), file.to_string().as_bytes())?;
        room.console.note(format!(
            "{} rows over {} s of node type {node_type}: {}",
            idle.rows,
            idle.seconds,
            to.display()
        ));
        show(room, &idle, &file)?;
        Ok(Code::OK)
    }
}

fn show(room: &Room, idle: &Idle, file: &Value) -> anyhow::Result<()> {
    let console = &room.console;
    match console.format {
        Format::Json => console.data(|out| output::json(out, file)),
        Format::Yaml => console.data(|out| output::yaml(out, file)),
        Format::Csv => {
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
            console.data(|out| output::csv(out, &header, levels.chain(features)))
        }
        Format::Table => {
            let mut power = Table::with_header(&["SOURCE", "COMPONENT", "LEAST W", "MOST W"]);
            for (source, profile) in &idle.levels {
                for (component, level) in &profile.0 {
                    power.row(vec![
                        Cell::text(source.name()),
                        Cell::text(component.name()),
                        Cell::number(short(level.min_watt)),
                        Cell::number(short(level.max_watt)),
                    ]);
                }
            }
            let mut features =
                Table::with_header(&["FEATURE, A SECOND", "LEAST", "MOST", "MEAN", "DEVIATION"]);
            for (name, scaler) in &idle.scalers {
                let numbers = [scaler.min, scaler.max, scaler.mean, scaler.deviation];
                let mut row = vec![Cell::text(name)];
                row.extend(numbers.map(|number| Cell::number(short(number))));
                features.row(row);
            }
            let names: Vec<&str> = idle.background.iter().map(String::as_str).collect();
            let background = format!("background: {} containers: {}\n", names.len(), names.join(", "));
            let (power, features) = (power.render(console.paint), features.render(console.paint));
            console.print(&format!("{power}\n{features}\n{background}"))
        }
    }
}
