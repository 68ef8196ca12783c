//! `metier token`: prints the token that other users need to read and start runs here.
//!
//! The token is a file in the data folder, readable only for its owner, created at first use.
//! Servers with their own token (`--token-file`, METIER_TOKEN) do not use it.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_store::atomic_file;

use super::CommandContext;
use crate::config::data_folder;
use crate::exit::{CliExitCode, usage_error};

const EXAMPLES: &str = "Examples:
  metier token                                                     print it; it is made where there is none
  metier token --new                                               make another; a server takes it from its next start on
  curl -H \"Authorization: Bearer $(metier token)\" …               show it to the API
  curl -u \"me:$(metier token)\" -X POST …/buildWithParameters      show it as Jenkins's clients do";

/// Largest token file; a larger one was named by mistake.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Print the token that other users need to read and start runs here
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "You need none yourself: what comes over loopback from the user that runs the server is let in.")]
pub struct TokenArgs {
    /// Replace the token by a new one
    #[arg(long)]
    new: bool,
}

impl TokenArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let path = token_path()?;
        if self.new {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        context.console.print(&format!("{}\n", read_or_create(&path)?))?;
        Ok(CliExitCode::OK)
    }
}

/// Path of the token.
pub fn token_path() -> anyhow::Result<PathBuf> {
    let folder = data_folder().ok_or_else(|| {
        usage_error(
            "no place for a token: neither XDG_DATA_HOME nor HOME is an absolute path; set one of them",
        )
    })?;
    Ok(folder.join("token"))
}

/// Reads the token; creates it if there is none.
pub fn read_or_create(path: &Path) -> anyhow::Result<String> {
    match read_token(path) {
        Err(error) if is_not_found(&error) => {}
        other => return other,
    }
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .context("cannot read /dev/urandom for a token")?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let failed = || format!("cannot write the token to {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(failed)?;
    }
    // Created atomically for concurrent readers. If another process creates it first, its token is
    // used.
    let line = format!("{token}\n");
    atomic_file::create_new_file(path, atomic_file::PRIVATE_FILE_MODE, line.as_bytes())
        .with_context(failed)?;
    read_token(path)
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let file =
        std::fs::File::open(path).with_context(|| format!("cannot read the token {}", path.display()))?;
    let mode = file.metadata().map(|meta| meta.mode()).unwrap_or_default();
    if mode & 0o077 != 0 {
        return Err(anyhow::anyhow!(
            "others can read the token {}; `chmod 600` it, or make another with `metier token --new`",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_BYTES)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read the token {}", path.display()))?;
    Ok(text.trim().to_string())
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}
