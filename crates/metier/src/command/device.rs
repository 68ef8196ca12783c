//! `metier device`: who this device is, and which others the store knows.

use clap::{Args, Subcommand};
use metier_measure::Roots;
use metier_types::{Device as Record, Timestamp};
use serde_json::json;

use super::Room;
use crate::config::data_folder;
use crate::exit::Code;
use crate::output::{self, Cell, Format, Paint, Table, figures, plain, word_of};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier device                  this device
  metier device list             all devices that the store knows
  metier device show NAME        one of them
  metier device -o json          the record (metier.device/1)";

/// Show this device, or those that the store knows
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Device {
    #[command(subcommand)]
    then: Option<Then>,
}

#[derive(Debug, Subcommand)]
enum Then {
    /// List the devices that the store knows
    #[command(before_help = "Examples:\n  metier device list -o csv")]
    List,
    /// Show one of them
    #[command(before_help = "Examples:\n  metier device show rack-7")]
    Show {
        /// Its id or name
        device: String,
    },
}

impl Device {
    /// Prints what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        match &self.then {
            None => one(room, &metier_measure::device::this(&Roots::default(), data_folder().as_deref())?)?,
            Some(Then::List) => list(room, &room.store()?.devices()?)?,
            Some(Then::Show { device }) => one(room, &find(room, device)?)?,
        }
        Ok(Code::OK)
    }
}

fn find(room: &Room, text: &str) -> anyhow::Result<Record> {
    let store = room.store()?;
    let mut fitting: Vec<Record> = store
        .devices()?
        .into_iter()
        .filter(|device| device.id.as_str() == text || device.name == text)
        .collect();
    match (fitting.pop(), fitting.len()) {
        (Some(device), 0) => Ok(device),
        (Some(_), more) => anyhow::bail!(
            "{} devices are called {text:?}; give the id, `metier device list` shows it",
            more + 1
        ),
        (None, _) => anyhow::bail!(
            "no device {text:?} in store {}; `metier device list` lists those there are",
            store.location()
        ),
    }
}

fn one(room: &Room, device: &Record) -> anyhow::Result<()> {
    let console = &room.console;
    match console.format {
        Format::Json => console.data(|out| output::json(out, device)),
        Format::Yaml => console.data(|out| output::yaml(out, device)),
        Format::Csv => console.data(|out| {
            let leaves = figures::leaves(&serde_json::to_value(device)?);
            output::csv(out, &["field", "value"], leaves.into_iter().map(|(field, value)| vec![field, value]))
        }),
        Format::Table => console.print(&sheet(device, console.paint)),
    }
}

fn sheet(device: &Record, paint: Paint) -> String {
    let mut table = Table::default();
    let mut row = |label: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            table.row(vec![Cell::text(label).styled(Paint::dim), Cell::text(value)]);
        }
    };
    let cpu = &device.cpu;
    let count = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let counts = [
        cpu.sockets.map(|n| count(n, "socket")),
        cpu.cores.map(|n| count(n, "core")),
        Some(count(cpu.threads, "thread")),
        cpu.max_frequency_hertz.map(|f| format!("up to {f}")),
    ];
    let caches: Vec<String> = cpu
        .caches
        .iter()
        .map(|cache| format!("L{} {} {}", cache.level, cache.kind, cache.size_bytes))
        .collect();
    row("device", Some(device.name.clone()));
    row("id", Some(device.id.to_string()));
    row("class", Some(word_of(&device.class)));
    row("product", device.product.clone());
    row("processor", Some(format!("{} ({})", cpu.model.as_deref().unwrap_or("unknown"), cpu.architecture)));
    row("", Some(counts.into_iter().flatten().collect::<Vec<_>>().join(", ")));
    row("caches", Some(caches.join(", ")));
    row("memory", device.memory_bytes.map(|bytes| bytes.to_string()));
    row("swap", device.swap_bytes.map(|bytes| bytes.to_string()));
    row("system", device.os.clone());
    row("kernel", device.kernel.clone());
    row("accelerators", Some(device.accelerators.join(", ")));
    row("sensors", Some(device.sensors.join(", ")));
    row("seen", Some(time::local(device.seen)));
    let mut text = table.render(paint);
    if !device.missing.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Not known")));
        device.missing.iter().for_each(|(field, missing)| text.push_str(&format!("  {field}: {missing}\n")));
    }
    text
}

fn list(room: &Room, devices: &[Record]) -> anyhow::Result<()> {
    let console = &room.console;
    let record = || json!({ "schema": "metier.devices/1", "devices": devices });
    match console.format {
        Format::Json => console.data(|out| output::json(out, &record())),
        Format::Yaml => console.data(|out| output::yaml(out, &record())),
        Format::Csv => console.data(|out| {
            let rows = devices.iter().map(|device| {
                vec![
                    device.id.to_string(),
                    device.name.clone(),
                    device.cpu.model.clone().unwrap_or_default(),
                    device.cpu.threads.to_string(),
                    plain(device.memory_bytes.map(|bytes| bytes.get())),
                    device.os.clone().unwrap_or_default(),
                    device.seen.to_string(),
                ]
            });
            output::csv(out, &["id", "name", "processor", "threads", "memory_bytes", "os", "seen"], rows)
        }),
        Format::Table => {
            let now = Timestamp::now();
            let mut table = Table::with_header(&["NAME", "PROCESSOR", "THREADS", "MEMORY", "SEEN", "ID"]);
            for device in devices {
                table.row(vec![
                    Cell::text(&device.name).at_most(30),
                    Cell::text(device.cpu.model.as_deref().unwrap_or("–")).at_most(40),
                    Cell::number(device.cpu.threads.to_string()),
                    Cell::quantity(device.memory_bytes),
                    Cell::text(time::ago(device.seen, now)),
                    Cell::text(device.id.as_str()).styled(Paint::dim),
                ]);
            }
            console.print(&table.render(console.paint))
        }
    }
}
