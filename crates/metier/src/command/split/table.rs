//! A report of `metier split` as tables.

use metier_predict::splitting::{SplitPlan, SplitReport, Total};
use metier_types::{Bytes, Prediction, Seconds};

use crate::command::inspect::big;
use crate::output::{Cell, Paint, Table, plain};

/// The parts, and where there are devices the time of each part on each.
pub fn text(report: &SplitReport, paint: Paint) -> String {
    let times = report.plan.as_ref().map(|plan| times(report, plan, paint));
    parts(report, paint) + &times.unwrap_or_default()
}

/// One line for each part, for a spreadsheet.
pub fn rows(report: &SplitReport) -> impl Iterator<Item = Vec<String>> {
    report.parts.iter().enumerate().map(|(number, one)| {
        let own = one.own_prediction(report.plan.as_ref());
        vec![
            (number + 1).to_string(),
            one.operators.to_string(),
            plain(one.multiply_adds),
            one.parameters.to_string(),
            one.file_bytes.to_string(),
            plain(one.sent_bytes.map(Bytes::get)),
            plain(one.send_seconds.map(Seconds::get)),
            plain(one.file.as_ref().map(|file| file.display())),
            plain(one.device.as_ref()),
            plain(own.map(Prediction::value)),
            plain(own.map(|own| own.interval().low())),
            plain(own.map(|own| own.interval().high())),
        ]
    })
}

fn parts(report: &SplitReport, paint: Paint) -> String {
    let mut header = vec!["PART", "OPERATORS", "MULTIPLY-ADDS", "PARAMETERS", "FILE"];
    if report.plan.is_some() {
        header.extend(["DEVICE", "TAKES"]);
    }
    header.extend(["SENDS", "IN"]);
    let is_written = report.parts.iter().any(|one| one.file.is_some());
    if is_written {
        header.push("WRITTEN TO");
    }
    let mut table = Table::with_header(&header);
    for (number, one) in report.parts.iter().enumerate() {
        let mut cells = vec![
            Cell::number((number + 1).to_string()),
            Cell::number(one.operators.to_string()),
            Cell::quantity(one.multiply_adds.map(big)),
            Cell::number(big(one.parameters)),
            Cell::number(Bytes(one.file_bytes).to_string()),
        ];
        if let Some(plan) = &report.plan {
            cells.push(Cell::text(one.device.as_deref().unwrap_or("–")).at_most(36));
            cells.push(
                Cell::quantity(one.own_prediction(Some(plan)).map(|own| Seconds(own.value())))
                    .styled(Paint::bold),
            );
        }
        cells.extend([Cell::quantity(one.sent_bytes), Cell::quantity(one.send_seconds)]);
        if is_written {
            cells.push(Cell::text(one.file.as_ref().map_or("–".into(), |file| file.display().to_string())));
        }
        table.row(cells);
    }
    table.render(paint)
}

/// Each part on each device, and what it comes to.
fn times(report: &SplitReport, plan: &SplitPlan, paint: Paint) -> String {
    let mut header = vec!["DEVICE".to_string()];
    header.extend((1..=report.parts.len()).map(|number| format!("PART {number}")));
    let with_alone = report.parts.len() > 1 || plan.devices.len() > 1;
    if with_alone {
        header.push("WHOLE, SENDINGS TOO".to_string());
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::with_header(&header);
    for (at, device) in plan.devices.iter().enumerate() {
        let mut cells = vec![Cell::text(&device.name).at_most(36)];
        for part in &report.parts {
            let cell = match part.predictions.get(at).and_then(Option::as_ref) {
                Some(one) => {
                    let interval = one.interval();
                    within(Seconds(one.value()), Seconds(interval.low()), Seconds(interval.high()))
                }
                None => "–".to_string(),
            };
            let is_own = part.device.as_ref() == Some(&device.name);
            cells.push(if is_own { Cell::number(cell).styled(Paint::bold) } else { Cell::number(cell) });
        }
        if with_alone {
            cells.push(Cell::number(match device.alone {
                Some(all) => within(all.seconds, all.low, all.high),
                None => "no room".to_string(),
            }));
        }
        table.row(cells);
    }
    let mut text = format!("\n{}\n{}", paint.bold("Predicted time, 9 of 10 between"), table.render(paint));
    let Total { seconds, low, high } = plan.total;
    let what = match plan.goal {
        "latency" => "From input to result",
        _ => "Between two results of a full pipeline",
    };
    let input = plan.input_sent.as_ref();
    let input =
        input.map(|sent| format!(", {} of it for the input ({}) to {}", sent.seconds, sent.bytes, sent.to));
    text.push_str(&format!(
        "\n{what}: {} ({low} – {high}){}\n",
        paint.bold(&seconds.to_string()),
        input.unwrap_or_default()
    ));
    let used: std::collections::BTreeSet<_> =
        report.parts.iter().filter_map(|one| one.device.as_ref()).collect();
    if let (1, Some(only), true) = (used.len(), used.first(), plan.devices.len() > 1) {
        text.push_str(&paint.dim(&format!("no cut is predicted to be faster than {only} alone\n")));
    }
    text
}
fn within(value: Seconds, low: Seconds, high: Seconds) -> String {
    format!("{value} ({low} – {high})")
}

/// The columns of [`rows`].
pub const HEADER: &str = "\
    part,operators,multiply_adds,parameters,file_bytes,sent_bytes,send_seconds,file,device,seconds,\
    low,high";
