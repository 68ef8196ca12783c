//! `metier session add`.

use anyhow::Context as _;
use clap::Args;
use metier_session::queue::{SessionSubmission, submit_session};
use metier_types::{ExtraFields, SessionOrigin, SessionRequester};

use super::super::CommandContext;
use super::super::run::{RunArgs, report_faults};
use crate::exit::{CliExitCode, usage_error};
use crate::output::DataFormat;

const EXAMPLES: &str = "Examples:
  metier session add train.yaml
  metier session add train.yaml --repeat 5 --tag nightly
  metier session add --name nightly --repeat 5 -- ./train.sh --epochs 3
  metier session add --on jetson-2 --image lab/detector:1 -- --frames 300";

/// Put a run file or a command in the queue
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "The flags are those of `metier run`; the run file is checked now and runs in the folder that this is.")]
pub struct SessionAddArgs {
    /// Device to measure on (name or id)
    #[arg(long, value_name = "DEVICE")]
    on: Option<String>,
    #[command(flatten)]
    pub run: RunArgs,
}

impl SessionAddArgs {
    /// Queues the session and prints its number.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let checked = match self.run.check_run_file(context) {
            Ok(checked) => checked,
            Err(error) => return report_faults(error),
        };
        if let Some(flag) = self.run.flag_unfit_for_session() {
            return Err(usage_error(format!(
                "{flag} has no meaning for a session: its runs are kept in the store; leave it away"
            )));
        }
        let folder = std::env::current_dir().context("cannot tell the folder that this is")?;
        let mut file = checked.file;
        file.resolve_paths(&folder);
        let file = serde_json::to_value(&file).context("cannot write the run file")?;
        let store = context.writable_store()?;
        let asker = SessionRequester {
            door: SessionOrigin::Cli,
            user: super::login_name(),
            extra: ExtraFields::new(),
        };
        let folder = Some(folder.display().to_string());
        let session = submit_session(
            &store,
            SessionSubmission { file, asker, job: None, device: self.on.clone(), folder },
        )?;
        if context.console.format != DataFormat::Table {
            return super::print_session(context, &session);
        }
        let (number, name) = (session.number, &session.name);
        context.console.print(&format!("{number}\n"))?;
        let place = session.position.unwrap_or(1);
        context.console.note(format!(
            "session {number} ({name}) waits at place {place}; `metier session wait {number}` waits with it"
        ));
        let is_known = |name: &String| {
            let devices = store.devices()?;
            Ok::<_, anyhow::Error>(
                devices.iter().any(|device| device.name == *name || device.id.as_str() == name),
            )
        };
        if let Some(name) = &self.on
            && !is_known(name)?
        {
            context.console.note(format!(
                "device {name:?} is not in the store: the session waits for a worker of that name or id"
            ));
        }
        Ok(CliExitCode::OK)
    }
}
