//! `metier power plot`: plots tables, predictions and errors.

mod panels;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use metier_power::kepler_terms::{EnergySource, OutputType};
use metier_report::figure::PlotFigure;
use serde_json::json;

use super::estimate::EstimateInputArgs;
use super::power_files::DataFolder;
use super::shared_args::PathArgs;
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, enum_word};

const EXAMPLES: &str = "Examples:
  metier power plot --target-data preprocess -p mine -e acpi -o pictures      features and power over time
  metier power plot --target-data estimate -i kepler_query -p mine -o pictures measured and predicted power
  metier power plot --target-data error -i kepler_query -p mine --picture svg errors of every predictor on these rows
  metier power plot --target-data metadata -p specpower-0.7.11.zip -e acpi    errors that a pipeline tells of itself
  metier power plot --target-data power_curve -p ec2-0.7.11.zip               power over CPU time, by node type";

/// Plot tables, predictions and errors
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerPlotArgs {
    /// What to plot
    #[arg(long, value_name = "WHAT")]
    target_data: PlotTarget,
    /// Image formats: svg, png
    #[arg(long, value_name = "FORM", value_delimiter = ',', default_value = "svg,png")]
    picture: Vec<PictureFormat>,
    #[command(flatten)]
    on: EstimateInputArgs,
    #[command(flatten)]
    paths: PathArgs,
}

/// What to plot
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlotTarget {
    // Not doc comments: those would make `--help` twice as long.
    Preprocess,
    Estimate,
    Error,
    Metadata,
    #[value(name = "power_curve", alias = "power-curve")]
    PowerCurve,
}

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PictureFormat {
    Svg,
    Png,
}

impl PowerPlotArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let figures = match self.target_data {
            PlotTarget::Preprocess => self.preprocess_figures(&data)?,
            PlotTarget::Estimate => self.estimate_figures(context, &data)?,
            PlotTarget::Error => self.error_figures(context, &data)?,
            PlotTarget::Metadata => self.pipeline_figures(context, &data, panels::metadata_figure)?,
            PlotTarget::PowerCurve => self.pipeline_figures(context, &data, panels::power_curve_figure)?,
        };
        if figures.is_empty() {
            return Err(usage_error(format!(
                "--target-data {}: nothing to draw",
                enum_word(&self.target_data)
            )));
        }
        let mut files = Vec::new();
        for (name, figure) in &figures {
            for form in &self.picture {
                let path = data.0.join(&self.paths.out).join(format!("{name}.{}", enum_word(form)));
                let bytes = match form {
                    PictureFormat::Svg => figure.to_svg().into_bytes(),
                    PictureFormat::Png => figure.to_png(),
                };
                files.push(data.write_file(&path, &bytes)?);
            }
        }
        print_files(context, &files)?;
        Ok(CliExitCode::OK)
    }

    fn output_kind(&self) -> &'static str {
        match self.on.output_type {
            OutputType::AbsPower => "abs",
            OutputType::DynPower => "dyn",
        }
    }

    /// Tables of a response, or those stored by training.
    fn preprocess_figures(&self, data: &DataFolder) -> anyhow::Result<Vec<(String, PlotFigure)>> {
        let mut figures = Vec::new();
        if self.on.input.is_some() {
            for table in self.on.load_tables(data)?.list {
                let name = format!(
                    "preprocess_{}_{}_{}",
                    self.output_kind(),
                    table.source.name(),
                    table.group.name()
                );
                figures.push((
                    name,
                    panels::preprocess_figure(table.source, table.group, self.on.output_type, &table.frame),
                ));
            }
            return Ok(figures);
        }
        let Some(pipeline) = &self.on.pipeline_name else {
            return Err(usage_error(
                "--target-data preprocess: want --pipeline-name, or --input with a query response",
            ));
        };
        let folder = data.0.join(pipeline).join("preprocessed_data");
        for source in &self.on.energy_source {
            for group in metier_power::kepler_terms::FeatureGroup::ALL {
                if self.on.feature_group.is_some_and(|only| only != group) {
                    continue;
                }
                let (extractor, isolator) =
                    (self.on.rows.extractor.name(), self.on.isolation.isolator.name());
                let name = match self.on.output_type {
                    OutputType::AbsPower => {
                        format!("preprocess_abs_{extractor}_{}_{}", source.name(), group.name())
                    }
                    OutputType::DynPower => {
                        format!("preprocess_dyn_{extractor}_{isolator}_{}_{}", source.name(), group.name())
                    }
                };
                if !folder.join(format!("{name}.csv")).is_file() {
                    continue;
                }
                let frame = DataFolder(folder.clone()).read_table("--pipeline-name", &name)?;
                figures.push((name, panels::preprocess_figure(*source, group, self.on.output_type, &frame)));
            }
        }
        match figures.is_empty() {
            true => Err(usage_error(format!(
                "--pipeline-name {pipeline}: {} has no table for these flags",
                folder.display()
            ))),
            false => Ok(figures),
        }
    }

    fn estimate_figures(
        &self,
        context: &CommandContext,
        data: &DataFolder,
    ) -> anyhow::Result<Vec<(String, PlotFigure)>> {
        self.assessed_figures(context, data, |source, all| {
            let (table, best) = all.first()?;
            let name = format!(
                "estimate_{}_{}_{}_{}",
                self.output_kind(),
                source.name(),
                table.group.name(),
                best.model.full_name
            );
            Some((name, panels::estimate_figure(source, self.on.output_type, table, best)))
        })
    }

    fn error_figures(
        &self,
        context: &CommandContext,
        data: &DataFolder,
    ) -> anyhow::Result<Vec<(String, PlotFigure)>> {
        self.assessed_figures(context, data, |source, all| {
            (!all.is_empty()).then(|| {
                let name = format!("error_{}_{}", self.output_kind(), source.name());
                (name, panels::error_figure(source, self.on.output_type, all))
            })
        })
    }

    fn assessed_figures(
        &self,
        context: &CommandContext,
        data: &DataFolder,
        draw: impl Fn(EnergySource, &[panels::AssessedTable<'_>]) -> Option<(String, PlotFigure)>,
    ) -> anyhow::Result<Vec<(String, PlotFigure)>> {
        let tried = self.on.load_inputs(context, data)?;
        let mut warnings = tried.warnings.clone();
        let mut figures = Vec::new();
        for source in &self.on.energy_source {
            let all = tried.assess_source(*source, &self.on, &mut warnings);
            figures.extend(draw(*source, &all));
        }
        for warning in warnings {
            context.console.warn(warning);
        }
        Ok(figures)
    }

    fn pipeline_figures(
        &self,
        context: &CommandContext,
        data: &DataFolder,
        draw: fn(&metier_power::pipeline::PredictorPipeline, EnergySource, OutputType) -> Option<PlotFigure>,
    ) -> anyhow::Result<Vec<(String, PlotFigure)>> {
        let mut figures = Vec::new();
        for pipeline in self.on.load_pipelines(context, data)? {
            for source in &self.on.energy_source {
                if let Some(figure) = draw(&pipeline, *source, self.on.output_type) {
                    let (target, kind) = (enum_word(&self.target_data), self.on.output_type.name());
                    figures.push((format!("{}_{}_{kind}_{target}", pipeline.name, source.name()), figure));
                }
            }
        }
        Ok(figures)
    }
}

fn print_files(context: &CommandContext, files: &[PathBuf]) -> anyhow::Result<()> {
    let console = &context.console;
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let record = || json!({ "schema": "metier.power-plot/1", "files": names });
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, &record())),
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record())),
        DataFormat::Csv => console
            .write_data(|out| output::write_csv(out, ["file"], names.iter().map(|name| vec![name.clone()]))),
        DataFormat::Table => console.print(&format!("{}\n", names.join("\n"))),
    }
}
