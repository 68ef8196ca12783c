//! `metier session add`.

use anyhow::Context as _;
use clap::Args;
use metier_session::queue::{Ask, ask};
use metier_types::{Asker, Door, Extra};

use super::super::Room;
use super::super::run::{Run, complain_of_faults};
use crate::exit::{Code, usage};
use crate::output::Format;

const EXAMPLES: &str = "Examples:
  metier session add train.yaml
  metier session add train.yaml --repeat 5 --tag nightly
  metier session add --name nightly --repeat 5 -- ./train.sh --epochs 3
  metier session add --on jetson-2 --image lab/detector:1 -- --frames 300";

/// Put a run file or a command in the queue
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "The flags are those of `metier run`; the run file is checked now and runs in the folder that this is.")]
pub struct Add {
    /// The device that must measure it (name or id)
    #[arg(long, value_name = "DEVICE")]
    on: Option<String>,
    #[command(flatten)]
    pub run: Run,
}

impl Add {
    /// Puts it in the queue, and prints its number.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let checked = match self.run.checked(room) {
            Ok(checked) => checked,
            Err(error) => return complain_of_faults(error),
        };
        if let Some(flag) = self.run.unfit_for_later() {
            return Err(usage(format!(
                "{flag} has no meaning for a session: its runs are kept in the store; leave it away"
            )));
        }
        let folder = std::env::current_dir().context("cannot tell the folder that this is")?;
        let mut file = checked.file;
        file.beside(&folder);
        let file = serde_json::to_value(&file).context("cannot write the run file")?;
        let store = room.writable_store()?;
        let asker = Asker { door: Door::Cli, user: super::user(), extra: Extra::new() };
        let folder = Some(folder.display().to_string());
        let session = ask(&store, Ask { file, asker, job: None, device: self.on.clone(), folder })?;
        if room.console.format != Format::Table {
            return super::print(room, &session);
        }
        let (number, name) = (session.number, &session.name);
        room.console.print(&format!("{number}\n"))?;
        let place = session.position.unwrap_or(1);
        room.console.note(format!(
            "session {number} ({name}) waits at place {place}; `metier session wait {number}` waits with it"
        ));
        let is_known = |name: &String| {
            let devices = store.devices()?;
            Ok::<_, anyhow::Error>(devices.iter().any(|one| one.name == *name || one.id.as_str() == name))
        };
        if let Some(name) = &self.on
            && !is_known(name)?
        {
            room.console.note(format!(
                "nobody here knows the device {name:?}: it waits until one of that name or id works the queue"
            ));
        }
        Ok(Code::OK)
    }
}
