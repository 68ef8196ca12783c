//! `metier doctor`: lists what this host can measure, and the fix for each gap.

use clap::Args;
use metier_linux::KernelRoots;
use metier_measure::doctor::check_host;
use metier_store::{Error, RecordStore};
use serde::Serialize;

use super::CommandContext;
use crate::exit::CliExitCode;
use crate::output::{StreamPaint, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier doctor                  every check, with the fix where there is one
  metier doctor -q && deploy     only whether all that exact numbers need is there
  metier doctor -o json          for programs (metier.doctor/1)";

/// Checks that exact figures need. The others are optional; many hosts lack such sensors.
const REQUIRED_CHECKS: [&str; 3] = ["control group", "process events", "store"];

/// Check what this host can measure
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "Exit code 0 if everything that exact figures need is there, 4 if not.")]
pub struct DoctorArgs {}

#[derive(Serialize)]
struct DoctorCheckRow {
    name: String,
    ok: bool,
    needed: bool,
    text: String,
    fix: Option<String>,
}

#[derive(Serialize)]
struct DoctorRecord<'a> {
    schema: &'static str,
    checks: &'a [DoctorCheckRow],
}

impl DoctorArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let location = context.settings.store()?;
        let (store, about) = match RecordStore::open_read_only(&location) {
            Ok(store) => (Some(store), None),
            Err(Error::Absent { store }) => {
                (None, Some((true, format!("none yet at {store}; the first run makes it"))))
            }
            Err(error) => (None, Some((false, error.to_string()))),
        };
        let mut found: Vec<DoctorCheckRow> = check_host(&KernelRoots::default(), store.as_ref())
            .into_iter()
            .map(|check| check_row(check.name, check.ok, check.text, check.fix))
            .collect();
        found.extend(about.map(|(ok, text)| check_row("store", ok, text, None)));
        let console = &context.console;
        let diagnosis = DoctorRecord { schema: "metier.doctor/1", checks: &found };
        let rows = found.iter().map(|check| {
            let words = [check.name.clone(), check.ok.to_string(), check.needed.to_string()];
            words.into_iter().chain([check.text.clone(), check.fix.clone().unwrap_or_default()]).collect()
        });
        console.print_record(&diagnosis, ["name", "ok", "needed", "text", "fix"], rows, |paint| {
            if console.quiet { String::new() } else { checks_table(&found, paint) }
        })?;
        let lacking = found.iter().any(|check| check.needed && !check.ok);
        Ok(if lacking { CliExitCode::PARTIAL } else { CliExitCode::OK })
    }
}

fn check_row(name: &str, ok: bool, text: String, fix: Option<String>) -> DoctorCheckRow {
    DoctorCheckRow { name: name.to_string(), ok, needed: REQUIRED_CHECKS.contains(&name), text, fix }
}

fn checks_table(checks: &[DoctorCheckRow], paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    for check in checks {
        let (mark, style): (_, fn(StreamPaint, &str) -> String) = match (check.ok, check.needed) {
            (true, _) => ("ok", StreamPaint::green),
            (false, true) => ("missing", StreamPaint::red),
            (false, false) => ("absent", StreamPaint::yellow),
        };
        table.add_row(vec![
            TableCell::text(mark).styled(style),
            TableCell::text(&check.name).styled(StreamPaint::bold),
            TableCell::text(&check.text),
        ]);
        if let Some(fix) = &check.fix {
            table.add_row(vec![
                TableCell::text(""),
                TableCell::text(""),
                TableCell::text(format!("fix: {fix}")).styled(StreamPaint::cyan),
            ]);
        }
    }
    table.render(paint)
}
