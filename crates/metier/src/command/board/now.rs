//! This board now.

use std::time::Duration;

use metier_device::boards::{Kind, Snapshot};
use metier_device::local_board::Board;
use metier_linux::Roots;
use metier_types::Watts;
use serde::Serialize;

use super::lines;
use crate::console::Console;
use crate::exit::Code;
use crate::output::{Cell, Paint, Table};

/// Between two looks: loads and counters need an earlier one.
const BETWEEN: Duration = Duration::from_millis(250);

#[derive(Serialize)]
struct Now<'a> {
    schema: &'static str,
    kind: Kind,
    model: Option<&'a str>,
    power_watts: Option<Watts>,
    #[serde(flatten)]
    board: &'a Snapshot,
}

pub fn show(console: &Console) -> anyhow::Result<Code> {
    let mut board = Board::open(&Roots::default());
    board.snapshot();
    std::thread::sleep(BETWEEN);
    let snapshot = board.snapshot();
    let now = Now {
        schema: "metier.board/1",
        kind: board.kind,
        model: board.model.as_deref(),
        power_watts: board.power(),
        board: &snapshot,
    };
    let rows = lines::of(&snapshot).into_iter().map(|(field, value)| vec![field, value]);
    console.show(&now, ["field", "value"], rows, |paint| table(&now, paint))?;
    Ok(Code::OK)
}

fn table(now: &Now<'_>, paint: Paint) -> String {
    let mut table = Table::default();
    let mut row = |name: &str, value: String| {
        table.row(vec![Cell::text(name).styled(Paint::bold), Cell::text(value)]);
    };
    let kind = match now.kind {
        Kind::Jetson => "Jetson",
        Kind::RaspberryPi => "Raspberry Pi",
        Kind::Other => "no board that is known by name",
    };
    row("board", now.model.map_or(kind.to_string(), |model| format!("{model} ({kind})")));
    let board = now.board;
    for (number, core) in board.cores.iter().enumerate() {
        let text = match (core.off, core.load_ratio, core.frequency_hertz) {
            (true, ..) => "off".to_string(),
            (_, None, None) => "on".to_string(),
            (_, load, clock) => [load.map(|l| l.to_string()), clock.map(|c| c.to_string())]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        };
        row(&format!("core {number}"), text);
    }
    for gpu in &board.gpus {
        let load = gpu.load_ratio.map_or("load unknown".to_string(), |load| load.to_string());
        let clock = gpu.frequency().map(|clock| format!(", {clock}")).unwrap_or_default();
        row("gpu", format!("{load}{clock} ({})", gpu.name));
    }
    if let Some(ram) = board.ram {
        row("ram", format!("{} of {}", ram.used_bytes, ram.total_bytes));
    }
    if let Some(swap) = board.swap {
        row("swap", format!("{} of {}", swap.used_bytes, swap.total_bytes));
    }
    for sensor in board.temperatures.iter().filter(|sensor| !sensor.placeholder) {
        row(&sensor.name, sensor.celsius.map_or("off".to_string(), |celsius| celsius.to_string()));
    }
    for rail in &board.rails {
        row(&rail.name, rail.now.to_string());
    }
    let none = "unknown: this host shows no power sensor; `metier doctor` tells more";
    row("power", now.power_watts.map_or(none.to_string(), |watts| watts.to_string()));
    if let Some(held) = board.throttling {
        let state = match (held.is_active(), held.since_boot) {
            (true, _) if held.under_voltage => "now, the supply is too weak",
            (true, _) => "now",
            (false, true) => "not now, but since the board started",
            (false, false) => "no",
        };
        row("held back", state.into());
    }
    table.render(paint)
}
