//! `metier config`: every setting, its value and who set it.

use clap::Args;
use serde_json::json;

use super::Room;
use crate::config::{KEYS, Origin};
use crate::exit::{Code, usage};
use crate::output::{Cell, Paint, Table};

const EXAMPLES: &str = "Examples:
  metier config                          every setting, its value and where it comes from
  metier config store                    one value alone
  METIER_OUTPUT=json metier config       the same, as JSON
  $EDITOR \"$(metier config --path)\"      change them";

/// Show settings and where each comes from
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "A flag wins over the environment, that over the file, that over the default. Secrets are never shown.")]
pub struct Config {
    /// Print only this setting's value
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Print the path of the settings file, whether it is there or not
    #[arg(long, conflicts_with = "key")]
    path: bool,
}

impl Config {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let settings = &room.settings;
        if self.path {
            let Some((path, _)) = settings.file() else {
                return Err(usage(
                    "no place for a settings file: neither XDG_CONFIG_HOME nor HOME is an absolute path; name one with --config FILE",
                ));
            };
            room.console.print(&format!("{}\n", path.display()))?;
            return Ok(Code::OK);
        }
        if let Some(name) = &self.key {
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
                return Err(usage(format!("there is no setting {name:?}; want one of {}", known.join(", "))));
            };
            room.console.print(&format!("{}\n", settings.shown(key).unwrap_or_default()))?;
            return Ok(Code::OK);
        }
        settings.check()?;
        let rows = KEYS.iter().map(|key| {
            let value = settings.shown(key).unwrap_or_default();
            vec![key.name.to_string(), value, origin(room, key.name), key.variable()]
        });
        let header = ["key", "value", "origin", "variable"];
        room.console.show(&record(room), header, rows, |_| self.table(room))?;
        Ok(Code::OK)
    }

    fn table(&self, room: &Room) -> String {
        let mut table = Table::with_header(&["KEY", "VALUE", "ORIGIN", "VARIABLE", "MEANING"]);
        for key in KEYS {
            let value =
                room.settings.shown(key).filter(|value| !value.is_empty()).unwrap_or_else(|| "–".into());
            let set = room.settings.get(key.name).is_some_and(|setting| setting.origin != Origin::Default);
            let value = Cell::text(value);
            table.row(vec![
                Cell::text(key.name),
                if set { value.styled(Paint::cyan) } else { value },
                Cell::text(origin(room, key.name)),
                Cell::text(key.variable()).styled(Paint::dim),
                Cell::text(key.about).styled(Paint::dim),
            ]);
        }
        let file = match room.settings.file() {
            Some((path, true)) => format!("file: {}", path.display()),
            Some((path, false)) => format!("file: {} (not there)", path.display()),
            None => "file: none".to_string(),
        };
        format!("{}\n{}\n", table.render(room.console.paint), room.console.paint.dim(&file))
    }
}

fn origin(room: &Room, name: &str) -> String {
    room.settings.get(name).map(|setting| setting.origin.to_string()).unwrap_or_default()
}

fn record(room: &Room) -> serde_json::Value {
    let settings: Vec<serde_json::Value> = KEYS
        .iter()
        .map(|key| {
            json!({
                "key": key.name,
                "value": room.settings.shown(key),
                "origin": origin(room, key.name),
                "variable": key.variable(),
                "flag": key.flag,
                "about": key.about,
            })
        })
        .collect();
    let file = room.settings.file();
    json!({
        "schema": "metier.config/1",
        "file": file.map(|(path, _)| path.display().to_string()),
        "file_exists": file.is_some_and(|(_, there)| there),
        "settings": settings,
    })
}
