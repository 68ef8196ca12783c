//! `metier man`: generates manual pages from the definitions of the help.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit::CliExitCode;

const EXAMPLES: &str = "Examples:
  metier man | man -l -                            read metier(1)
  metier man --to ~/.local/share/man/man1          write metier.1, metier-run.1, …";

/// Print or write the manual pages
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct ManArgs {
    /// Write one page for each command into this folder
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

impl ManArgs {
    /// Prints or writes the pages.
    pub fn run(&self, mut whole: clap::Command) -> anyhow::Result<CliExitCode> {
        whole.build();
        let Some(folder) = &self.to else {
            crate::console::write_stdout(|out| Ok(out.write_all(&render_page(&whole, None)?)?))?;
            return Ok(CliExitCode::OK);
        };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let mut pages = vec![("metier".to_string(), render_page(&whole, None)?)];
        for command in whole.get_subcommands() {
            let name = format!("metier-{}", command.get_name());
            pages.push((name.clone(), render_page(command, Some(name))?));
        }
        for (name, text) in pages {
            let path = folder.join(format!("{name}.1"));
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(CliExitCode::OK)
    }
}

/// One page: description, synopsis, examples, then every flag.
fn render_page(command: &clap::Command, name: Option<String>) -> std::io::Result<Vec<u8>> {
    let mut command = command.clone();
    if let Some(name) = name {
        command = command.display_name(name);
    }
    let examples = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    let page =
        Page::new(command.clone()).manual("metier").source(concat!("metier ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    let mut lines = Roff::new();
    lines.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.lines().skip(1) {
        lines.text([roman(line)]);
    }
    lines.control("fi", []);
    text.write_all(lines.render().as_bytes())?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut codes = Roff::new();
    codes.control("SH", ["EXIT CODES"]);
    for (code, meaning) in crate::exit::EXIT_CODES {
        codes.control("TP", []).text([bold(*code)]).text([roman(*meaning)]);
    }
    text.write_all(codes.render().as_bytes())?;
    Ok(text)
}
