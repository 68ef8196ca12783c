//! `metier serve`: one role of Kepler's power stack alone, until INT or TERM.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use metier_power::estimate::Estimator;
use metier_power::node::{self, MachineSpec};
use metier_power::pipeline::Shelf;
use metier_server::Secret;
use metier_server::kepler::{self, Models};

use super::Room;
use crate::exit::{Code, usage};

const EXAMPLES: &str = "Examples:
  metier serve estimator                                 /tmp/estimator.sock, for Kepler's exporter
  metier serve models --models ec2-0.7.11.zip            http://127.0.0.1:8100
  metier serve models --listen 0.0.0.0:8100 --open models --socket /tmp/estimator.sock";

/// Serve one role alone: Kepler's estimator or model server
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Serve {
    #[command(subcommand)]
    role: Role,
}

/// The roles.
#[derive(Debug, Subcommand)]
enum Role {
    /// Answer Kepler's exporter on a unix socket
    #[command(before_help = "Examples:
  metier serve estimator
  metier serve estimator --socket /tmp/estimator.sock --models /var/lib/kepler/models")]
    Estimator(EstimatorRole),
    /// Give predictors of power to whoever asks
    #[command(before_help = "Examples:
  metier serve models --models specpower-0.7.11.zip --models ec2-0.7.11.zip
  METIER_TOKEN=… metier serve models --uploads /var/lib/metier/predictors")]
    Models(ModelsRole),
}

/// Which predictors, and for which machine.
#[derive(Debug, Args)]
struct Predictors {
    /// Folder or zip with a pipeline of kepler-model-db, or a folder of such; the last that knows a source answers for it
    #[arg(long, value_name = "PATH")]
    models: Vec<PathBuf>,
    /// File that says what machine this is: processor, cores, chips, memory in GiB, frequency in MHz
    #[arg(long, value_name = "FILE")]
    machine_spec: Option<PathBuf>,
}

/// The estimator.
#[derive(Debug, Args)]
struct EstimatorRole {
    /// Where to listen
    #[arg(long, value_name = "PATH", default_value = kepler::SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    predictors: Predictors,
}

/// The model server.
#[derive(Debug, Args)]
struct ModelsRole {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8100")]
    listen: SocketAddr,
    /// Door that needs no token on an address that is not loopback: models
    #[arg(long, value_name = "DOOR", value_parser = ["models"])]
    open: Vec<String>,
    /// File that holds the token that uploads and reloads need
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Folder for predictors that are uploaded; without one none are taken
    #[arg(long, value_name = "FOLDER")]
    uploads: Option<PathBuf>,
    /// Serve the estimator too, on that socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    predictors: Predictors,
}

impl Serve {
    /// Serves.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        crate::log::start(&room.console, room.verbose, crate::log::SERVER)?;
        match &self.role {
            Role::Estimator(role) => role.run(room),
            Role::Models(role) => role.run(room),
        }
    }
}

/// Largest file that describes a machine.
const SPEC_BYTES: u64 = 64 << 10;

impl Predictors {
    fn shelf(&self, room: &Room, uploads: Option<PathBuf>) -> anyhow::Result<Shelf> {
        let (shelf, warnings) = Shelf::open(self.models.clone(), uploads)?;
        for warning in warnings {
            room.console.warn(warning);
        }
        Ok(shelf)
    }

    /// The machine that a file describes, else Kepler's file, else this one.
    fn machine(&self) -> anyhow::Result<MachineSpec> {
        const KEPLERS: &str = "/etc/kepler/models/machine/spec.json";
        if let Some(path) = &self.machine_spec {
            return spec(path).map_err(|why| usage(format!("--machine-spec is {}: {why}", path.display())));
        }
        let keplers = Path::new(KEPLERS);
        if keplers.exists()
            && let Ok(machine) = spec(keplers)
        {
            return Ok(machine);
        }
        Ok(node::discover::discover(Path::new("/proc"), Path::new("/sys")))
    }
}

fn spec(path: &Path) -> Result<MachineSpec, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(SPEC_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("{error}; want {{\"processor\": …, \"cores\": …}}"))
}

impl EstimatorRole {
    fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let registry = (*self.predictors.shelf(room, None)?.registry()).clone();
        let estimator = Arc::new(Estimator::new(registry, self.predictors.machine()?)?);
        let console = room.console;
        kepler::run_estimator(&self.socket, estimator, || {
            console.note(format!("metier: ready at {}; Ctrl-C ends it", self.socket.display()));
        })?;
        Ok(Code::OK)
    }
}

impl ModelsRole {
    fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let token = match &self.token_file {
            Some(path) => Some(super::up::read_token(path)?),
            None => room.settings.secret("up.token").map(str::to_string),
        };
        let token =
            token.map(|token| Secret::new(&token)).transpose().map_err(|error| usage(error.to_string()))?;
        let is_open = !self.open.is_empty();
        kepler::check(self.listen, token.is_some(), is_open).map_err(|error| usage(error.to_string()))?;
        let shelf = Arc::new(self.predictors.shelf(room, self.uploads.clone())?);
        let is_loopback = self.listen.ip().to_canonical().is_loopback();
        let models = Models::new(shelf.clone(), token, !is_loopback && !is_open);
        let estimator = match &self.socket {
            Some(socket) => {
                let estimator = Estimator::new((*shelf.registry()).clone(), self.predictors.machine()?)?;
                Some((socket.as_path(), Arc::new(estimator)))
            }
            None => None,
        };
        let console = room.console;
        kepler::run_models(self.listen, models, estimator, |address| {
            console.note(format!("metier: ready at http://{address}/; Ctrl-C ends it"));
        })?;
        Ok(Code::OK)
    }
}
