//! A picture of series with their changes of level and forecasts.

use metier_report::figure::{FigurePanel, PanelContent, PlotFigure, PlotMark};
use metier_types::Seconds;

use crate::command::signal::AnalysedColumn;
use crate::output::serialised_word;

/// Most panels of a picture.
const MAX_PANELS: usize = metier_report::figure::MAX_PANELS;

/// Draws one panel for each analysed column.
pub fn draw_signals(found: &[AnalysedColumn]) -> String {
    let panels = found.iter().filter_map(draw_panel).take(MAX_PANELS).collect();
    PlotFigure { title: "Pattern and forecast".to_string(), panels }.to_svg()
}

fn draw_panel(column: &AnalysedColumn) -> Option<FigurePanel> {
    let AnalysedColumn { record, series } = column;
    let series = series.as_ref()?;
    let kind = serialised_word(&record.kind?).replace('_', " ");
    let period =
        record.period_seconds.map(|period| format!(", period {}", Seconds(period))).unwrap_or_default();
    let mut title = format!("{}: {kind}{period}", record.name);
    if !record.changes.is_empty() {
        title.push_str(&format!(", level changes: {}", record.changes.len()));
    }
    let line =
        |name: &str, points: Vec<(f64, f64)>| PlotMark { name: name.to_string(), points, is_line: true };
    let values = series.values.iter().enumerate();
    let origin = series.start;
    let mut marks = vec![line(
        "measured",
        values.map(|(at, value)| (series.time_at(at as f64) - origin, *value)).collect(),
    )];
    let nearest = |time: f64| ((time - series.start) / series.step).round().max(0.0) as usize;
    if !record.changes.is_empty() {
        let points = record
            .changes
            .iter()
            .filter_map(|time| Some((time - origin, *series.values.get(nearest(*time))?)))
            .collect();
        marks.push(PlotMark { name: "change of level".to_string(), points, is_line: false });
    }
    if let (Some(forecast), Some([_, last])) = (&record.forecast, record.range_seconds) {
        let at = |after: f64| last + after - origin;
        let mean = forecast.steps.iter().map(|step| (at(step.after_seconds), step.mean)).collect();
        marks.push(line("forecast", mean));
        for index in [0, forecast.quantiles.len().saturating_sub(1)] {
            let Some(level) = forecast.quantiles.get(index) else { continue };
            let points = forecast
                .steps
                .iter()
                .filter_map(|step| Some((at(step.after_seconds), *step.quantiles.get(index)?)))
                .collect();
            marks.push(line(&format!("{:.3} quantile", level), points));
        }
    }
    Some(FigurePanel {
        title,
        x: "seconds".to_string(),
        y: String::new(),
        content: PanelContent::Marks(marks),
    })
}
