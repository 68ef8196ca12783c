//! Lines of a log and its summary, as text.

use metier_device::boards::tegrastats_log::{LineRole, RecordingClock, RecordingSummary};
use metier_device::boards::{BoardEngine, BoardSnapshot};
use metier_types::Seconds;

use super::BoardLogRow;
use crate::output::{self, StreamPaint, TableCell, TextTable};

/// A table of the main fields; JSON and CSV have all.
pub fn log_table(rows: &[BoardLogRow], paint: StreamPaint) -> String {
    let mut table =
        TextTable::with_header(&["line", "time", "cpu", "gpu", "emc", "ram", "hottest", "power", "note"]);
    for row in rows {
        let board = &row.line.board;
        let hottest = board.temperatures.iter().filter(|sensor| !sensor.placeholder);
        let hottest = hottest.filter_map(|sensor| sensor.celsius).reduce(|a, b| if b > a { b } else { a });
        table.add_row(vec![
            TableCell::number(row.number.to_string()),
            TableCell::text(row.line.stamp.map(|stamp| stamp.time().to_string()).unwrap_or_default()),
            TableCell::quantity(board.cpu_load()),
            TableCell::quantity(board.gpu_load()),
            TableCell::quantity(board.emc.as_ref().and_then(|emc| emc.load_ratio)),
            TableCell::quantity(board.ram.map(|ram| ram.used_bytes)),
            TableCell::quantity(hottest),
            TableCell::quantity(row.power_watts),
            TableCell::text(row_note(row)).truncated(60),
        ]);
    }
    table.render(paint)
}

fn row_note(row: &BoardLogRow) -> String {
    let mut notes = match row.role {
        LineRole::Sample => Vec::new(),
        LineRole::Start => vec!["recording starts".to_string()],
        LineRole::Dropped => vec!["recording starts, not counted".to_string()],
        LineRole::Foreign => vec!["no line of tegrastats".to_string()],
    };
    if !row.line.unknown.is_empty() {
        notes.push(format!("unknown: {}", row.line.unknown.join(" ")));
    }
    notes.join("; ")
}

/// The columns of [`rows`].
pub const HEADER: &str = "line,stamp,field,value";

/// Every value of a line, in base units.
pub fn rows(row: &BoardLogRow) -> impl Iterator<Item = Vec<String>> {
    let place = [row.number.to_string(), row.line.stamp.map(|stamp| stamp.to_string()).unwrap_or_default()];
    let mut values = vec![("role".to_string(), output::serialised_word(&row.role))];
    values.extend(board_fields(&row.line.board));
    values.extend(row.power_watts.map(|watts| ("power_watts".to_string(), watts.get().to_string())));
    if !row.line.unknown.is_empty() {
        values.push(("unknown".to_string(), row.line.unknown.join(" ")));
    }
    values.into_iter().map(move |(field, value)| [place.to_vec(), vec![field, value]].concat())
}

/// Fields of a board with their values, in base units.
pub fn board_fields(board: &BoardSnapshot) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = Vec::new();
    let mut add = |field: String, value: Option<String>| list.extend(value.map(|value| (field, value)));
    for (name, memory) in [("ram", board.ram), ("swap", board.swap), ("iram", board.iram)] {
        let Some(memory) = memory else { continue };
        add(format!("{name}.used_bytes"), Some(memory.used_bytes.get().to_string()));
        add(format!("{name}.total_bytes"), Some(memory.total_bytes.get().to_string()));
        add(format!("{name}.cached_bytes"), memory.cached_bytes.map(|bytes| bytes.get().to_string()));
        let free = memory.largest_free;
        add(format!("{name}.largest_free.count"), free.and_then(|free| free.count).map(|n| n.to_string()));
        add(format!("{name}.largest_free.size_bytes"), free.map(|free| free.size_bytes.get().to_string()));
    }
    for (number, core) in board.cores.iter().enumerate() {
        add(format!("cores.{number}.off"), core.off.then(|| "true".to_string()));
        add(format!("cores.{number}.load_ratio"), core.load_ratio.map(|load| load.get().to_string()));
        add(format!("cores.{number}.frequency_hertz"), core.frequency_hertz.map(|f| f.get().to_string()));
    }
    let mut engine = |group: &str, engine: &BoardEngine| {
        let name = &engine.name;
        add(format!("{group}.{name}.off"), engine.off.then(|| "true".to_string()));
        add(format!("{group}.{name}.load_ratio"), engine.load_ratio.map(|load| load.get().to_string()));
        for (number, clock) in engine.frequencies_hertz.iter().enumerate() {
            add(format!("{group}.{name}.frequencies_hertz.{number}"), Some(clock.get().to_string()));
        }
    };
    board.emc.iter().for_each(|emc| engine("emc", emc));
    board.gpus.iter().for_each(|gpu| engine("gpus", gpu));
    board.engines.iter().for_each(|board_engine| engine("engines", board_engine));
    if let Some(mts) = board.mts {
        add("mts.foreground_ratio".into(), Some(mts.foreground.get().to_string()));
        add("mts.background_ratio".into(), mts.background.map(|share| share.get().to_string()));
    }
    for sensor in &board.temperatures {
        let kind = if sensor.placeholder { "placeholders" } else { "temperatures" };
        let celsius = sensor.celsius.map_or("off".to_string(), |celsius| celsius.get().to_string());
        add(format!("{kind}.{}.celsius", sensor.name), Some(celsius));
        let largest = sensor.largest_celsius.map(|celsius| celsius.get().to_string());
        add(format!("{kind}.{}.largest_celsius", sensor.name), largest);
    }
    for rail in &board.rails {
        add(format!("rails.{}.watts", rail.name), Some(rail.now.get().to_string()));
        add(format!("rails.{}.mean_watts", rail.name), rail.mean.map(|watts| watts.get().to_string()));
        add(format!("rails.{}.peak_watts", rail.name), rail.peak.map(|watts| watts.get().to_string()));
    }
    if let Some(held) = board.throttling {
        add("throttling.is_active".into(), Some(held.is_active().to_string()));
        add("throttling.since_boot".into(), Some(held.since_boot.to_string()));
    }
    list
}

/// Summary of a log, as text.
pub fn summary_table(summary: &RecordingSummary, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut row = |name: &str, value: String| {
        table.add_row(vec![TableCell::text(name).styled(StreamPaint::bold), TableCell::text(value)]);
    };
    let mut lines = format!("{} samples in {} lines", summary.samples, summary.lines);
    for (count, what) in [
        (summary.dropped, "first of a recording and empty, not counted"),
        (summary.foreign, "not of tegrastats"),
    ] {
        if count > 0 {
            lines.push_str(&format!("; {count} {what}"));
        }
    }
    row("lines", lines);
    row("starts", format!("{} seen", summary.starts));
    if let (Some(from), Some(to)) = (summary.from, summary.to) {
        row("stamps", format!("{from} to {to}"));
    }
    match summary.energy {
        None => row("power", "the lines show no rails that make up the board".into()),
        Some(energy) => {
            let rails = summary.power_rails.join(" + ");
            row("power", format!("{} mean, {} peak ({rails})", energy.mean_watts, energy.peak_watts));
            row("energy", format!("{} ± {} over {}", energy.joules, energy.error(), energy.covered));
            row(
                "",
                format!(
                    "aliasing {}: how far the sum moves with every second line left out",
                    energy.aliasing_joules
                ),
            );
            row(
                "",
                format!(
                    "at most {} while power stays between neighbouring lines, {} apart",
                    energy.bound_joules, energy.interval_seconds
                ),
            );
            row("", format!("clock {}: {}", energy.clock_joules, describe_clock(summary.clock)));
            if energy.stretches > 1 {
                row("", format!("{} stretches; what lay between them is not counted", energy.stretches));
            }
        }
    }
    for (name, rail) in &summary.rails {
        row(name, format!("{} mean, {} peak", rail.mean_watts, rail.peak_watts));
    }
    let known =
        |value: Option<&dyn std::fmt::Display>| value.map_or("unknown".to_string(), |v| v.to_string());
    row(
        "cpu",
        format!("{} mean of the cores that were on", known(summary.cpu_load_ratio.as_ref().map(|v| v as _))),
    );
    let gpu = [summary.gpu_load_ratio, summary.gpu_peak_ratio];
    let [mean, peak] = gpu.map(|share| share.map_or("unknown".to_string(), |share| share.to_string()));
    row("gpu", format!("{mean} mean, {peak} peak"));
    row("ram", format!("{} peak", known(summary.peak_ram_bytes.as_ref().map(|v| v as _))));
    row("hottest", known(summary.peak_celsius.as_ref().map(|v| v as _)));
    if !summary.unknown.is_empty() {
        row("unknown", summary.unknown.join(" "));
    }
    table.render(paint)
}

fn describe_clock(clock: RecordingClock) -> String {
    match clock {
        RecordingClock::Receipt => "times were taken on receipt".into(),
        RecordingClock::Stamps => format!("stamps are whole seconds, up to {} off in all", Seconds(1.0)),
        RecordingClock::Interval => "no stamps; the interval is assumed and may be 3 % off".into(),
    }
}
