//! Stages that an application reported, as a table: stage, count, rate, quantiles, cost per item.

use metier_types::{AppStage, Run, Seconds, StageKind};

use super::{StreamPaint, TableCell, TextTable};

/// The first stages of a run and the number of dropped ones. Empty where no stages were reported.
pub fn stages_table(run: &Run, most: usize, paint: StreamPaint) -> String {
    if run.stages.is_empty() {
        return String::new();
    }
    let has_energy = run.stages.iter().any(|stage| stage.joules_per_item.is_some());
    let mut head = vec!["STAGE", "COUNT", "RATE", "P50", "P95", "P99", "CPU/ITEM"];
    head.extend(has_energy.then_some("ENERGY/ITEM"));
    let mut table = TextTable::with_header(&head).indented(2);
    for stage in run.stages.iter().take(most) {
        let value =
            |value: Option<f64>| TableCell::quantity(value.map(|value| stage_value(stage.kind, value)));
        let mut row = vec![
            TableCell::text(stage_name(stage)).truncated(60),
            TableCell::number(stage.count.to_string()),
            TableCell::quantity(stage.rate_per_second.map(|rate| format!("{}/s", four_digits(rate)))),
            value(stage.p50),
            value(stage.p95),
            value(stage.p99),
            TableCell::quantity(stage.cpu_seconds_per_item),
        ];
        if has_energy {
            row.push(TableCell::quantity(stage.joules_per_item));
        }
        table.add_row(row);
    }
    let mut text = table.render(paint);
    if run.stages.len() > most {
        let more = run.stages.len() - most;
        text.push_str(&format!("  {}\n", paint.dim(&format!("and {more} more stages"))));
    }
    text
}

/// One line on the reception of stages; `None` where the run had no listener.
pub fn intake_line(run: &Run) -> Option<String> {
    let intake = run.intake.as_ref()?;
    let mut parts = vec![format!("{} messages", intake.messages)];
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    add(intake.dropped, "dropped");
    add(intake.malformed, "not understood");
    add(intake.beyond_limit, "of stages beyond the limit");
    let extra = |name: &str| intake.extra.get(name).and_then(|n| n.as_u64()).unwrap_or(0);
    add(extra("strangers"), "from strangers, refused");
    add(extra("refused_connections"), "connections too many");
    Some(parts.join(", "))
}

/// A stage's name with its labels.
pub fn stage_name(stage: &AppStage) -> String {
    match stage.labels.as_str() {
        "" => stage.name.clone(),
        labels => format!("{}{{{labels}}}", stage.name),
    }
}

fn stage_value(kind: StageKind, value: f64) -> String {
    match kind {
        StageKind::Duration => Seconds(value).to_string(),
        StageKind::Rate => format!("{}/s", four_digits(value)),
        _ => four_digits(value),
    }
}

/// A number with four significant digits.
fn four_digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value == 0.0 => "0".to_string(),
        _ if !(1e-4..1e9).contains(&size) => format!("{value:.3e}"),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ => {
            let digits = (3 - size.log10().floor() as i32).clamp(0, 8) as usize;
            let text = format!("{value:.digits$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
                false => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits_that_count() {
        for (value, text) in [
            (0.0, "0"),
            (29.7, "29.7"),
            (4.0, "4"),
            (123_456.7, "123457"),
            (0.012345, "0.01235"),
            (-1.5, "-1.5"),
            (1e12, "1.000e12"),
        ] {
            assert_eq!(four_digits(value), text);
        }
    }
}
