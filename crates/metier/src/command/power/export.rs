//! `metier power export`: exports a pipeline in the form of kepler-model-db.

use clap::Args;
use metier_power::query::BenchmarkTimes;
use metier_power::training::{self, PipelinePublication};
use metier_types::UtcTimestamp;
use serde_json::json;

use super::shared_args::PathArgs;
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat};

const EXAMPLES: &str = "Examples:
  metier power export -p mine -o models --publisher me --collect-date 2026-11-17T10:00:00Z --zip   models/v0.7/mine and mine.zip
  metier power export -p mine -o models --publisher me --benchmark load --include-raw              with the tables";

/// Export a pipeline's accurate predictors in the form of kepler-model-db
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerExportArgs {
    /// The pipeline
    #[arg(short, long, value_name = "NAME")]
    pipeline_name: String,
    /// Account that publishes it
    #[arg(long, value_name = "NAME")]
    publisher: String,
    /// Time of the measurement, as 2026-11-17T15:40:00Z or 2026-11-17
    #[arg(long, value_name = "TIME", required_unless_present = "benchmark")]
    collect_date: Option<String>,
    /// Benchmark file with the time of the measurement
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
    /// Include the tables
    #[arg(long)]
    include_raw: bool,
    /// Also write a zip
    #[arg(long)]
    zip: bool,
    #[command(flatten)]
    paths: PathArgs,
}

impl PowerExportArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let collected = match (&self.benchmark, &self.collect_date) {
            (Some(name), _) => {
                let (path, text) = data.read_file("--benchmark", name, "json")?;
                let wrong = |why: String| usage_error(format!("--benchmark {}: {why}", path.display()));
                let read = BenchmarkTimes::read(&text).map_err(|error| wrong(error.to_string()))?;
                read.span.ok_or_else(|| wrong("has no times".to_string()))?.start
            }
            (None, Some(text)) => {
                // A day means its start.
                let day = text
                    .trim()
                    .parse::<jiff::civil::Date>()
                    .ok()
                    .map(|_| format!("{}T00:00:00Z", text.trim()));
                metier_power::query::time("time", day.as_deref().unwrap_or(text))
                    .map_err(|error| usage_error(format!("--collect-date: {error}")))?
            }
            (None, None) => {
                return Err(usage_error("--collect-date is missing; want a time, or --benchmark"));
            }
        };
        let folder = data.0.join(&self.pipeline_name);
        if !folder.join("metadata.json").is_file() {
            let why = "no such pipeline; want a folder that `metier power train` made";
            return Err(usage_error(format!("--pipeline-name {}: {why}", self.pipeline_name)));
        }
        let written = |at: UtcTimestamp| at.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let about = PipelinePublication {
            publisher: self.publisher.clone(),
            collected: written(collected),
            exported: written(UtcTimestamp::now()),
            with_tables: self.include_raw,
        };
        let published = training::export(&folder, &data.0.join(&self.paths.out), &about)?;
        let mut files = vec![published.folder.display().to_string()];
        if self.zip {
            let mut zip = published.folder.as_os_str().to_owned();
            zip.push(".zip");
            metier_power::pipeline::pack_file(&published.folder, std::path::Path::new(&zip))?;
            files.push(zip.to_string_lossy().into_owned());
        }
        let console = &context.console;
        let record = || json!({ "schema": "metier.power-export/1", "files": files, "kept": published.passed, "dropped": published.dropped });
        match console.format {
            DataFormat::Json => console.write_data(|out| output::write_json(out, &record()))?,
            DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record()))?,
            DataFormat::Csv => console.write_data(|out| {
                output::write_csv(out, ["file"], files.iter().map(|file| vec![file.clone()]))
            })?,
            DataFormat::Table => {
                let (number, dropped) = (published.passed, published.dropped.len());
                console.print(&format!(
                    "{number} predictors are good enough, {dropped} are not\n{}\n",
                    files.join("\n")
                ))?;
                for text in &published.dropped {
                    console.note(format!("left out: {text}"));
                }
            }
        }
        Ok(CliExitCode::OK)
    }
}
