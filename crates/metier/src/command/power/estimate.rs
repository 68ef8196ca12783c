//! `metier power estimate`: predictors tried on a query response whose power is known.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use metier_power::assess::{self, Assessed, Of};
use metier_power::pipeline::Pipeline;
use metier_power::query::Benchmark;
use metier_power::selection::{PredictorFilter, Registry};
use metier_power::training::{self, Known, Plan, Table as Rows};
use metier_power::vocabulary::{FeatureGroup, OutputType, Source, Trainer};
use metier_types::Timestamp;
use serde_json::{Value, json};

use super::files::Data;
use super::flags::{self, Isolation, Paths};
use crate::command::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Table, plain};

const EXAMPLES: &str = "Examples:
  metier power estimate -i kepler_query -p mine -e rapl-sysfs,acpi -o tried       every predictor of mine; the best in tried/
  metier power estimate -i kepler_query --output-type DynPower --isolator joint --model-name AutoTrainer_0 -p mine
  metier power estimate -i kepler_query -e acpi                                   what is shipped, where no pipeline is here";

/// Try predictors on a query response whose power is known
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Estimate {
    #[command(flatten)]
    pub on: On,
    #[command(flatten)]
    pub paths: Paths,
}

/// What is tried on what.
#[derive(Debug, Args)]
pub struct On {
    /// Query response: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    pub input: Option<String>,
    /// Pipeline: a folder or zip [default: all in the data path, else what is shipped]
    #[arg(short, long, value_name = "NAME")]
    pub pipeline_name: Option<String>,
    /// Where energy was read
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',', default_value = "rapl-sysfs", value_parser = flags::source)]
    pub energy_source: Vec<Source>,
    /// Whether idle power is part of it
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
    pub rows: flags::Rows,
    #[command(flatten)]
    pub isolation: Isolation,
}

/// Tables, pipelines, and what could not be done.
pub struct Tried {
    pub tables: Vec<Rows>,
    pub pipelines: Vec<Arc<Pipeline>>,
    pub warnings: Vec<String>,
}

impl On {
    /// The tables of the response.
    pub fn tables(&self, data: &Data) -> anyhow::Result<training::Tables> {
        let Some(input) = &self.input else {
            return Err(usage("--input is missing; want a query response"));
        };
        let mut response = data.response("--input", input)?;
        if let Some(name) = self.benchmark.as_ref().filter(|_| !self.scenario.is_empty()) {
            let (path, text) = data.read("--benchmark", name, "json")?;
            let wrong = |why: String| usage(format!("--benchmark {}: {why}", path.display()));
            let read = Benchmark::read(&text).map_err(|error| wrong(error.to_string()))?;
            let is_asked = |scenario: &str| self.scenario.iter().any(|part| scenario.contains(part.as_str()));
            let pods = read.pods.iter().filter(|(_, scenario)| is_asked(scenario));
            let pods: Vec<&str> = pods.map(|(pod, _)| pod.as_str()).collect();
            if pods.is_empty() {
                return Err(wrong(format!("has no pods of --scenario {}", self.scenario.join(","))));
            }
            metier_power::validate::of_pods(&mut response, &pods);
        }
        let (idle, judges) = match self.output_type {
            OutputType::AbsPower => (None, None),
            OutputType::DynPower => (self.isolation.idle(data)?, self.isolation.judges(data)?),
        };
        // Who would learn says which tables are made.
        let (abs_trainers, dyn_trainers) = match self.output_type {
            OutputType::AbsPower => (vec![Trainer::Linear], Vec::new()),
            OutputType::DynPower => (Vec::new(), vec![Trainer::Linear]),
        };
        let plan = Plan {
            extractor: self.rows.extractor,
            isolator: self.isolation.isolator,
            hints: self.isolation.hints(),
            sources: self.energy_source.clone(),
            groups: self.feature_group.into_iter().collect(),
            abs_trainers,
            dyn_trainers,
            vm: self.rows.vm_train,
            ..Plan::new("estimate", Timestamp::now())
        };
        let known = Known { idle: idle.as_ref(), judges: judges.as_ref() };
        training::tables(&response, known, &plan, 0)
            .map_err(|error| usage(format!("--input {input}: {error}")))
    }

    /// The pipelines that are tried.
    pub fn pipelines(&self, room: &Room, data: &Data) -> anyhow::Result<Vec<Arc<Pipeline>>> {
        if let Some(name) = &self.pipeline_name {
            return Ok(vec![Arc::new(data.pipeline("--pipeline-name", name)?)]);
        }
        let loaded = Registry::load(std::slice::from_ref(&data.0));
        if !loaded.registry.pipelines.is_empty() {
            return Ok(loaded.registry.pipelines);
        }
        room.console.note("metier: no pipeline here: what is shipped is tried");
        Ok(vec![Arc::new(metier_power::defaults::shipped()?.pipeline.clone())])
    }

    pub fn tried(&self, room: &Room, data: &Data) -> anyhow::Result<Tried> {
        let tables = self.tables(data)?;
        Ok(Tried { tables: tables.list, pipelines: self.pipelines(room, data)?, warnings: tables.warnings })
    }
}

impl Tried {
    /// Everything that was tried for a source: the table and the predictor, the best first.
    pub fn of(&self, source: Source, on: &On, warnings: &mut Vec<String>) -> Vec<(&Rows, Assessed<'_>)> {
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
                let (tried, told) = assess::assess_all(pipeline, &table.frame, &filter);
                warnings.extend(told);
                all.extend(tried.into_iter().map(|one| (table, one)));
            }
        }
        all.sort_by(|one, two| one.1.mae().total_cmp(&two.1.mae()));
        all
    }
}

impl Estimate {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let tried = self.on.tried(room, &data)?;
        let mut warnings = tried.warnings.clone();
        let mut best: Vec<Value> = Vec::new();
        let mut all = Vec::new();
        for source in &self.on.energy_source {
            let of = tried.of(*source, &self.on, &mut warnings);
            let Some((table, first)) = of.first() else {
                let wanted =
                    self.on.model_name.as_ref().map_or(String::new(), |name| format!(" called {name}"));
                warnings.push(format!("{}: no predictor{wanted} fits the table", source.name()));
                continue;
            };
            let files = self.keep(&data, *source, table, first)?;
            best.push(json!({
                "source": source.name(), "pipeline": first.pipeline, "model_name": first.model.full_name,
                "feature_group": table.group.name(), "files": files,
            }));
            all.extend(of.iter().map(|(table, one)| (*source, *table, one.clone())));
        }
        if all.is_empty() {
            return Err(usage(format!("nothing could be tried: {}", warnings.join("; "))));
        }
        for warning in &warnings {
            room.console.warn(warning);
        }
        let console = &room.console;
        // A line for each component, the worst of a predictor first.
        let lines = || {
            all.iter().flat_map(|(source, table, one)| {
                one.worst_first().into_iter().map(move |of| (source.name(), *table, one, of))
            })
        };
        let record = || {
            let one = |(source, table, one, of): (&str, &Rows, &Assessed<'_>, &Of)| {
                json!({
                    "source": source, "feature_group": table.group.name(), "pipeline": one.pipeline, "model_name": one.model.full_name,
                    "component": of.component.name(), "rows": table.frame.len(), "mae": of.mae, "mse": of.mse, "mape": of.mape, "coverage": of.coverage,
                })
            };
            json!({ "schema": "metier.power-estimate/1", "output_type": self.on.output_type.name(), "best": best, "errors": lines().map(one).collect::<Vec<_>>() })
        };
        match console.format {
            Format::Json => console.data(|out| output::json(out, &record()))?,
            Format::Yaml => console.data(|out| output::yaml(out, &record()))?,
            Format::Csv => {
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
                let rows = lines().map(|(source, table, one, of)| {
                    vec![
                        source.to_string(),
                        table.group.name().to_string(),
                        one.pipeline.to_string(),
                        one.model.full_name.clone(),
                        of.component.name().to_string(),
                        table.frame.len().to_string(),
                        of.mae.to_string(),
                        of.mse.to_string(),
                        plain(of.mape),
                        plain(of.coverage),
                    ]
                });
                console.data(|out| output::csv(out, &header, rows))?;
            }
            Format::Table => {
                let mut table = Table::with_header(&[
                    "SOURCE",
                    "FEATURES",
                    "PIPELINE",
                    "PREDICTOR",
                    "COMPONENT",
                    "MAE",
                    "MAPE",
                    "INSIDE 90 %",
                ]);
                for (source, rows, one, of) in lines() {
                    table.row(vec![
                        Cell::text(source),
                        Cell::text(rows.group.name()),
                        Cell::text(one.pipeline),
                        Cell::text(&one.model.full_name),
                        Cell::text(of.component.name()),
                        Cell::number(format!("{:.2} W", of.mae)),
                        Cell::quantity(of.mape.map(|mape| format!("{mape:.2} %"))),
                        Cell::quantity(of.coverage.map(|share| format!("{:.1} %", share * 100.0))),
                    ]);
                }
                console.print(&table.render(console.paint))?;
                for one in &best {
                    let word = |field: &str| one[field].as_str().unwrap_or_default().to_string();
                    console.note(format!(
                        "{}: {} of {} is best",
                        word("source"),
                        word("model_name"),
                        word("feature_group")
                    ));
                }
            }
        }
        Ok(Code::OK)
    }

    /// Keeps the best: its archive, and the table with what it says.
    fn keep(
        &self,
        data: &Data,
        source: Source,
        table: &Rows,
        best: &Assessed<'_>,
    ) -> anyhow::Result<Vec<String>> {
        let folder = data.0.join(&self.paths.out);
        let mut files: Vec<PathBuf> = Vec::new();
        if let Some(archive) = &best.model.archive {
            let to = folder.join(format!("{}_model.zip", source.name()));
            files.push(data.write(&to, &archive.bytes()?)?);
        }
        let mut bytes = Vec::new();
        best.beside(&table.frame)?.write_csv(&mut bytes)?;
        let to = folder.join(format!("{}_estimation_result.csv", source.name()));
        files.push(data.write(&to, &bytes)?);
        Ok(files.iter().map(|path| path.display().to_string()).collect())
    }
}
