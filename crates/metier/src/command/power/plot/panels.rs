//! Panels of tables and predictors.

use std::collections::BTreeMap;

use metier_power::assess::PredictorAssessment;
use metier_power::frame::FeatureFrame;
use metier_power::kepler_terms::{
    EnergySource, FeatureGroup, OutputType, PowerComponent, PowerTrainer, main_feature,
};
use metier_power::pipeline::{PipelineModel, PredictorPipeline};
use metier_power::training::PowerTable;
use metier_report::figure::{FigurePanel, PanelContent, PlotBar, PlotFigure, PlotMark};

/// A table and a predictor tested on it.
pub type AssessedTable<'a> = (&'a PowerTable, PredictorAssessment<'a>);

/// Points of a curve of power.
const CURVE_POINTS: usize = 20;

fn line_mark(name: &str, points: Vec<(f64, f64)>) -> PlotMark {
    PlotMark { name: name.to_string(), points, is_line: true }
}

fn dot_mark(name: &str, points: Vec<(f64, f64)>) -> PlotMark {
    PlotMark { name: name.to_string(), points, is_line: false }
}

fn mark_panel(title: &str, x: &str, y: &str, marks: Vec<PlotMark>) -> FigurePanel {
    FigurePanel {
        title: title.to_string(),
        x: x.to_string(),
        y: y.to_string(),
        content: PanelContent::Marks(marks),
    }
}

/// A column over seconds since the first row, all containers of a moment together.
fn over_time(frame: &FeatureFrame, values: &[f64], is_sum: bool) -> Vec<(f64, f64)> {
    let first = frame.timestamps.first().copied().unwrap_or_default();
    let mut by_time: BTreeMap<u64, f64> = BTreeMap::new();
    for (time, value) in frame.timestamps.iter().zip(values) {
        let known = by_time.entry(time.to_bits()).or_insert(if is_sum { 0.0 } else { *value });
        if is_sum {
            *known += value;
        } else {
            *known = known.max(*value);
        }
    }
    by_time.into_iter().map(|(time, value)| (f64::from_bits(time) - first, value)).collect()
}

/// Features and power over time.
pub fn preprocess_figure(
    source: EnergySource,
    group: FeatureGroup,
    output_type: OutputType,
    frame: &FeatureFrame,
) -> PlotFigure {
    let mut panels = Vec::new();
    for name in group.features() {
        if let Some(values) = frame.column(name) {
            let marks = vec![line_mark("", over_time(frame, values, true))];
            panels.push(mark_panel(name, "seconds", "a second", marks));
        }
    }
    let power = source.components().iter().filter_map(|component| {
        let values = frame.watts(*component)?;
        Some(line_mark(component.name(), over_time(frame, &values, false)))
    });
    panels.push(mark_panel("power", "seconds", "W", power.collect()));
    let title = format!("{} {} {}", source.name(), output_type.name(), group.name());
    PlotFigure { title, panels }
}

/// Measured and predicted power over time, and both over each feature.
pub fn estimate_figure(
    source: EnergySource,
    output_type: OutputType,
    table: &PowerTable,
    best: &PredictorAssessment<'_>,
) -> PlotFigure {
    let frame = &table.frame;
    let mut panels = Vec::new();
    for assessment in &best.components {
        let measured = frame.watts(assessment.component).unwrap_or_default();
        let mape = assessment.mape.map_or(String::new(), |mape| format!(", {mape:.1} %"));
        let title = format!("{}: mean error {:.2} W{mape}", assessment.component.name(), assessment.mae);
        let marks = vec![
            line_mark("measured", over_time(frame, &measured, false)),
            line_mark("predicted", over_time(frame, &assessment.predicted, false)),
        ];
        panels.push(mark_panel(&title, "seconds", "W", marks));
    }
    for name in table.group.features() {
        let Some(values) = frame.column(name) else { continue };
        let most = values.iter().fold(0f64, |most, value| most.max(value.abs()));
        // The source's first component is its most important.
        let Some(component_assessment) = best.components.first().filter(|_| most > 0.0) else { continue };
        let measured = frame.watts(component_assessment.component).unwrap_or_default();
        let beside =
            |watts: &[f64]| values.iter().map(|value| value / most).zip(watts.iter().copied()).collect();
        let title = format!("{} over {name}", component_assessment.component.name());
        let marks = vec![
            dot_mark("measured", beside(&measured)),
            dot_mark("predicted", beside(&component_assessment.predicted)),
        ];
        panels.push(mark_panel(&title, "share of the largest value", "W", marks));
    }
    let predictor = format!("{} of {}", best.model.full_name, best.pipeline);
    let title = format!("{} {} {} by {predictor}", source.name(), output_type.name(), table.group.name());
    PlotFigure { title, panels }
}

/// The error of every predictor, smallest first.
pub fn error_figure(source: EnergySource, output_type: OutputType, all: &[AssessedTable<'_>]) -> PlotFigure {
    let mut panels = Vec::new();
    for component in source.components() {
        let mut bars: Vec<PlotBar> = all
            .iter()
            .filter_map(|(table, assessment)| {
                let of = assessment.components.iter().find(|of| of.component == *component)?;
                let name = format!("{} {}", table.group.name(), assessment.model.full_name);
                Some(PlotBar { name, value: Some(of.mae), colour: group_colour(table.group) })
            })
            .collect();
        sort_bars(&mut bars);
        panels.push(bar_panel(component.name(), bars));
    }
    PlotFigure { title: format!("errors on these rows: {} {}", source.name(), output_type.name()), panels }
}

/// The recorded errors of a pipeline's predictors.
pub fn metadata_figure(
    pipeline: &PredictorPipeline,
    source: EnergySource,
    output_type: OutputType,
) -> Option<PlotFigure> {
    let own =
        || pipeline.models.iter().filter(|model| model.source == source && model.output_type == output_type);
    own().next()?;
    let mut panels = Vec::new();
    // By trainer: the mean over node types, since some pipelines have hundreds.
    let mut by_trainer: BTreeMap<(FeatureGroup, String), Vec<f64>> = BTreeMap::new();
    for model in own() {
        let errors = by_trainer.entry((model.group, model.name.trainer.clone())).or_default();
        errors.extend(model.error("mae").filter(|error| *error >= 0.0));
    }
    for group in FeatureGroup::ALL {
        let mut bars: Vec<PlotBar> = by_trainer
            .iter()
            .filter(|((of, _), _)| *of == group)
            .map(|((_, trainer), errors)| PlotBar {
                name: match errors.len() {
                    1 => trainer.clone(),
                    count => format!("{trainer}, mean of {count}"),
                },
                value: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
                colour: group_colour(group),
            })
            .collect();
        sort_bars(&mut bars);
        if !bars.is_empty() {
            panels.push(bar_panel(group.name(), bars));
        }
    }
    let title = format!("recorded errors of {}: {} {}", pipeline.name, source.name(), output_type.name());
    Some(PlotFigure { title, panels })
}

/// Power over CPU time, one line per node type, by its best predictor with a weight form.
pub fn power_curve_figure(
    pipeline: &PredictorPipeline,
    source: EnergySource,
    output_type: OutputType,
) -> Option<PlotFigure> {
    let mut best: BTreeMap<u32, &PipelineModel> = BTreeMap::new();
    let has_weights = |model: &PipelineModel| {
        let trainer = PowerTrainer::named(&model.name.trainer);
        trainer.is_some_and(|trainer| trainer.has_weights() || trainer == PowerTrainer::Linear)
    };
    let is_curve = |model: &&PipelineModel| {
        model.source == source
            && model.output_type == output_type
            && has_weights(model)
            && model.weights.is_some()
            && model.error("mae").is_some()
    };
    let has_bpf = pipeline.models.iter().filter(is_curve).any(|model| model.group == FeatureGroup::BpfOnly);
    for model in pipeline.models.iter().filter(is_curve) {
        if has_bpf && model.group != FeatureGroup::BpfOnly {
            continue;
        }
        let error = |model: &PipelineModel| model.error("mae").unwrap_or(f64::MAX);
        let known = best.entry(model.name.node_type).or_insert(model);
        if error(model) < error(known) {
            *known = model;
        }
    }
    let mut by_component: BTreeMap<PowerComponent, (String, Vec<PlotMark>)> = BTreeMap::new();
    for (node_type, model) in best {
        let Ok(formulas) = model.formulas() else { continue };
        for (component, formula) in formulas {
            let Some(main) = main_feature(component, &formula.features) else { continue };
            let scale = formula.scale.get(main).copied().unwrap_or(1.0);
            let points = (0..=CURVE_POINTS).filter_map(|step| {
                // All features rise together, as they do under load.
                let share = step as f64 / CURVE_POINTS as f64;
                let row: Vec<f64> = formula.scale.iter().map(|scale| scale * share).collect();
                Some((scale * share, formula.watts(&row)?))
            });
            let entry =
                by_component.entry(component).or_insert_with(|| (formula.features[main].clone(), Vec::new()));
            entry.1.push(line_mark(&format!("type {node_type}"), points.collect()));
        }
    }
    let panels: Vec<FigurePanel> = source
        .components()
        .iter()
        .filter_map(|component| {
            let (feature, marks) = by_component.remove(component)?;
            let types = if marks.len() == 1 { "node type" } else { "node types" };
            let title = format!("{}, {} {types}", component.name(), marks.len());
            Some(mark_panel(&title, &format!("{feature} a second"), "W", marks))
        })
        .collect();
    let title = format!("power curves of {}: {} {}", pipeline.name, source.name(), output_type.name());
    (!panels.is_empty()).then_some(PlotFigure { title, panels })
}

fn group_colour(group: FeatureGroup) -> usize {
    FeatureGroup::ALL.iter().position(|feature_group| *feature_group == group).unwrap_or(0)
}

fn sort_bars(bars: &mut [PlotBar]) {
    let length = |bar: &PlotBar| bar.value.unwrap_or(f64::MAX);
    bars.sort_by(|bar, two| length(bar).total_cmp(&length(two)));
}

fn bar_panel(title: &str, bars: Vec<PlotBar>) -> FigurePanel {
    FigurePanel {
        title: title.to_string(),
        x: "mean absolute error, W".to_string(),
        y: String::new(),
        content: PanelContent::Bars(bars),
    }
}
