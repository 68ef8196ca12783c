//! `metier device`: who this device is, what it can do, and which others are known.

mod bench;
mod carry;
mod sheet;

use clap::{Args, Subcommand};
use metier_device::passport;
use metier_linux::Roots;
use metier_types::{Device as Record, Origin, Passport, Timestamp};
use serde_json::json;

use super::Room;
use crate::config::data_folder;
use crate::exit::Code;
use crate::output::{Cell, Paint, Table, figures, plain, word_of};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier device                  this device
  metier device bench            measure what it can do: its passport
  metier device list             all devices and passports that are known
  metier device show NAME        one of them
  metier device export > a.json  this device's passport, for `metier device import a.json` elsewhere
  metier device -o json          the record (metier.device/1)";

/// Show this device, measure its passport, or show others
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Device {
    #[command(subcommand)]
    then: Option<Then>,
}

#[derive(Debug, Subcommand)]
enum Then {
    Bench(bench::Bench),
    /// List the devices that the store knows, and all passports
    #[command(before_help = "Examples:\n  metier device list -o csv")]
    List,
    /// Show one of them
    #[command(before_help = "Examples:\n  metier device show rack-7\n  metier device show 'Raspberry Pi 4B'")]
    Show {
        /// Its id or name; of a passport also another name
        device: String,
    },
    Export(carry::Export),
    Import(carry::Import),
}

impl Device {
    /// Prints what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        match &self.then {
            None => {
                let device = metier_device::identity::whole(&Roots::default(), data_folder().as_deref())?;
                // Who this is can be told without any store.
                let own = room.store().ok().and_then(|store| store.passport(device.id.as_str()).ok()?);
                one(room, &device, own.as_ref())?;
            }
            Some(Then::Bench(bench)) => bench.run(room)?,
            Some(Then::List) => {
                let store = room.store()?;
                list(room, &store.devices()?, &passport::all(Some(&store)))?;
            }
            Some(Then::Show { device }) => show(room, device)?,
            Some(Then::Export(export)) => export.run(room)?,
            Some(Then::Import(import)) => import.run(room)?,
        }
        Ok(Code::OK)
    }
}

/// A device of the store with its passport, or a passport alone.
fn show(room: &Room, text: &str) -> anyhow::Result<()> {
    // Shipped passports are there without any store.
    let known = match room.store() {
        Ok(store) => find(&store, text)?.map(|device| {
            let own = store.passport(device.id.as_str());
            own.map(|own| (device, own))
        }),
        Err(error) if passport::find(None, text).is_none() => return Err(error),
        Err(_) => None,
    };
    match known {
        Some(known) => {
            let (device, own) = known?;
            one(room, &device, own.as_ref())
        }
        None => sheet::print(room, &carry::find(room, text)?),
    }
}

fn find(store: &metier_store::Store, text: &str) -> anyhow::Result<Option<Record>> {
    let mut fitting: Vec<Record> = store
        .devices()?
        .into_iter()
        .filter(|device| device.id.as_str() == text || device.name == text)
        .collect();
    match (fitting.pop(), fitting.len()) {
        (Some(device), 0) => Ok(Some(device)),
        (Some(_), more) => anyhow::bail!(
            "{} devices are called {text:?}; give the id, `metier device list` shows it",
            more + 1
        ),
        (None, _) => Ok(None),
    }
}

fn one(room: &Room, device: &Record, own: Option<&Passport>) -> anyhow::Result<()> {
    let console = &room.console;
    console.show(device, ["field", "value"], figures::leaf_rows(device)?, |paint| {
        let mut text = description(device, paint);
        if let Some(own) = own {
            text.push_str(&format!("\n{}\n{}", paint.bold("Passport"), sheet::text(own, paint)));
        }
        text
    })
}

fn description(device: &Record, paint: Paint) -> String {
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

fn list(room: &Room, devices: &[Record], passports: &[Passport]) -> anyhow::Result<()> {
    let of = |device: &Record| passports.iter().find(|passport| passport.id == device.id.as_str());
    // A passport without a device in the store is a row of its own.
    let others =
        passports.iter().filter(|passport| devices.iter().all(|device| device.id.as_str() != passport.id));
    let rows: Vec<(&Record, Option<&Passport>)> = devices
        .iter()
        .map(|device| (device, of(device)))
        .chain(others.map(|passport| (&passport.device, Some(passport))))
        .collect();
    let passports: Vec<_> = passports
        .iter()
        .map(|one| json!({ "id": one.id, "name": one.name, "origin": one.origin, "made": one.made }))
        .collect();
    let record = json!({ "schema": "metier.devices/1", "devices": devices, "passports": passports });
    let cells = rows.iter().map(|(device, passport)| {
        vec![
            passport.map_or_else(|| device.id.to_string(), |passport| passport.id.clone()),
            device.name.clone(),
            device.cpu.model.clone().unwrap_or_default(),
            device.cpu.threads.to_string(),
            plain(device.memory_bytes.map(|bytes| bytes.get())),
            device.os.clone().unwrap_or_default(),
            device.seen.to_string(),
            passport.map(|passport| word_of(&passport.origin)).unwrap_or_default(),
        ]
    });
    let header = ["id", "name", "processor", "threads", "memory_bytes", "os", "seen", "passport"];
    room.console.show(&record, header, cells, |paint| {
        let now = Timestamp::now();
        let header = ["NAME", "PROCESSOR", "THREADS", "MEMORY", "SEEN", "PASSPORT", "ID"];
        let mut table = Table::with_header(&header);
        for (device, passport) in &rows {
            let specified = passport.is_some_and(|passport| passport.origin == Origin::Specified);
            let seen = if specified { "–".to_string() } else { time::ago(device.seen, now) };
            table.row(vec![
                Cell::text(&device.name).at_most(30),
                Cell::text(device.cpu.model.as_deref().unwrap_or("–")).at_most(40),
                Cell::number(device.cpu.threads.to_string()),
                Cell::quantity(device.memory_bytes),
                Cell::text(seen),
                Cell::text(passport.map_or_else(|| "–".into(), |passport| word_of(&passport.origin))),
                Cell::text(passport.map_or(device.id.as_str(), |passport| &passport.id)).styled(Paint::dim),
            ]);
        }
        table.render(paint)
    })
}
