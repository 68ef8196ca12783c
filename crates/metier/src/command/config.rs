//! `metier config`: shows every setting, its value and its source.

use clap::Args;
use serde_json::json;

use super::CommandContext;
use crate::config::{SETTING_KEYS, SettingOrigin};
use crate::exit::{CliExitCode, usage_error};
use crate::output::{StreamPaint, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier config                          every setting, its value and where it comes from
  metier config store                    one value alone
  METIER_OUTPUT=json metier config       the same, as JSON
  $EDITOR \"$(metier config --path)\"      change them";

/// Show the settings and the source of each
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "A flag wins over the environment, that over the file, that over the default. Secrets are never shown.")]
pub struct ConfigArgs {
    /// Print only this setting's value
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Print the path of the settings file, even if it does not exist
    #[arg(long, conflicts_with = "key")]
    path: bool,
}

impl ConfigArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let settings = &context.settings;
        if self.path {
            let Some((path, _)) = settings.file() else {
                return Err(usage_error(
                    "no place for a settings file: neither XDG_CONFIG_HOME nor HOME is an absolute path; name one with --config FILE",
                ));
            };
            context.console.print(&format!("{}\n", path.display()))?;
            return Ok(CliExitCode::OK);
        }
        if let Some(name) = &self.key {
            let Some(key) = SETTING_KEYS.iter().find(|key| key.name == name) else {
                let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.name).collect();
                return Err(usage_error(format!(
                    "there is no setting {name:?}; want one of {}",
                    known.join(", ")
                )));
            };
            context.console.print(&format!("{}\n", settings.display_value(key).unwrap_or_default()))?;
            return Ok(CliExitCode::OK);
        }
        settings.check()?;
        let rows = SETTING_KEYS.iter().map(|key| {
            let value = settings.display_value(key).unwrap_or_default();
            vec![key.name.to_string(), value, origin_text(context, key.name), key.variable()]
        });
        let header = ["key", "value", "origin", "variable"];
        context
            .console
            .print_record(&settings_record(context), header, rows, |_| self.settings_table(context))?;
        Ok(CliExitCode::OK)
    }

    fn settings_table(&self, context: &CommandContext) -> String {
        let mut table = TextTable::with_header(&["KEY", "VALUE", "ORIGIN", "VARIABLE", "MEANING"]);
        for key in SETTING_KEYS {
            let value = context
                .settings
                .display_value(key)
                .filter(|value| !value.is_empty())
                .unwrap_or_else(|| "–".into());
            let set = context
                .settings
                .get(key.name)
                .is_some_and(|setting| setting.origin != SettingOrigin::Default);
            let value = TableCell::text(value);
            table.add_row(vec![
                TableCell::text(key.name),
                if set { value.styled(StreamPaint::cyan) } else { value },
                TableCell::text(origin_text(context, key.name)),
                TableCell::text(key.variable()).styled(StreamPaint::dim),
                TableCell::text(key.about).styled(StreamPaint::dim),
            ]);
        }
        let file = match context.settings.file() {
            Some((path, true)) => format!("file: {}", path.display()),
            Some((path, false)) => format!("file: {} (not there)", path.display()),
            None => "file: none".to_string(),
        };
        format!("{}\n{}\n", table.render(context.console.paint), context.console.paint.dim(&file))
    }
}

fn origin_text(context: &CommandContext, name: &str) -> String {
    context.settings.get(name).map(|setting| setting.origin.to_string()).unwrap_or_default()
}

fn settings_record(context: &CommandContext) -> serde_json::Value {
    let settings: Vec<serde_json::Value> = SETTING_KEYS
        .iter()
        .map(|key| {
            json!({
                "key": key.name,
                "value": context.settings.display_value(key),
                "origin": origin_text(context, key.name),
                "variable": key.variable(),
                "flag": key.flag,
                "about": key.about,
            })
        })
        .collect();
    let file = context.settings.file();
    json!({
        "schema": "metier.config/1",
        "file": file.map(|(path, _)| path.display().to_string()),
        "file_exists": file.is_some_and(|(_, there)| there),
        "settings": settings,
    })
}
