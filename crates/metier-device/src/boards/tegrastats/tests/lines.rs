//! Every value of the recorded lines, checked by hand: one row per line, one column per field, in
//! `lines_expected.tsv`.

use metier_types::{Bytes, Celsius, Hertz, Watts};

use super::super::super::{BoardCore, BoardTemperature, FreeBlocks};
use super::*;

const EXPECTED: &str = include_str!("../../../../tests/fixtures/boards/lines_expected.tsv");
/// Recorded lines, and values in their rows.
const COUNT: (usize, usize) = (15, 546);

/// The fields of a line in the columns of the table, without its id and name. No field is omitted.
fn fields(line: &TegrastatsLine) -> Vec<String> {
    let board = &line.board;
    assert_eq!(board.throttling, None);
    vec![
        line.stamp.map_or("-".to_string(), |stamp| stamp.to_string()),
        optional(board.ram.as_ref(), memory),
        optional(board.swap.as_ref(), memory),
        optional(board.iram.as_ref(), memory),
        list(&board.cores, core),
        optional(board.emc.as_ref(), engine),
        list(&board.gpus, engine),
        list(&board.engines, engine),
        optional(board.mts.as_ref(), |mts| format!("{}/{}", mts.foreground.get(), ratio(mts.background))),
        list(&board.temperatures, temperature),
        list(&board.rails, rail),
        optional(board.power().as_ref(), |watts| watts.get().to_string()),
        list(&line.unknown, String::clone),
    ]
}

fn optional<T>(field: Option<&T>, text: impl Fn(&T) -> String) -> String {
    field.map_or("-".to_string(), text)
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    if items.is_empty() { "-".to_string() } else { items.iter().map(text).collect::<Vec<_>>().join(" ") }
}

/// `used/total`, then `,NxSIZE` of the largest free blocks and `,cached SIZE`.
fn memory(memory: &BoardMemory) -> String {
    let mut text = format!("{}/{}", bytes(memory.used_bytes), bytes(memory.total_bytes));
    if let Some(FreeBlocks { count, size_bytes }) = memory.largest_free {
        text +=
            &format!(",{}x{}", count.map_or("?".to_string(), |count| count.to_string()), bytes(size_bytes));
    }
    text + &memory.cached_bytes.map(|cached| format!(",cached {}", bytes(cached))).unwrap_or_default()
}

fn bytes(Bytes(bytes): Bytes) -> String {
    match bytes {
        0 => "0".to_string(),
        _ if bytes % MB == 0 => format!("{}M", bytes / MB),
        _ if bytes % KB == 0 => format!("{}K", bytes / KB),
        _ => bytes.to_string(),
    }
}

fn core(core: &BoardCore) -> String {
    state(core.off, core.load_ratio, core.frequency_hertz.as_slice())
}

fn engine(engine: &BoardEngine) -> String {
    format!("{}={}", engine.name, state(engine.off, engine.load_ratio, &engine.frequencies_hertz))
}

/// `off`, or `load@MHz,MHz`.
fn state(off: bool, load: Option<Ratio>, clocks: &[Hertz]) -> String {
    if off && load.is_none() && clocks.is_empty() {
        return "off".to_string();
    }
    let clocks: Vec<String> = clocks.iter().map(|clock| (clock.get() / 1e6).to_string()).collect();
    format!("{}{}@{}", if off { "off " } else { "" }, ratio(load), clocks.join(","))
}

fn ratio(load: Option<Ratio>) -> String {
    optional(load.as_ref(), |load| load.get().to_string())
}

/// `name=celsius`, then `,max CELSIUS` and `,placeholder`.
fn temperature(sensor: &BoardTemperature) -> String {
    let celsius = |celsius: &Celsius| celsius.get().to_string();
    let largest = sensor.largest_celsius.map(|largest| format!(",max {}", celsius(&largest)));
    let placeholder = if sensor.placeholder { ",placeholder" } else { "" };
    let now = optional(sensor.celsius.as_ref(), celsius);
    format!("{}={now}{}{placeholder}", sensor.name, largest.unwrap_or_default())
}

/// `name=now/mean`, then `,peak WATTS`.
fn rail(rail: &PowerRail) -> String {
    let watts = |watts: &Watts| watts.get().to_string();
    let peak = rail.peak.map(|peak| format!(",peak {}", watts(&peak)));
    format!(
        "{}={}/{}{}",
        rail.name,
        watts(&rail.now),
        optional(rail.mean.as_ref(), watts),
        peak.unwrap_or_default()
    )
}

#[test]
fn every_recorded_line_has_the_values_of_its_row() {
    let mut rows = EXPECTED.lines();
    let columns: Vec<&str> = rows.next().unwrap().split('\t').collect();
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('\t').collect()).collect();
    let values = rows.iter().flatten().filter(|value| **value != "-").flat_map(|cell| cell.split([' ', ',']));
    assert_eq!((rows.len(), values.count()), COUNT, "rows and values of the table");
    let mut differences = Vec::new();
    for row in &rows {
        assert_eq!(row.len(), columns.len(), "{}", row[0]);
        let Some(text) = recorded::line(row[0]) else { return };
        let got = fields(&TegrastatsLine::parse(&text));
        for ((column, want), got) in columns.iter().zip(row).skip(2).zip(got) {
            if got != *want {
                differences.push(format!("{} ({}) {column}: got {got}; want {want}", row[0], row[1]));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
