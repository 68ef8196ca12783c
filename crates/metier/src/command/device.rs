//! `metier device`: shows this device, its passport, and the other devices in the store.

mod bench;
mod passport_sheet;
mod passport_transfer;

use clap::{Args, Subcommand};
use metier_device::passport;
use metier_linux::KernelRoots;
use metier_types::{Device as Record, Passport, PassportOrigin, UtcTimestamp};
use serde_json::json;

use super::CommandContext;
use crate::config::data_folder;
use crate::exit::CliExitCode;
use crate::output::{StreamPaint, TableCell, TextTable, csv_cell, figures, serialised_word};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier device                  this device
  metier device bench            measure what it can do: its passport
  metier device list             all devices and passports that are known
  metier device show NAME        one of them
  metier device export > a.json  this device's passport, for `metier device import a.json` elsewhere
  metier device -o json          the record (metier.device/1)";

/// Show this device, measure its passport, or show other devices
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct DeviceArgs {
    #[command(subcommand)]
    then: Option<DeviceCommand>,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    Bench(bench::DeviceBenchArgs),
    /// List the devices in the store, and all passports
    #[command(before_help = "Examples:\n  metier device list -o csv")]
    List,
    /// Show a device
    #[command(before_help = "Examples:\n  metier device show rack-7\n  metier device show 'Raspberry Pi 4B'")]
    Show {
        /// Id or name; for a passport also an alias
        device: String,
    },
    Export(passport_transfer::PassportExportArgs),
    Import(passport_transfer::PassportImportArgs),
}

impl DeviceArgs {
    /// Prints the requested device or list.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        match &self.then {
            None => {
                let device = metier_device::identity::describe_device(
                    &KernelRoots::default(),
                    data_folder().as_deref(),
                )?;
                // The device can be identified without a store.
                let own = context.store().ok().and_then(|store| store.passport(device.id.as_str()).ok()?);
                print_device(context, &device, own.as_ref())?;
            }
            Some(DeviceCommand::Bench(bench)) => bench.run(context)?,
            Some(DeviceCommand::List) => {
                let store = context.store()?;
                print_device_list(context, &store.devices()?, &passport::list_passports(Some(&store)))?;
            }
            Some(DeviceCommand::Show { device }) => print_named_device(context, device)?,
            Some(DeviceCommand::Export(export)) => export.run(context)?,
            Some(DeviceCommand::Import(import)) => import.run(context)?,
        }
        Ok(CliExitCode::OK)
    }
}

/// A device of the store with its passport, or a passport alone.
fn print_named_device(context: &CommandContext, text: &str) -> anyhow::Result<()> {
    // Shipped passports need no store.
    let known = match context.store() {
        Ok(store) => find_device(&store, text)?.map(|device| {
            let own = store.passport(device.id.as_str());
            own.map(|own| (device, own))
        }),
        Err(error) if passport::find_passport(None, text).is_none() => return Err(error),
        Err(_) => None,
    };
    match known {
        Some(known) => {
            let (device, own) = known?;
            print_device(context, &device, own.as_ref())
        }
        None => passport_sheet::print_passport(context, &passport_transfer::find_passport(context, text)?),
    }
}

fn find_device(store: &metier_store::RecordStore, text: &str) -> anyhow::Result<Option<Record>> {
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

fn print_device(context: &CommandContext, device: &Record, own: Option<&Passport>) -> anyhow::Result<()> {
    let console = &context.console;
    console.print_record(device, ["field", "value"], figures::leaf_rows(device)?, |paint| {
        let mut text = device_table(device, paint);
        if let Some(own) = own {
            text.push_str(&format!(
                "\n{}\n{}",
                paint.bold("Passport"),
                passport_sheet::passport_text(own, paint)
            ));
        }
        text
    })
}

fn device_table(device: &Record, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut row = |label: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            table.add_row(vec![TableCell::text(label).styled(StreamPaint::dim), TableCell::text(value)]);
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
    row("class", Some(serialised_word(&device.class)));
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
    row("seen", Some(time::local_time(device.seen)));
    let mut text = table.render(paint);
    if !device.missing.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Not known")));
        device.missing.iter().for_each(|(field, missing)| text.push_str(&format!("  {field}: {missing}\n")));
    }
    text
}

fn print_device_list(
    context: &CommandContext,
    devices: &[Record],
    passports: &[Passport],
) -> anyhow::Result<()> {
    let of = |device: &Record| passports.iter().find(|passport| passport.id == device.id.as_str());
    // A passport without a device in the store has its own row.
    let others =
        passports.iter().filter(|passport| devices.iter().all(|device| device.id.as_str() != passport.id));
    let rows: Vec<(&Record, Option<&Passport>)> = devices
        .iter()
        .map(|device| (device, of(device)))
        .chain(others.map(|passport| (&passport.device, Some(passport))))
        .collect();
    let passports: Vec<_> = passports
        .iter()
        .map(|passport| json!({ "id": passport.id, "name": passport.name, "origin": passport.origin, "made": passport.made }))
        .collect();
    let record = json!({ "schema": "metier.devices/1", "devices": devices, "passports": passports });
    let cells = rows.iter().map(|(device, passport)| {
        vec![
            passport.map_or_else(|| device.id.to_string(), |passport| passport.id.clone()),
            device.name.clone(),
            device.cpu.model.clone().unwrap_or_default(),
            device.cpu.threads.to_string(),
            csv_cell(device.memory_bytes.map(|bytes| bytes.get())),
            device.os.clone().unwrap_or_default(),
            device.seen.to_string(),
            passport.map(|passport| serialised_word(&passport.origin)).unwrap_or_default(),
        ]
    });
    let header = ["id", "name", "processor", "threads", "memory_bytes", "os", "seen", "passport"];
    context.console.print_record(&record, header, cells, |paint| {
        let now = UtcTimestamp::now();
        let header = ["NAME", "PROCESSOR", "THREADS", "MEMORY", "SEEN", "PASSPORT", "ID"];
        let mut table = TextTable::with_header(&header);
        for (device, passport) in &rows {
            let specified = passport.is_some_and(|passport| passport.origin == PassportOrigin::Specified);
            let seen = if specified { "–".to_string() } else { time::time_ago(device.seen, now) };
            table.add_row(vec![
                TableCell::text(&device.name).truncated(30),
                TableCell::text(device.cpu.model.as_deref().unwrap_or("–")).truncated(40),
                TableCell::number(device.cpu.threads.to_string()),
                TableCell::quantity(device.memory_bytes),
                TableCell::text(seen),
                TableCell::text(
                    passport.map_or_else(|| "–".into(), |passport| serialised_word(&passport.origin)),
                ),
                TableCell::text(passport.map_or(device.id.as_str(), |passport| &passport.id))
                    .styled(StreamPaint::dim),
            ]);
        }
        table.render(paint)
    })
}
