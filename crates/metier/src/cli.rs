//! Command-line definitions. Help, manual pages and completions are generated from them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::command;
use crate::config::FlagSettings;
use crate::console::print_error;
use crate::exit::CliExitCode;
use crate::output::{ColorWhen, OutputForm, enum_word};

/// Help shows examples first, since most readers look for a line to copy.
const HELP_TEMPLATE: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}\n";

const EXAMPLES: &str = "Examples:
  metier run -- make -j2          measure a command
  metier runs                     list runs
  metier show last                everything about the latest run
  metier compare before after     what changed, and whether chance explains it
  metier report last --file x.html
                                  the same as one file, with charts and advice on limits
  metier doctor                   what this host can measure, and how to get the rest
  metier up                       the page, at http://127.0.0.1:7001";

/// Commands by task.
const COMMAND_GROUPS: [(&str, &[&str]); 6] = [
    ("Measure", &["run", "session", "device", "board", "doctor"]),
    ("Look", &["runs", "show", "compare", "report", "flame", "signal", "up"]),
    ("Learn", &["train", "predict", "predictors", "power"]),
    ("Graphs", &["inspect", "bench", "split", "place"]),
    ("Keep", &["export", "import", "store"]),
    ("Set up", &["agent", "serve", "token", "config", "completions", "man"]),
];

/// Measures what a workload costs in time, memory and energy.
#[derive(Debug, Parser)]
#[command(name = "metier", version, about, before_help = EXAMPLES, disable_help_subcommand = true)]
pub struct CommandLine {
    /// Options of all commands.
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// The command to run.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Flags that all commands have.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of all commands")]
pub struct GlobalArgs {
    /// Where runs are kept [METIER_STORE; default ~/.local/share/metier/metier.db]
    #[arg(long, global = true, value_name = "FILE|postgres://…")]
    pub store: Option<String>,
    /// Settings file [METIER_CONFIG; default ~/.config/metier/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of data on stdout [METIER_OUTPUT; default table]
    #[arg(short, long, global = true, value_name = "FORM")]
    pub output: Option<OutputForm>,
    /// Colours [METIER_COLOR, NO_COLOR; default auto]
    #[arg(long, global = true, value_name = "WHEN")]
    pub color: Option<ColorWhen>,
    /// Print only data and errors [METIER_QUIET]
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log more; twice for debug output [METIER_LOG]
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl GlobalArgs {
    /// The settings that these flags set.
    pub fn setting_values(&self) -> FlagSettings {
        vec![
            ("store", self.store.clone()),
            ("output", self.output.filter(|form| !form.is_document()).as_ref().map(enum_word)),
            ("color", self.color.as_ref().map(enum_word)),
            ("quiet", self.quiet.then(|| "true".to_string())),
        ]
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Measure a command, a container or a pod
    Run(Box<command::run::RunArgs>),
    /// Queue runs, to be measured one at a time
    Session(command::session::SessionArgs),
    /// Show this device, or the devices in the store
    Device(command::device::DeviceArgs),
    /// Show a recorded tegrastats log, or this board now
    Board(command::board::BoardArgs),
    /// Check what this host can measure
    Doctor(command::doctor::DoctorArgs),
    /// Compare two groups of runs
    Compare(command::compare::CompareArgs),
    /// List runs
    Runs(command::runs::RunsArgs),
    /// Show everything about a run
    Show(command::show::ShowArgs),
    /// Write a report of runs as one file: HTML, Markdown, JSON
    Report(command::report::ReportArgs),
    /// Draw a flame graph of a run
    Flame(command::flame::FlameArgs),
    /// Find the pattern of a series, and forecast it
    Signal(command::signal::SignalArgs),
    /// Check the store
    Store(command::store::StoreArgs),
    /// Show the operators and cost of an ONNX graph
    Inspect(command::inspect::InspectArgs),
    /// Run an ONNX graph here and time it
    Bench(Box<command::bench::BenchArgs>),
    /// Cut an ONNX graph into parts
    Split(command::split::SplitArgs),
    /// Choose the cluster node for a graph, and deploy it there
    Place(Box<command::place::PlaceArgs>),
    /// Train predictors on this device
    Train(command::train::TrainArgs),
    /// Predict the latency of a graph
    Predict(command::predict::PredictArgs),
    /// List and manage predictors
    Predictors(command::predictors::PredictorsArgs),
    /// Train and test power predictors from Kepler's metrics
    Power(Box<command::power::PowerArgs>),
    /// Write runs as an archive
    Export(command::export::ExportArgs),
    /// Import an archive into the store
    Import(command::import::ImportArgs),
    /// Serve the page and the API
    Up(command::up::UpArgs),
    /// Serve one role alone: Kepler's estimator, model server or trainer
    Serve(command::serve::ServeArgs),
    /// Print the token that other users need to read and start runs here
    Token(command::token::TokenArgs),
    /// Show the settings and the source of each
    Config(command::config::ConfigArgs),
    /// Print completions for a shell
    Completions(command::completions::CompletionsArgs),
    /// Print or write the manual pages
    Man(command::man::ManArgs),
    /// Export metrics of this node to Prometheus
    Agent(command::agent::AgentArgs),
}

impl CommandLine {
    /// The definitions, with metier's help template.
    pub fn clap_definition() -> clap::Command {
        let command = Self::command();
        let groups = list_grouped_commands(&command);
        apply_help_template(command).help_template(format!(
            "{{about-with-newline}}\n{{before-help}}{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}\n\n`metier COMMAND --help` shows more.\n"
        ))
    }

    /// Parses the command line.
    pub fn parse(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let arguments = &command::power::normalise_spelling(Self::command, arguments);
        let read = |arguments: &[OsString]| {
            let matches =
                Self::clap_definition().color(early_color(arguments)).try_get_matches_from(arguments)?;
            Self::from_arg_matches(&matches)
        };
        let cli = read(arguments)?;
        // The first word that is no flag is known only after this first parse.
        match &cli.command {
            CliCommand::Run(run) => {
                run.with_file_flag(arguments).map_or(Ok(cli), |arguments| read(&arguments))
            }
            CliCommand::Session(session) => {
                session.with_file_flag(arguments).map_or(Ok(cli), |arguments| read(&arguments))
            }
            _ => Ok(cli),
        }
    }
}

fn apply_help_template(command: clap::Command) -> clap::Command {
    command.help_template(HELP_TEMPLATE).mut_subcommands(apply_help_template)
}

/// The list of commands, by group.
fn list_grouped_commands(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, names) in COMMAND_GROUPS {
        let known: Vec<String> = names
            .iter()
            .filter_map(|name| command.find_subcommand(name))
            .map(|sub| format!("  {:<12} {}\n", sub.get_name(), sub.get_about().cloned().unwrap_or_default()))
            .collect();
        text.push_str(&format!("{title}:\n{}", known.concat()));
    }
    text
}

/// `--color` ahead of parsing, since help and errors are coloured too.
fn early_color(arguments: &[OsString]) -> clap::ColorChoice {
    let ours =
        || arguments.iter().take_while(|argument| *argument != "--").filter_map(|argument| argument.to_str());
    let given = ours()
        .find_map(|argument| argument.strip_prefix("--color="))
        .or_else(|| ours().skip_while(|argument| *argument != "--color").nth(1));
    match given {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

/// Prints clap's message: help and version unchanged, errors as one line.
pub fn report_clap_error(error: &clap::Error) -> CliExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed stdout is no error here.
            let _ = error.print();
            CliExitCode::OK
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            CliExitCode::USAGE
        }
        _ => {
            print_error(&clap_error_line(&error.render().to_string()));
            CliExitCode::USAGE
        }
    }
}

/// clap's paragraphs as one line: the error, its tips, then the way to help.
fn clap_error_line(rendered: &str) -> String {
    let mut parts = Vec::new();
    let mut usage = None;
    for line in rendered.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(line.to_string());
        } else if let Some(line) = line.strip_prefix("error: ") {
            parts.push(line.to_string());
        } else if let Some(line) = line.strip_prefix("tip: ") {
            parts.push(format!("; {line}"));
        } else if !line.starts_with("For more information") {
            parts.push(format!(" {line}"));
        }
    }
    // The words before the first option or argument name the command.
    let command: Vec<&str> = usage
        .as_deref()
        .unwrap_or("metier")
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    format!("{}; try `{} --help`", parts.concat(), command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_consistent() {
        CommandLine::clap_definition().debug_assert();
    }

    #[test]
    fn every_command_stands_in_exactly_one_group_and_has_examples() {
        for command in CommandLine::clap_definition().get_subcommands() {
            let name = command.get_name();
            let times =
                COMMAND_GROUPS.iter().flat_map(|(_, names)| *names).filter(|known| **known == name).count();
            assert_eq!(times, 1, "{name}");
            let examples = command.get_before_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n  metier "), "{name}: {examples}");
        }
    }

    #[test]
    fn an_error_is_one_line_with_the_way_to_help() {
        for (typed, parts) in [
            (
                vec!["metier", "runs", "--limti", "3"],
                vec!["'--limti'", "'--limit'", "try `metier runs --help`"],
            ),
            (vec!["metier", "shwo"], vec!["'shwo'", "show", "try `metier --help`"]),
            (vec!["metier", "runs", "-o", "xml"], vec!["'xml'", "table, json, yaml, csv"]),
        ] {
            let arguments: Vec<OsString> = typed.into_iter().map(Into::into).collect();
            let error = CommandLine::parse(&arguments).unwrap_err();
            let line = clap_error_line(&error.render().to_string());
            assert!(!line.contains('\n') && parts.iter().all(|part| line.contains(part)), "{line}");
        }
    }
}
