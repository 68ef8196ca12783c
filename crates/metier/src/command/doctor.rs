//! `metier doctor`: what this host lets us measure, and the exact fix for what it does not.

use clap::Args;
use metier_linux::Roots;
use metier_measure::doctor::checks;
use metier_store::{Error, Store};
use serde::Serialize;

use super::Room;
use crate::exit::Code;
use crate::output::{Cell, Paint, Table};

const EXAMPLES: &str = "Examples:
  metier doctor                  every check, with the fix where there is one
  metier doctor -q && deploy     only whether all that exact numbers need is there
  metier doctor -o json          for programs (metier.doctor/1)";

/// What exact figures need. The others are good to have, and many hosts have no such sensor at all.
const NEEDED: [&str; 3] = ["control group", "process events", "store"];

/// Check what this host lets us measure
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "Exit code 0 if everything that exact figures need is there, 4 if not.")]
pub struct Doctor {}

#[derive(Serialize)]
struct Check {
    name: String,
    ok: bool,
    needed: bool,
    text: String,
    fix: Option<String>,
}

#[derive(Serialize)]
struct Diagnosis<'a> {
    schema: &'static str,
    checks: &'a [Check],
}

impl Doctor {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let location = room.settings.store()?;
        let (store, about) = match Store::open_read_only(&location) {
            Ok(store) => (Some(store), None),
            Err(Error::Absent { store }) => {
                (None, Some((true, format!("none yet at {store}; the first run makes it"))))
            }
            Err(error) => (None, Some((false, error.to_string()))),
        };
        let mut found: Vec<Check> = checks(&Roots::default(), store.as_ref())
            .into_iter()
            .map(|check| check_of(check.name, check.ok, check.text, check.fix))
            .collect();
        found.extend(about.map(|(ok, text)| check_of("store", ok, text, None)));
        let console = &room.console;
        let diagnosis = Diagnosis { schema: "metier.doctor/1", checks: &found };
        let rows = found.iter().map(|check| {
            let words = [check.name.clone(), check.ok.to_string(), check.needed.to_string()];
            words.into_iter().chain([check.text.clone(), check.fix.clone().unwrap_or_default()]).collect()
        });
        console.show(&diagnosis, ["name", "ok", "needed", "text", "fix"], rows, |paint| {
            if console.quiet { String::new() } else { table(&found, paint) }
        })?;
        let lacking = found.iter().any(|check| check.needed && !check.ok);
        Ok(if lacking { Code::PARTIAL } else { Code::OK })
    }
}

fn check_of(name: &str, ok: bool, text: String, fix: Option<String>) -> Check {
    Check { name: name.to_string(), ok, needed: NEEDED.contains(&name), text, fix }
}

fn table(checks: &[Check], paint: Paint) -> String {
    let mut table = Table::default();
    for check in checks {
        let (mark, style): (_, fn(Paint, &str) -> String) = match (check.ok, check.needed) {
            (true, _) => ("ok", Paint::green),
            (false, true) => ("missing", Paint::red),
            (false, false) => ("absent", Paint::yellow),
        };
        table.row(vec![
            Cell::text(mark).styled(style),
            Cell::text(&check.name).styled(Paint::bold),
            Cell::text(&check.text),
        ]);
        if let Some(fix) = &check.fix {
            table.row(vec![
                Cell::text(""),
                Cell::text(""),
                Cell::text(format!("fix: {fix}")).styled(Paint::cyan),
            ]);
        }
    }
    table.render(paint)
}
