//! `metier completions`: prints completion scripts for shells.

use clap::Args;
use clap_complete::Shell;

use crate::exit::CliExitCode;

const EXAMPLES: &str = "Examples:
  metier completions bash > ~/.local/share/bash-completion/completions/metier
  metier completions zsh > ~/.zfunc/_metier
  metier completions fish > ~/.config/fish/completions/metier.fish";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(&self, mut definition: clap::Command) -> anyhow::Result<CliExitCode> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut definition, "metier", &mut text);
        crate::console::write_stdout(|out| Ok(out.write_all(&text)?))?;
        Ok(CliExitCode::OK)
    }
}
