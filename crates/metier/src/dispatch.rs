//! Runs a parsed command line: loads settings, starts logging, runs the command, reports its error.

use metier_linux::open_files;

use crate::cli::{CliCommand, CommandLine};
use crate::command::CommandContext;
use crate::config::{FlagSettings, Settings};
use crate::console::{OutputConsole, print_error};
use crate::exit::{CliExitCode, ClosedPipe, error_line, exit_code_of, usage_error};
use crate::log;
use crate::output::enum_word;

/// Runs the command and prints its error.
pub fn dispatch(cli: CommandLine) -> CliExitCode {
    // A defect of metier must not look like the exit code of a measured command.
    let defect = if matches!(cli.command, CliCommand::Run(_)) {
        CliExitCode::OWN_FAILURE
    } else {
        CliExitCode::FAILED
    };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_command(cli))) {
        Err(_) => defect,
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            if !error.is::<ClosedPipe>() {
                print_error(&error_line(&error));
            }
            exit_code_of(&error)
        }
    }
}

fn run_command(cli: CommandLine) -> anyhow::Result<CliExitCode> {
    let CommandLine { globals, command } = cli;
    // These commands need no settings, and must work where settings are broken.
    match &command {
        CliCommand::Completions(completions) => return completions.run(CommandLine::clap_definition()),
        CliCommand::Man(man) => return man.run(CommandLine::clap_definition()),
        _ => {}
    }
    let mut typed = globals.setting_values();
    typed.extend(setting_values_of(&command));
    let settings = Settings::load(globals.config.as_deref(), typed)?;
    let console = OutputConsole::new(&settings)?;
    let form = globals.output.filter(|form| form.is_document());
    if let Some(form) = form.filter(|_| !matches!(command, CliCommand::Report(_) | CliCommand::Flame(_))) {
        let form = enum_word(&form);
        return Err(usage_error(format!(
            "-o is {form:?}, which only `metier report` and `metier flame` write; want table, json, yaml or csv"
        )));
    }
    let context = CommandContext { console, settings, verbose: globals.verbose, form };
    let is_server = matches!(command, CliCommand::Up(_) | CliCommand::Agent(_) | CliCommand::Serve(_));
    if !is_server && (context.verbose > 0 || std::env::var_os("METIER_LOG").is_some()) {
        log::start_logging(&context.console, context.verbose, log::COMMAND_LEVEL)?;
    }
    let is_run = matches!(command, CliCommand::Run(_));
    match open_files::check_limit() {
        Err(few) if is_run => {
            print_error(&few.to_string());
            return Ok(CliExitCode::OWN_FAILURE);
        }
        Err(few) if is_server => return Err(few.into()),
        _ => {}
    }
    match command {
        CliCommand::Run(run) => run.run(&context),
        CliCommand::Board(board) => board.run(&context),
        CliCommand::Device(device) => device.run(&context),
        CliCommand::Doctor(doctor) => doctor.run(&context),
        CliCommand::Compare(compare) => compare.run(&context),
        CliCommand::Flame(flame) => flame.run(&context),
        CliCommand::Export(export) => export.run(&context),
        CliCommand::Import(import) => import.run(&context),
        CliCommand::Bench(bench) => bench.run(&context),
        CliCommand::Inspect(inspect) => inspect.run(&context),
        CliCommand::Place(place) => place.run(&context),
        CliCommand::Power(power) => power.run(&context),
        CliCommand::Predict(predict) => predict.run(&context),
        CliCommand::Predictors(predictors) => predictors.run(&context),
        CliCommand::Report(report) => report.run(&context),
        CliCommand::Runs(runs) => runs.run(&context),
        CliCommand::Serve(serve) => serve.run(&context),
        CliCommand::Session(session) => session.run(&context),
        CliCommand::Show(show) => show.run(&context),
        CliCommand::Signal(signal) => signal.run(&context),
        CliCommand::Split(split) => split.run(&context),
        CliCommand::Store(store) => store.run(&context),
        CliCommand::Token(token) => token.run(&context),
        CliCommand::Train(train) => train.run(&context),
        CliCommand::Up(up) => up.run(&context),
        CliCommand::Agent(agent) => agent.run(&context),
        CliCommand::Config(config) => config.run(&context),
        CliCommand::Completions(_) | CliCommand::Man(_) => Ok(CliExitCode::OK),
    }
}

/// The settings that a command's own flags set.
fn setting_values_of(command: &CliCommand) -> FlagSettings {
    match command {
        CliCommand::Run(run) => run.setting_values(),
        CliCommand::Session(session) => session.setting_values(),
        CliCommand::Up(up) => up.setting_values(),
        CliCommand::Agent(agent) => agent.setting_values(),
        CliCommand::Serve(serve) => serve.setting_values(),
        _ => FlagSettings::new(),
    }
}
