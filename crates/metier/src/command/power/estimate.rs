//! `metier power estimate`: tests predictors on a query response with measured power.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use metier_power::assess::{self, ComponentAssessment, PredictorAssessment};
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerTrainer};
use metier_power::pipeline::PredictorPipeline;
use metier_power::query::BenchmarkTimes;
use metier_power::selection::{PipelineRegistry, PredictorFilter};
use metier_power::training::{self, PipelinePlan, PowerTable as Rows, TrainingKnowledge};
use metier_types::UtcTimestamp;
use serde_json::{Value, json};

use super::power_files::DataFolder;
use super::shared_args::{self, IsolationArgs, PathArgs};
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, TableCell, TextTable, csv_cell};

const EXAMPLES: &str = "Examples:
  metier power estimate -i kepler_query -p mine -e rapl-sysfs,acpi -o tried       every predictor of mine; the best in tried/
  metier power estimate -i kepler_query --output-type DynPower --isolator joint --model-name AutoTrainer_0 -p mine
  metier power estimate -i kepler_query -e acpi                                   what is shipped, where no pipeline is here";

/// Test predictors on a query response with measured power
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerEstimateArgs {
    #[command(flatten)]
    pub on: EstimateInputArgs,
    #[command(flatten)]
    pub paths: PathArgs,
}

/// Selects predictors and data.
#[derive(Debug, Args)]
pub struct EstimateInputArgs {
    /// Query response: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    pub input: Option<String>,
    /// Pipeline: a folder or zip [default: all in the data path, else the shipped ones]
    #[arg(short, long, value_name = "NAME")]
    pub pipeline_name: Option<String>,
    /// Energy source
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',', default_value = "rapl-sysfs", value_parser = shared_args::parse_source)]
    pub energy_source: Vec<EnergySource>,
    /// Power with idle (AbsPower) or without (DynPower)
    #[arg(long, value_name = "TYPE", default_value = "AbsPower")]
    pub output_type: OutputType,
    /// Only this group of features
    #[arg(long, value_name = "GROUP")]
    pub feature_group: Option<FeatureGroup>,
    /// Only this predictor, as XgboostFitTrainer_0
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,
    /// Benchmark file of the CPE operator, for `--scenario`
    #[arg(long, value_name = "NAME")]
    pub benchmark: Option<String>,
    /// Only containers of scenarios with one of these in their name
    #[arg(long, value_name = "PART", value_delimiter = ',', requires = "benchmark")]
    pub scenario: Vec<String>,
    #[command(flatten)]
    pub rows: shared_args::RowArgs,
    #[command(flatten)]
    pub isolation: IsolationArgs,
}

/// Tables, pipelines, and failures.
pub struct EstimateInputs {
    pub tables: Vec<Rows>,
    pub pipelines: Vec<Arc<PredictorPipeline>>,
    pub warnings: Vec<String>,
}

impl EstimateInputArgs {
    /// The tables of the response.
    pub fn load_tables(&self, data: &DataFolder) -> anyhow::Result<training::PowerTables> {
        let Some(input) = &self.input else {
            return Err(usage_error("--input is missing; want a query response"));
        };
        let mut response = data.read_response("--input", input)?;
        if let Some(name) = self.benchmark.as_ref().filter(|_| !self.scenario.is_empty()) {
            let (path, text) = data.read_file("--benchmark", name, "json")?;
            let wrong = |why: String| usage_error(format!("--benchmark {}: {why}", path.display()));
            let read = BenchmarkTimes::read(&text).map_err(|error| wrong(error.to_string()))?;
            let is_asked = |scenario: &str| self.scenario.iter().any(|part| scenario.contains(part.as_str()));
            let pods = read.pods.iter().filter(|(_, scenario)| is_asked(scenario));
            let pods: Vec<&str> = pods.map(|(pod, _)| pod.as_str()).collect();
            if pods.is_empty() {
                return Err(wrong(format!("has no pods of --scenario {}", self.scenario.join(","))));
            }
            metier_power::response_counts::of_pods(&mut response, &pods);
        }
        let (idle, judges) = match self.output_type {
            OutputType::AbsPower => (None, None),
            OutputType::DynPower => {
                (self.isolation.load_idle(data)?, self.isolation.load_abs_pipeline(data)?)
            }
        };
        // The trainers determine which tables are made.
        let (abs_trainers, dyn_trainers) = match self.output_type {
            OutputType::AbsPower => (vec![PowerTrainer::Linear], Vec::new()),
            OutputType::DynPower => (Vec::new(), vec![PowerTrainer::Linear]),
        };
        let plan = PipelinePlan {
            extractor: self.rows.extractor,
            isolator: self.isolation.isolator,
            hints: self.isolation.hints(),
            sources: self.energy_source.clone(),
            groups: self.feature_group.into_iter().collect(),
            abs_trainers,
            dyn_trainers,
            vm: self.rows.vm_train,
            ..PipelinePlan::new("estimate", UtcTimestamp::now())
        };
        let known = TrainingKnowledge { idle: idle.as_ref(), judges: judges.as_ref() };
        training::tables(&response, known, &plan, 0)
            .map_err(|error| usage_error(format!("--input {input}: {error}")))
    }

    /// The tested pipelines.
    pub fn load_pipelines(
        &self,
        context: &CommandContext,
        data: &DataFolder,
    ) -> anyhow::Result<Vec<Arc<PredictorPipeline>>> {
        if let Some(name) = &self.pipeline_name {
            return Ok(vec![Arc::new(data.load_pipeline("--pipeline-name", name)?)]);
        }
        let loaded = PipelineRegistry::load(std::slice::from_ref(&data.0));
        if !loaded.registry.pipelines.is_empty() {
            return Ok(loaded.registry.pipelines);
        }
        context.console.note("metier: no pipeline here: what is shipped is tried");
        Ok(vec![Arc::new(metier_power::defaults::shipped()?.pipeline.clone())])
    }

    pub fn load_inputs(&self, context: &CommandContext, data: &DataFolder) -> anyhow::Result<EstimateInputs> {
        let tables = self.load_tables(data)?;
        Ok(EstimateInputs {
            tables: tables.list,
            pipelines: self.load_pipelines(context, data)?,
            warnings: tables.warnings,
        })
    }
}

impl EstimateInputs {
    /// All results of a source: table and predictor, smallest error first.
    pub fn assess_source(
        &self,
        source: EnergySource,
        on: &EstimateInputArgs,
        warnings: &mut Vec<String>,
    ) -> Vec<(&Rows, PredictorAssessment<'_>)> {
        let mut all = Vec::new();
        for table in self.tables.iter().filter(|table| table.source == source) {
            for pipeline in &self.pipelines {
                let filter = PredictorFilter {
                    source: Some(source),
                    output_type: Some(on.output_type),
                    group: Some(table.group),
                    name: on.model_name.clone(),
                    ..PredictorFilter::default()
                };
                let (tried, texts) = assess::assess_all(pipeline, &table.frame, &filter);
                warnings.extend(texts);
                all.extend(tried.into_iter().map(|assessment| (table, assessment)));
            }
        }
        all.sort_by(|one, two| one.1.mae().total_cmp(&two.1.mae()));
        all
    }
}

impl PowerEstimateArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let tried = self.on.load_inputs(context, &data)?;
        let mut warnings = tried.warnings.clone();
        let mut best: Vec<Value> = Vec::new();
        let mut all = Vec::new();
        for source in &self.on.energy_source {
            let of = tried.assess_source(*source, &self.on, &mut warnings);
            let Some((table, first)) = of.first() else {
                let text =
                    self.on.model_name.as_ref().map_or(String::new(), |name| format!(" called {name}"));
                warnings.push(format!("{}: no predictor{text} fits the table", source.name()));
                continue;
            };
            let files = self.save_best(&data, *source, table, first)?;
            best.push(json!({
                "source": source.name(), "pipeline": first.pipeline, "model_name": first.model.full_name,
                "feature_group": table.group.name(), "files": files,
            }));
            all.extend(of.iter().map(|(table, assessment)| (*source, *table, assessment.clone())));
        }
        if all.is_empty() {
            return Err(usage_error(format!("nothing could be tried: {}", warnings.join("; "))));
        }
        for warning in &warnings {
            context.console.warn(warning);
        }
        let console = &context.console;
        // One line per component, a predictor's largest error first.
        let lines = || {
            all.iter().flat_map(|(source, table, assessment)| {
                assessment.worst_first().into_iter().map(move |of| (source.name(), *table, assessment, of))
            })
        };
        let record = || {
            let one = |(source, table, assessment, of): (
                &str,
                &Rows,
                &PredictorAssessment<'_>,
                &ComponentAssessment,
            )| {
                json!({
                    "source": source, "feature_group": table.group.name(), "pipeline": assessment.pipeline, "model_name": assessment.model.full_name,
                    "component": of.component.name(), "rows": table.frame.len(), "mae": of.mae, "mse": of.mse, "mape": of.mape, "coverage": of.coverage,
                })
            };
            json!({ "schema": "metier.power-estimate/1", "output_type": self.on.output_type.name(), "best": best, "errors": lines().map(one).collect::<Vec<_>>() })
        };
        match console.format {
            DataFormat::Json => console.write_data(|out| output::write_json(out, &record()))?,
            DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record()))?,
            DataFormat::Csv => {
                let header = [
                    "source",
                    "feature_group",
                    "pipeline",
                    "model_name",
                    "component",
                    "rows",
                    "mae",
                    "mse",
                    "mape",
                    "coverage",
                ];
                let rows = lines().map(|(source, table, assessment, of)| {
                    vec![
                        source.to_string(),
                        table.group.name().to_string(),
                        assessment.pipeline.to_string(),
                        assessment.model.full_name.clone(),
                        of.component.name().to_string(),
                        table.frame.len().to_string(),
                        of.mae.to_string(),
                        of.mse.to_string(),
                        csv_cell(of.mape),
                        csv_cell(of.coverage),
                    ]
                });
                console.write_data(|out| output::write_csv(out, header, rows))?;
            }
            DataFormat::Table => {
                let mut table = TextTable::with_header(&[
                    "SOURCE",
                    "FEATURES",
                    "PIPELINE",
                    "PREDICTOR",
                    "COMPONENT",
                    "MAE",
                    "MAPE",
                    "INSIDE 90 %",
                ]);
                for (source, rows, assessment, of) in lines() {
                    table.add_row(vec![
                        TableCell::text(source),
                        TableCell::text(rows.group.name()),
                        TableCell::text(assessment.pipeline),
                        TableCell::text(&assessment.model.full_name),
                        TableCell::text(of.component.name()),
                        TableCell::number(format!("{:.2} W", of.mae)),
                        TableCell::quantity(of.mape.map(|mape| format!("{mape:.2} %"))),
                        TableCell::quantity(of.coverage.map(|share| format!("{:.1} %", share * 100.0))),
                    ]);
                }
                console.print(&table.render(console.paint))?;
                for value in &best {
                    let word = |field: &str| value[field].as_str().unwrap_or_default().to_string();
                    console.note(format!(
                        "{}: {} of {} is best",
                        word("source"),
                        word("model_name"),
                        word("feature_group")
                    ));
                }
            }
        }
        Ok(CliExitCode::OK)
    }

    /// Saves the best predictor's archive, and the table with its predictions.
    fn save_best(
        &self,
        data: &DataFolder,
        source: EnergySource,
        table: &Rows,
        best: &PredictorAssessment<'_>,
    ) -> anyhow::Result<Vec<String>> {
        let folder = data.0.join(&self.paths.out);
        let mut files: Vec<PathBuf> = Vec::new();
        if let Some(archive) = &best.model.archive {
            let to = folder.join(format!("{}_model.zip", source.name()));
            files.push(data.write_file(&to, &archive.bytes()?)?);
        }
        let mut bytes = Vec::new();
        best.with_predictions(&table.frame)?.write_csv(&mut bytes)?;
        let to = folder.join(format!("{}_estimation_result.csv", source.name()));
        files.push(data.write_file(&to, &bytes)?);
        Ok(files.iter().map(|path| path.display().to_string()).collect())
    }
}
