//! A report of `metier split` as tables.

use metier_predict::splitting::{SplitPlan, SplitReport, SplitTotal};
use metier_types::{Bytes, Prediction, Seconds};

use crate::command::inspect::short_count;
use crate::output::{StreamPaint, TableCell, TextTable, csv_cell};

/// The parts, with the time of each part on each device.
pub fn report_text(report: &SplitReport, paint: StreamPaint) -> String {
    let times = report.plan.as_ref().map(|plan| times_table(report, plan, paint));
    parts_table(report, paint) + &times.unwrap_or_default()
}

/// One row for each part, for CSV.
pub fn csv_rows(report: &SplitReport) -> impl Iterator<Item = Vec<String>> {
    report.parts.iter().enumerate().map(|(number, part)| {
        let own = part.own_prediction(report.plan.as_ref());
        vec![
            (number + 1).to_string(),
            part.operators.to_string(),
            csv_cell(part.multiply_adds),
            part.parameters.to_string(),
            part.file_bytes.to_string(),
            csv_cell(part.sent_bytes.map(Bytes::get)),
            csv_cell(part.send_seconds.map(Seconds::get)),
            csv_cell(part.file.as_ref().map(|file| file.display())),
            csv_cell(part.device.as_ref()),
            csv_cell(own.map(Prediction::value)),
            csv_cell(own.map(|own| own.interval().low())),
            csv_cell(own.map(|own| own.interval().high())),
        ]
    })
}

fn parts_table(report: &SplitReport, paint: StreamPaint) -> String {
    let mut header = vec!["PART", "OPERATORS", "MULTIPLY-ADDS", "PARAMETERS", "FILE"];
    if report.plan.is_some() {
        header.extend(["DEVICE", "TAKES"]);
    }
    header.extend(["SENDS", "IN"]);
    let is_written = report.parts.iter().any(|part| part.file.is_some());
    if is_written {
        header.push("WRITTEN TO");
    }
    let mut table = TextTable::with_header(&header);
    for (number, part) in report.parts.iter().enumerate() {
        let mut cells = vec![
            TableCell::number((number + 1).to_string()),
            TableCell::number(part.operators.to_string()),
            TableCell::quantity(part.multiply_adds.map(short_count)),
            TableCell::number(short_count(part.parameters)),
            TableCell::number(Bytes(part.file_bytes).to_string()),
        ];
        if let Some(plan) = &report.plan {
            cells.push(TableCell::text(part.device.as_deref().unwrap_or("–")).truncated(36));
            cells.push(
                TableCell::quantity(part.own_prediction(Some(plan)).map(|own| Seconds(own.value())))
                    .styled(StreamPaint::bold),
            );
        }
        cells.extend([TableCell::quantity(part.sent_bytes), TableCell::quantity(part.send_seconds)]);
        if is_written {
            cells.push(TableCell::text(
                part.file.as_ref().map_or("–".into(), |file| file.display().to_string()),
            ));
        }
        table.add_row(cells);
    }
    table.render(paint)
}

/// Each part on each device, and the total.
fn times_table(report: &SplitReport, plan: &SplitPlan, paint: StreamPaint) -> String {
    let mut header = vec!["DEVICE".to_string()];
    header.extend((1..=report.parts.len()).map(|number| format!("PART {number}")));
    let with_alone = report.parts.len() > 1 || plan.devices.len() > 1;
    if with_alone {
        header.push("WHOLE, SENDINGS TOO".to_string());
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = TextTable::with_header(&header);
    for (at, device) in plan.devices.iter().enumerate() {
        let mut cells = vec![TableCell::text(&device.name).truncated(36)];
        for part in &report.parts {
            let cell = match part.predictions.get(at).and_then(Option::as_ref) {
                Some(prediction) => {
                    let interval = prediction.interval();
                    interval_text(
                        Seconds(prediction.value()),
                        Seconds(interval.low()),
                        Seconds(interval.high()),
                    )
                }
                None => "–".to_string(),
            };
            let is_own = part.device.as_ref() == Some(&device.name);
            cells.push(if is_own {
                TableCell::number(cell).styled(StreamPaint::bold)
            } else {
                TableCell::number(cell)
            });
        }
        if with_alone {
            cells.push(TableCell::number(match device.alone {
                Some(all) => interval_text(all.seconds, all.low, all.high),
                None => "no room".to_string(),
            }));
        }
        table.add_row(cells);
    }
    let mut text = format!("\n{}\n{}", paint.bold("Predicted time, 9 of 10 between"), table.render(paint));
    let SplitTotal { seconds, low, high } = plan.total;
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
        report.parts.iter().filter_map(|part| part.device.as_ref()).collect();
    if let (1, Some(only), true) = (used.len(), used.first(), plan.devices.len() > 1) {
        text.push_str(&paint.dim(&format!("no cut is predicted to be faster than {only} alone\n")));
    }
    text
}
fn interval_text(value: Seconds, low: Seconds, high: Seconds) -> String {
    format!("{value} ({low} – {high})")
}

/// The columns of [`rows`].
pub const HEADER: &str = "\
    part,operators,multiply_adds,parameters,file_bytes,sent_bytes,send_seconds,file,device,seconds,\
    low,high";
