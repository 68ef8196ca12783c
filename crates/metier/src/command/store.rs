//! `metier store`: checks the store, and repairs what can be repaired safely.

use clap::{Args, Subcommand};
use metier_device::{identity, process_owner};
use metier_linux::KernelRoots;
use metier_store::{OwnerProcess, RecordStore, StoreCheckReport};

use super::CommandContext;
use crate::config::data_folder;
use crate::exit::CliExitCode;
use crate::output::{StreamPaint, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier store check                             everything, in the store of the settings
  metier store check --repair                    mend what can be mended without losing a measurement
  metier store check --store backup.db -o json   another store, for a script";

/// Check the store
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read everything in the store and list what is wrong
    Check(StoreCheckArgs),
}

/// Read everything in the store and list what is wrong
#[derive(Debug, Args)]
#[command(
    before_help = EXAMPLES,
    after_help = "Exit code 1 when something is wrong and was not repaired. A repair removes no run, no series and no file."
)]
pub struct StoreCheckArgs {
    /// Repair what is safe: columns, indexes, rows without a run, runs without a process
    #[arg(long)]
    repair: bool,
}

impl StoreArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let StoreCommand::Check(check) = &self.command;
        check.run(context)
    }
}

impl StoreCheckArgs {
    fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let location = context.settings.store()?;
        let opened = match self.repair {
            true => RecordStore::open(&location),
            false => RecordStore::open_read_only(&location),
        };
        let roots = KernelRoots::default();
        let device = identity::identify_device(&roots, data_folder().as_deref())?;
        // Processes of other hosts cannot be seen from here.
        let is_alive = |owner: &OwnerProcess| {
            owner.host != device.id.as_str() || process_owner::is_owner_alive(&roots, owner)
        };
        let report = match opened {
            Ok(store) => store.check(self.repair, &is_alive),
            // A store that is absent or away was not checked.
            Err(error @ (metier_store::Error::Absent { .. } | metier_store::Error::Unreachable { .. })) => {
                return Err(error.into());
            }
            Err(error) => {
                let mut report = StoreCheckReport::new(location.to_string());
                report.add_problem("store", error);
                report
            }
        };
        let rows = report.findings.iter().map(|finding| {
            let words = [finding.object.clone(), finding.problem.clone()];
            words
                .into_iter()
                .chain([finding.repair.clone().unwrap_or_default(), finding.repaired.to_string()])
                .collect()
        });
        let header = ["object", "problem", "repair", "repaired"];
        context.console.print_record(&report, header, rows, |paint| report_text(&report, paint))?;
        Ok(if report.has_problems() { CliExitCode::FAILED } else { CliExitCode::OK })
    }
}

/// One line of what was checked, then the findings, each with its repair below.
fn report_text(report: &StoreCheckReport, paint: StreamPaint) -> String {
    let checked: Vec<String> = report.checked.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut text = match checked.is_empty() {
        true => String::new(),
        false => format!("checked: {}\n", checked.join(", ")),
    };
    let mut table = TextTable::default();
    for finding in &report.findings {
        let (mark, style): (_, fn(StreamPaint, &str) -> String) = match finding.repaired {
            true => ("repaired", StreamPaint::green),
            false => ("wrong", StreamPaint::red),
        };
        table.add_row(vec![
            TableCell::text(mark).styled(style),
            TableCell::text(&finding.object).styled(StreamPaint::bold),
            TableCell::text(&finding.problem),
        ]);
        let repair = match &finding.repair {
            Some(repair) if finding.repaired => format!("done: {repair}"),
            Some(repair) => format!("--repair {repair}"),
            None => "no repair is safe; `metier export` saves what can be read".to_string(),
        };
        table.add_row(vec![
            TableCell::text(""),
            TableCell::text(""),
            TableCell::text(repair).styled(StreamPaint::cyan),
        ]);
    }
    text.push_str(&table.render(paint));
    if report.more > 0 {
        text.push_str(&format!("and {} more\n", report.more));
    }
    if report.findings.is_empty() {
        text.push_str("nothing is wrong\n");
    }
    text
}
