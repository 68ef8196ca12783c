//! The commands, one file each, all of the same shape: the flags as a struct, and `run` that does it.

pub mod agent;
pub mod bench;
pub mod board;
pub mod compare;
pub mod completions;
pub mod config;
pub mod device;
pub mod doctor;
pub mod export;
pub mod flame;
pub mod import;
pub mod inspect;
pub mod man;
pub mod place;
pub mod power;
pub mod predict;
pub mod predictors;
pub mod report;
pub mod run;
pub mod runs;
pub mod serve;
pub mod session;
pub mod show;
pub mod split;
pub mod token;
pub mod train;
pub mod up;

use metier_linux::Roots;
use metier_store::{RunFilter, Store};
use metier_types::RunState;

use crate::cli::{Cli, Command};
use crate::config::{Settings, Typed, data_folder};
use crate::console::{Console, complain};
use crate::exit::{ClosedPipe, Code, code_of, one_line, usage};
use crate::log;
use crate::output::{Form, word};

/// What every command is given.
pub struct Room {
    pub console: Console,
    pub settings: Settings,
    /// How much to say about what is being done.
    pub verbose: u8,
    /// The form of document that was asked for, if it was one.
    pub form: Option<Form>,
}

impl Room {
    /// The store, to look at; it must be there.
    pub fn store(&self) -> anyhow::Result<Store> {
        let location = self.settings.store()?;
        let store = match Store::open_read_only(&location) {
            // One of an earlier version is brought up to date where it can be written.
            Err(error @ metier_store::Error::CannotOpen { .. }) => {
                Store::open(&location).map_err(|_| error)?
            }
            other => other?,
        };
        let under_way =
            RunFilter { state: Some(RunState::Running), warmup: true, limit: 1, ..RunFilter::default() };
        // What says it is under way may have been killed; whoever looks first finds out. A store that we may
        // only read is shown as it is.
        if store.runs(&under_way).is_ok_and(|page| page.total > 0)
            && let Ok(device) = metier_device::identity::this(&Roots::default(), data_folder().as_deref())
            && let Ok(writable) = Store::open(&location)
        {
            let _ = metier_measure::leftovers::sweep(&Roots::default(), &writable, &device);
        }
        Ok(store)
    }

    /// The store, to change; it is made where it is not there.
    pub fn writable_store(&self) -> anyhow::Result<Store> {
        Ok(Store::open(&self.settings.store()?)?)
    }
}

/// Does what was typed, and says what went wrong.
pub fn dispatch(cli: Cli) -> Code {
    // A defect of ours must not look like an exit code of a command that was measured.
    let defect = if matches!(cli.command, Command::Run(_)) { Code::OWN_FAILURE } else { Code::FAILED };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| perform(cli))) {
        Err(_) => defect,
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            if !error.is::<ClosedPipe>() {
                complain(&one_line(&error));
            }
            code_of(&error)
        }
    }
}

fn perform(cli: Cli) -> anyhow::Result<Code> {
    let Cli { globals, command } = cli;
    // These need nothing but themselves, and must work where settings are broken.
    match &command {
        Command::Completions(completions) => return completions.run(),
        Command::Man(man) => return man.run(),
        _ => {}
    }
    let mut typed = globals.typed();
    typed.extend(settings_of(&command));
    let settings = Settings::load(globals.config.as_deref(), typed)?;
    let console = Console::new(&settings)?;
    let form = globals.output.filter(|form| form.is_document());
    if let Some(form) = form.filter(|_| !matches!(command, Command::Report(_) | Command::Flame(_))) {
        let form = word(&form);
        return Err(usage(format!(
            "-o is {form:?}, which only `metier report` and `metier flame` write; want table, json, yaml or csv"
        )));
    }
    let room = Room { console, settings, verbose: globals.verbose, form };
    let is_server = matches!(command, Command::Up(_) | Command::Agent(_) | Command::Serve(_));
    if !is_server && (room.verbose > 0 || std::env::var_os("METIER_LOG").is_some()) {
        log::start(&room.console, room.verbose, log::COMMAND)?;
    }
    match command {
        Command::Run(run) => run.run(&room),
        Command::Board(board) => board.run(&room),
        Command::Device(device) => device.run(&room),
        Command::Doctor(doctor) => doctor.run(&room),
        Command::Compare(compare) => compare.run(&room),
        Command::Flame(flame) => flame.run(&room),
        Command::Export(export) => export.run(&room),
        Command::Import(import) => import.run(&room),
        Command::Bench(bench) => bench.run(&room),
        Command::Inspect(inspect) => inspect.run(&room),
        Command::Place(place) => place.run(&room),
        Command::Power(power) => power.run(&room),
        Command::Predict(predict) => predict.run(&room),
        Command::Predictors(predictors) => predictors.run(&room),
        Command::Report(report) => report.run(&room),
        Command::Runs(runs) => runs.run(&room),
        Command::Serve(serve) => serve.run(&room),
        Command::Session(session) => session.run(&room),
        Command::Show(show) => show.run(&room),
        Command::Split(split) => split.run(&room),
        Command::Token(token) => token.run(&room),
        Command::Train(train) => train.run(&room),
        Command::Up(up) => up.run(&room),
        Command::Agent(agent) => agent.run(&room),
        Command::Config(config) => config.run(&room),
        Command::Completions(_) | Command::Man(_) => Ok(Code::OK),
    }
}

/// What of a command's own flags is a setting.
fn settings_of(command: &Command) -> Typed {
    match command {
        Command::Run(run) => run.typed(),
        Command::Session(session) => session.typed(),
        Command::Up(up) => up.typed(),
        Command::Agent(agent) => agent.typed(),
        _ => Typed::new(),
    }
}
