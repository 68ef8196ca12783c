//! The current figures of this board.

use std::time::Duration;

use metier_device::boards::{BoardKind, BoardSnapshot};
use metier_device::local_board::LocalBoard;
use metier_linux::KernelRoots;
use metier_types::Watts;
use serde::Serialize;

use super::log_output;
use crate::console::OutputConsole;
use crate::exit::CliExitCode;
use crate::output::{StreamPaint, TableCell, TextTable};

/// Time between two readings: loads and counters need an earlier one.
const SAMPLE_GAP: Duration = Duration::from_millis(250);

#[derive(Serialize)]
struct CurrentBoard<'a> {
    schema: &'static str,
    kind: BoardKind,
    model: Option<&'a str>,
    power_watts: Option<Watts>,
    #[serde(flatten)]
    board: &'a BoardSnapshot,
}

pub fn print_current_board(console: &OutputConsole) -> anyhow::Result<CliExitCode> {
    let mut board = LocalBoard::open(&KernelRoots::default());
    board.read_snapshot();
    std::thread::sleep(SAMPLE_GAP);
    let snapshot = board.read_snapshot();
    let now = CurrentBoard {
        schema: "metier.board/1",
        kind: board.kind,
        model: board.model.as_deref(),
        power_watts: board.device_watts(),
        board: &snapshot,
    };
    let rows = log_output::board_fields(&snapshot).into_iter().map(|(field, value)| vec![field, value]);
    console.print_record(&now, ["field", "value"], rows, |paint| board_table(&now, paint))?;
    Ok(CliExitCode::OK)
}

fn board_table(now: &CurrentBoard<'_>, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut row = |name: &str, value: String| {
        table.add_row(vec![TableCell::text(name).styled(StreamPaint::bold), TableCell::text(value)]);
    };
    let kind = match now.kind {
        BoardKind::Jetson => "Jetson",
        BoardKind::RaspberryPi => "Raspberry Pi",
        BoardKind::Other => "no board that is known by name",
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
        let clock = gpu.highest_frequency().map(|clock| format!(", {clock}")).unwrap_or_default();
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
    let none = "unknown: this host shows no power sensor; `metier doctor` shows the checks";
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
