//! `metier device export` and `metier device import`: passports as files, from one machine to
//! another.

use std::io::Read as _;

use anyhow::{Context as _, bail};
use clap::Args;
use metier_device::identity;
use metier_device::passport;
use metier_linux::KernelRoots;
use metier_types::Passport;
use serde_json::json;

use super::super::CommandContext;
use crate::config::data_folder;
use crate::console::print_error;
use crate::output::{self, DataFormat, serialised_word};

/// Export a passport
#[derive(Debug, Args)]
#[command(
    before_help = "Examples:\n  metier device export > rack-7.json                      of this device\n  metier device export raspberry-pi-4b > pi.json          a shipped passport as a template\n  ssh rack-7 metier device export | metier device import -"
)]
pub struct PassportExportArgs {
    /// Id, name or alias of the device [default: this one]
    device: Option<String>,
}

impl PassportExportArgs {
    /// Writes the passport to stdout.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        let passport = match &self.device {
            Some(name) => find_passport(context, name)?,
            None => {
                let own = identity::identify_device(&KernelRoots::default(), data_folder().as_deref())?.id;
                let Some(passport) = context.store()?.passport(own.as_str())? else {
                    bail!("this device has no passport yet; `metier device bench` measures it")
                };
                passport
            }
        };
        match context.console.format {
            DataFormat::Yaml | DataFormat::Csv => bail!("a passport is exported as JSON only; omit -o"),
            DataFormat::Json | DataFormat::Table => {
                context.console.write_data(|out| output::write_json(out, &passport))
            }
        }
    }
}

/// Finds a stored or shipped passport by name.
pub fn find_passport(context: &CommandContext, name: &str) -> anyhow::Result<Passport> {
    // Shipped passports need no store.
    let store = context.store().ok();
    passport::find_passport(store.as_ref(), name).with_context(|| {
        format!("no passport of {name:?}; `metier device list` lists those there are, `metier device bench` measures this device")
    })
}

/// Import passports into the store
#[derive(Debug, Args)]
#[command(
    before_help = "Examples:\n  metier device import rack-7.json rack-8.json\n  ssh rack-7 metier device export | metier device import -",
    after_help = "All files are checked before any is stored. A passport replaces an earlier one with the same id."
)]
pub struct PassportImportArgs {
    /// Files of `metier device export`; - for stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

impl PassportImportArgs {
    /// Checks all passports, then stores all.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        let mut passports: Vec<Passport> = Vec::new();
        let mut wrong = Vec::new();
        for file in &self.files {
            match passport::parse_passport(&read_limited(file)?) {
                Ok(passport) if passports.iter().any(|other| other.id == passport.id) => {
                    wrong.push(format!("{file}: id is {:?}; want each passport once", passport.id));
                }
                Ok(passport) => passports.push(passport),
                Err(faults) => wrong.extend(faults.iter().map(|fault| format!("{file}: {fault}"))),
            }
        }
        if !wrong.is_empty() {
            wrong.iter().for_each(|line| print_error(line));
            bail!("nothing was imported; {} thing(s) to put right", wrong.len());
        }
        let store = context.writable_store()?;
        for passport in &passports {
            store.put_passport(passport)?;
        }
        let values: Vec<_> = passports
            .iter()
            .map(|passport| json!({ "id": passport.id, "name": passport.name, "origin": passport.origin }))
            .collect();
        let record = json!({ "schema": "metier.passports-import/1", "passports": values });
        let row = |passport: &Passport| {
            vec![passport.id.clone(), passport.name.clone(), serialised_word(&passport.origin)]
        };
        let rows = passports.iter().map(row);
        context.console.print_record(&record, ["id", "name", "origin"], rows, |_| {
            for passport in &passports {
                context.console.note(format!(
                    "{} ({}), {}",
                    passport.name,
                    passport.id,
                    serialised_word(&passport.origin)
                ));
            }
            String::new()
        })
    }
}

/// Reads a file or stdin, up to the largest size of a passport.
fn read_limited(file: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = passport::MAX_PASSPORT_BYTES + 1;
    let read = match file {
        "-" => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {}", if file == "-" { "stdin" } else { file }))?;
    Ok(bytes)
}
