//! The training tables: one for each source, feature group and output type.

use super::{PipelinePlan, TrainingKnowledge};
use crate::Error;
use crate::extract::{self, ExtractSettings};
use crate::frame::FeatureFrame;
use crate::isolate::{self, BackgroundPredictor, PowerIsolator, TableSubject};
use crate::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use crate::pipeline::PredictorPipeline;

/// A table with its source, group and output type.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerTable {
    /// Where energy was read.
    pub source: EnergySource,
    /// Whether idle power is included.
    pub output_type: OutputType,
    pub group: FeatureGroup,
    pub frame: FeatureFrame,
}

/// All tables of a response.
#[derive(Debug, Clone, Default)]
pub struct PowerTables {
    pub list: Vec<PowerTable>,
    /// Messages about tables that could not be made.
    pub warnings: Vec<String>,
}

/// Makes all tables. A group without rows is skipped with a warning; a missing source, or no
/// complete group, is an error.
pub fn tables(
    response: &crate::response::KeplerResponse,
    known: TrainingKnowledge<'_>,
    plan: &PipelinePlan,
    node_type: u32,
) -> Result<PowerTables, Error> {
    let whole = extract::groups(response, plan.vm);
    if let Some(group) = plan.groups.iter().find(|group| !whole.contains(group)) {
        return Err(not_whole(response, *group, plan.vm));
    }
    let groups = if plan.groups.is_empty() { whole } else { plan.groups.clone() };
    if groups.is_empty() {
        return Err(Error::table({
            let names: Vec<String> = FeatureGroup::BpfOnly
                .features()
                .iter()
                .map(|feature| extract::metric(feature, plan.vm))
                .collect();
            let names = names.join(" and ");
            format!("the response has all metrics of no feature group; BPFOnly wants {names}")
        }));
    }
    let there = extract::sources(response);
    if let Some(source) = plan.sources.iter().find(|source| !plan.vm && !there.contains(source)) {
        let names: Vec<&str> = there.iter().map(|source| source.name()).collect();
        return Err(Error::Word {
            field: "energy source",
            got: source.name().to_string(),
            want: match names.is_empty() {
                true => "a response with kepler_node_…_joules_total of some source".to_string(),
                false => format!("a source of the response: {}", names.join(", ")),
            },
        });
    }
    let mut tables = PowerTables::default();
    for source in &plan.sources {
        for group in &groups {
            let settings = ExtractSettings {
                vm: plan.vm,
                node_type,
                timing: plan.timing,
                extractor: plan.extractor,
                ..ExtractSettings::new(*source, *group)
            };
            if !plan.abs_trainers.is_empty() {
                let frame = extract::extract(response, &settings)?.frame;
                tables.add(*source, OutputType::AbsPower, *group, frame);
            }
            if !plan.dyn_trainers.is_empty() {
                let settings = ExtractSettings { by_container: true, ..settings };
                let frame = extract::extract(response, &settings)?.frame;
                let about = TableSubject { source: *source, group: *group };
                match isolate_power(&frame, about, known, plan)? {
                    Some(frame) => tables.add(*source, OutputType::DynPower, *group, frame),
                    None => tables.warnings.push(format!(
                        "{} {}: isolator {} gives no DynPower rows",
                        source.name(),
                        group.name(),
                        plan.isolator.name()
                    )),
                }
            }
        }
    }
    match tables.list.is_empty() {
        true => Err(Error::table(format!("no table has rows: {}", tables.warnings.join("; ")))),
        false => Ok(tables),
    }
}

impl PowerTables {
    /// Appends the rows of other tables to those of the same kind; tables of new kinds are added.
    pub fn append(&mut self, others: Self) -> Result<(), Error> {
        for other in others.list {
            let is_same = |table: &&mut PowerTable| {
                (table.source, table.output_type, table.group)
                    == (other.source, other.output_type, other.group)
            };
            match self.list.iter_mut().find(is_same) {
                Some(table) => table.frame.append(&other.frame)?,
                None => self.list.push(other),
            }
        }
        self.warnings.extend(others.warnings);
        Ok(())
    }

    fn add(
        &mut self,
        source: EnergySource,
        output_type: OutputType,
        group: FeatureGroup,
        frame: FeatureFrame,
    ) {
        if frame.is_empty() {
            let (source, kind, group) = (source.name(), output_type.name(), group.name());
            self.warnings.push(format!("{source} {kind} {group}: no rows"));
        } else {
            self.list.push(PowerTable { source, output_type, group, frame });
        }
    }
}

/// Error for a third-party group without configured names.
fn no_names(group: FeatureGroup) -> Error {
    let want = "names of metrics in thirdparty-metrics, or another group".to_string();
    Error::Word { field: "feature group", got: group.name().to_string(), want }
}

fn not_whole(response: &crate::response::KeplerResponse, group: FeatureGroup, vm: bool) -> Error {
    if group.features().is_empty() {
        return no_names(group);
    }
    let is_missing = |feature: &&&str| !response.has(&extract::metric(feature, vm));
    let missing: Vec<String> =
        group.features().iter().filter(is_missing).map(|feature| extract::metric(feature, vm)).collect();
    Error::Word {
        field: "feature group",
        got: group.name().to_string(),
        want: format!("a response with {}", missing.join(", ")),
    }
}

/// The table without idle and background power. `None` if the isolator does not apply.
pub fn isolate_power(
    frame: &FeatureFrame,
    about: TableSubject,
    known: TrainingKnowledge<'_>,
    plan: &PipelinePlan,
) -> Result<Option<FeatureFrame>, Error> {
    match plan.isolator {
        PowerIsolator::None => isolate::sum_containers(frame, about).map(Some),
        PowerIsolator::Min => isolate::subtract_minimum(frame, about).map(Some),
        PowerIsolator::Joint => isolate::isolate_jointly(frame, about, &plan.hints).map(Some),
        PowerIsolator::Profile => {
            let Some(idle) = known.idle else {
                return Err(Error::table("isolator profile wants a profile of the idle machine"));
            };
            let Some(profile) = idle.levels.get(&about.source) else {
                let source = about.source.name();
                return Err(Error::table(format!("the profile of the idle machine has no source {source}")));
            };
            isolate::subtract_profile(frame, about, profile, &idle.background)
        }
        PowerIsolator::Trainer => {
            let Some(pipeline) = known.judges else {
                return Err(Error::table("isolator trainer wants a pipeline of AbsPower predictors"));
            };
            isolate::subtract_predicted(frame, about, &plan.hints, &judges(pipeline, about.source))
        }
    }
}

/// The usable AbsPower predictors of a pipeline.
pub fn judges(pipeline: &PredictorPipeline, source: EnergySource) -> Vec<BackgroundPredictor> {
    let models = pipeline.models.iter().filter(|model| {
        model.output_type == OutputType::AbsPower && model.source == source && model.is_usable()
    });
    let judge = |model: &crate::pipeline::PipelineModel| {
        Some(BackgroundPredictor { formulas: model.formulas().ok()?, mae: model.error("mae")? })
    };
    models.filter_map(judge).collect()
}

/// Checks a table for training: all columns are present, and every cell is a number.
pub fn check(frame: &FeatureFrame, source: EnergySource, group: FeatureGroup) -> Result<(), Error> {
    if group.features().is_empty() {
        return Err(no_names(group));
    }
    let watts = source.components().iter().map(|component| component.column());
    let names = group.features().iter().map(ToString::to_string).chain(watts);
    for name in names {
        let is_watts = name.ends_with("_power");
        if is_watts
            && frame.column(&name).is_none()
            && frame.names().any(|other| other.ends_with(&format!("_{name}")))
        {
            continue;
        }
        let values = frame.need(&name)?;
        if let Some(row) = values.iter().position(|value| !value.is_finite()) {
            let why = format!("row {}: {name} is empty or not a number; want a finite number", row + 1);
            return Err(Error::table(why));
        }
    }
    Ok(())
}
