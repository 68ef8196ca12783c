//! `metier session add`.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use metier_types::{Asker, Door, Extra};
use metier_work::queue::{Ask, ask, read_file};
use serde_json::{Value, json};

use super::super::Room;
use crate::exit::{Code, usage};

/// No run file is larger.
const MOST_BYTES: u64 = 1 << 20;

const EXAMPLES: &str = "Examples:
  metier session add train.yaml
  metier session add --name nightly --repeat 5 -- ./train.sh --epochs 3
  generate | metier session add -";

/// Put a run file or a command in the queue
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Add {
    /// Run file, YAML or JSON; `-` reads it from stdin
    #[arg(value_name = "FILE", required_unless_present = "command", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Name of the workload, in place of what the file says
    #[arg(long)]
    name: Option<String>,
    /// Measure so many times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: Option<u32>,
    /// Run so many times before, without counting those
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warmup: Option<u32>,
    /// Longest time it may take: 250ms, 1.5s, 2m, 1h
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// A word to find its runs by; may be given again
    #[arg(long, value_name = "WORD")]
    tag: Vec<String>,
    /// The device that must measure it (name or id)
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Add {
    /// Puts it in the queue, and prints its number.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let mut folder = std::env::current_dir().context("cannot tell the folder that this is")?;
        let mut file = match &self.file {
            Some(path) => {
                let (text, name) = read(path)?;
                if let Some(beside) = path.parent().filter(|_| name != "stdin") {
                    folder = folder.join(beside);
                }
                read_file(&text).map_err(|faults| {
                    let error = metier_work::queue::Error::File(faults);
                    usage(format!("{name}: {error}"))
                })?
            }
            None => json!({ "command": self.command }),
        };
        self.over(&mut file);
        let file = read_file(&file.to_string())
            .map_err(|faults| usage(metier_work::queue::Error::File(faults).to_string()))?;
        let store = room.writable_store()?;
        let asker = Asker { door: Door::Cli, user: super::user(), extra: Extra::new() };
        let folder = Some(folder.display().to_string());
        let session = ask(&store, Ask { file, asker, job: None, device: self.device.clone(), folder })?;
        match room.console.format {
            crate::output::Format::Table => {
                room.console.print(&format!("{}\n", session.number))?;
                let place = session.position.unwrap_or(1);
                room.console.note(format!(
                    "session {} ({}) waits at place {place}; `metier session wait {}` waits with it",
                    session.number, session.name, session.number
                ));
                Ok(Code::OK)
            }
            _ => super::print(room, &session),
        }
    }

    /// Lays the flags over the file.
    fn over(&self, file: &mut Value) {
        let mut set = |field: &str, value: Option<Value>| {
            if let (Some(value), Some(map)) = (value, file.as_object_mut()) {
                map.insert(field.to_string(), value);
            }
        };
        set("name", self.name.clone().map(Value::from));
        set("repeats", self.repeat.map(Value::from));
        set("warmup", self.warmup.map(Value::from));
        set("timeout", self.timeout.clone().map(Value::from));
        set("tags", (!self.tag.is_empty()).then(|| json!(self.tag)));
    }
}

/// The text of a run file, and what errors call it.
fn read(path: &PathBuf) -> anyhow::Result<(String, String)> {
    let name = if path.as_os_str() == "-" { "stdin".to_string() } else { path.display().to_string() };
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(MOST_BYTES + 1).read_to_string(&mut text),
        false => {
            std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
        }
    };
    let length =
        read.with_context(|| format!("cannot read the run file {name}; name one, or a command after `--`"))?;
    if length as u64 > MOST_BYTES {
        return Err(usage(format!("{name} is larger than 1 MiB; want a run file")));
    }
    Ok((text, name))
}
