//! `metier power plot`: tables, predictions and errors as pictures.

mod panels;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use metier_power::vocabulary::{OutputType, Source};
use metier_report::figure::Figure;
use serde_json::json;

use super::estimate::On;
use super::files::Data;
use super::flags::Paths;
use crate::command::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Format, word};

const EXAMPLES: &str = "Examples:
  metier power plot --target-data preprocess -p mine -e acpi -o pictures      features and power over time
  metier power plot --target-data estimate -i kepler_query -p mine -o pictures measured and predicted power
  metier power plot --target-data error -i kepler_query -p mine --picture svg errors of every predictor on these rows
  metier power plot --target-data metadata -p specpower-0.7.11.zip -e acpi    errors that a pipeline tells of itself
  metier power plot --target-data power_curve -p ec2-0.7.11.zip               power over CPU time, by node type";

/// Draw tables, predictions and errors
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Plot {
    /// What is drawn
    #[arg(long, value_name = "WHAT")]
    target_data: Target,
    /// Forms of the pictures: svg, png
    #[arg(long, value_name = "FORM", value_delimiter = ',', default_value = "svg,png")]
    picture: Vec<Picture>,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    paths: Paths,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    // Not doc comments: those would make `--help` twice as long.
    Preprocess,
    Estimate,
    Error,
    Metadata,
    #[value(name = "power_curve", alias = "power-curve")]
    PowerCurve,
}

/// A form of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Picture {
    Svg,
    Png,
}

impl Plot {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let figures = match self.target_data {
            Target::Preprocess => self.preprocess(&data)?,
            Target::Estimate => self.estimate(room, &data)?,
            Target::Error => self.error(room, &data)?,
            Target::Metadata => self.of_pipeline(room, &data, panels::metadata)?,
            Target::PowerCurve => self.of_pipeline(room, &data, panels::power_curve)?,
        };
        if figures.is_empty() {
            return Err(usage(format!("--target-data {}: nothing to draw", word(&self.target_data))));
        }
        let mut files = Vec::new();
        for (name, figure) in &figures {
            for form in &self.picture {
                let path = data.0.join(&self.paths.out).join(format!("{name}.{}", word(form)));
                let bytes = match form {
                    Picture::Svg => figure.svg().into_bytes(),
                    Picture::Png => figure.png(),
                };
                files.push(data.write(&path, &bytes)?);
            }
        }
        say(room, &files)?;
        Ok(Code::OK)
    }

    fn kind(&self) -> &'static str {
        match self.on.output_type {
            OutputType::AbsPower => "abs",
            OutputType::DynPower => "dyn",
        }
    }

    /// Tables of a response, or those that training kept.
    fn preprocess(&self, data: &Data) -> anyhow::Result<Vec<(String, Figure)>> {
        let mut figures = Vec::new();
        if self.on.input.is_some() {
            for table in self.on.tables(data)?.list {
                let name =
                    format!("preprocess_{}_{}_{}", self.kind(), table.source.name(), table.group.name());
                figures.push((
                    name,
                    panels::preprocess(table.source, table.group, self.on.output_type, &table.frame),
                ));
            }
            return Ok(figures);
        }
        let Some(pipeline) = &self.on.pipeline_name else {
            return Err(usage(
                "--target-data preprocess: want --pipeline-name, or --input with a query response",
            ));
        };
        let folder = data.0.join(pipeline).join("preprocessed_data");
        for source in &self.on.energy_source {
            for group in metier_power::vocabulary::FeatureGroup::ALL {
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
                let frame = Data(folder.clone()).table("--pipeline-name", &name)?;
                figures.push((name, panels::preprocess(*source, group, self.on.output_type, &frame)));
            }
        }
        match figures.is_empty() {
            true => Err(usage(format!(
                "--pipeline-name {pipeline}: {} has no table for these flags",
                folder.display()
            ))),
            false => Ok(figures),
        }
    }

    fn estimate(&self, room: &Room, data: &Data) -> anyhow::Result<Vec<(String, Figure)>> {
        self.tried(room, data, |source, all| {
            let (table, best) = all.first()?;
            let name = format!(
                "estimate_{}_{}_{}_{}",
                self.kind(),
                source.name(),
                table.group.name(),
                best.model.full_name
            );
            Some((name, panels::estimate(source, self.on.output_type, table, best)))
        })
    }

    fn error(&self, room: &Room, data: &Data) -> anyhow::Result<Vec<(String, Figure)>> {
        self.tried(room, data, |source, all| {
            (!all.is_empty()).then(|| {
                let name = format!("error_{}_{}", self.kind(), source.name());
                (name, panels::error(source, self.on.output_type, all))
            })
        })
    }

    fn tried(
        &self,
        room: &Room,
        data: &Data,
        draw: impl Fn(Source, &[panels::Pair<'_>]) -> Option<(String, Figure)>,
    ) -> anyhow::Result<Vec<(String, Figure)>> {
        let tried = self.on.tried(room, data)?;
        let mut warnings = tried.warnings.clone();
        let mut figures = Vec::new();
        for source in &self.on.energy_source {
            let all = tried.of(*source, &self.on, &mut warnings);
            figures.extend(draw(*source, &all));
        }
        for warning in warnings {
            room.console.warn(warning);
        }
        Ok(figures)
    }

    fn of_pipeline(
        &self,
        room: &Room,
        data: &Data,
        draw: fn(&metier_power::pipeline::Pipeline, Source, OutputType) -> Option<Figure>,
    ) -> anyhow::Result<Vec<(String, Figure)>> {
        let mut figures = Vec::new();
        for pipeline in self.on.pipelines(room, data)? {
            for source in &self.on.energy_source {
                if let Some(figure) = draw(&pipeline, *source, self.on.output_type) {
                    let (target, kind) = (word(&self.target_data), self.on.output_type.name());
                    figures.push((format!("{}_{}_{kind}_{target}", pipeline.name, source.name()), figure));
                }
            }
        }
        Ok(figures)
    }
}

fn say(room: &Room, files: &[PathBuf]) -> anyhow::Result<()> {
    let console = &room.console;
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let record = || json!({ "schema": "metier.power-plot/1", "files": names });
    match console.format {
        Format::Json => console.data(|out| output::json(out, &record())),
        Format::Yaml => console.data(|out| output::yaml(out, &record())),
        Format::Csv => {
            console.data(|out| output::csv(out, &["file"], names.iter().map(|name| vec![name.clone()])))
        }
        Format::Table => console.print(&format!("{}\n", names.join("\n"))),
    }
}
