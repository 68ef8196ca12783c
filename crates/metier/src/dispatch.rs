//! From what was typed to the exit code: loads settings, starts logging, runs the command, reports its error.

use crate::cli::{Cli, Command};
use crate::command::Room;
use crate::config::{Settings, Typed};
use crate::console::{Console, complain};
use crate::exit::{ClosedPipe, Code, code_of, one_line, usage};
use crate::log;
use crate::output::word;

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
        Command::Completions(completions) => return completions.run(Cli::definition()),
        Command::Man(man) => return man.run(Cli::definition()),
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
