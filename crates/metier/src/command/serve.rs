//! `metier serve`: one role of Kepler's power stack alone, until INT or TERM.

mod trainer;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use metier_power::estimate::Estimator;
use metier_power::node::{self, MachineSpec};
use metier_power::pipeline::{Place, Shelf};
use metier_server::Secret;
use metier_server::kepler::{self, Doors};

use super::Room;
use crate::exit::{Code, usage};
pub use trainer::Pace;
use trainer::TrainerRole;

const EXAMPLES: &str = "Examples:
  metier serve estimator                                 /tmp/estimator.sock, for Kepler's exporter
  metier serve models --models ec2-0.7.11.zip            http://127.0.0.1:8100
  metier serve models --models https://example.org/models/v0.7/ec2-0.7.11.zip
  metier serve trainer --prometheus http://127.0.0.1:9090 --pipelines /var/lib/metier/power
  metier serve models --listen 0.0.0.0:8100 --open models --socket /tmp/estimator.sock";

/// Serve one role alone: Kepler's estimator, model server or trainer
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
    /// Learn predictors of power: from what is sent, and from Prometheus while others work
    #[command(before_help = "Examples:
  metier serve trainer                                   POST http://127.0.0.1:8102/train
  metier serve trainer --prometheus http://127.0.0.1:9090 --pipelines /var/lib/metier/power --socket /tmp/estimator.sock")]
    Trainer(TrainerRole),
}

/// Which predictors, and for which machine.
#[derive(Debug, Default, Args)]
pub struct Predictors {
    /// Pipeline of kepler-model-db: a folder or zip, a folder of such, or the address of a zip; the last that knows a source answers for it
    #[arg(long, value_name = "PATH|URL")]
    models: Vec<String>,
    /// Folder where pipelines that are fetched are kept [default: below the user's cache]
    #[arg(long, value_name = "FOLDER")]
    downloads: Option<PathBuf>,
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
            Role::Trainer(role) => role.run(room),
        }
    }
}

/// Largest file that describes a machine.
const SPEC_BYTES: u64 = 64 << 10;

impl Predictors {
    /// Those at these places, for this machine.
    pub fn of(models: Vec<String>) -> Self {
        Self { models, ..Self::default() }
    }

    /// Opens them; what cannot be read is said. What is learned online comes last, and so is asked first.
    pub fn shelf(
        &self,
        room: &Room,
        uploads: Option<PathBuf>,
        online: Option<&Path>,
    ) -> anyhow::Result<Arc<Shelf>> {
        let folder = self.downloads.clone().or_else(crate::config::pipeline_folder);
        let is_address = |place: &String| place.contains("://") && !place.starts_with("file://");
        if folder.is_none() && self.models.iter().any(is_address) {
            return Err(usage(
                "there is no home to keep pipelines in that are fetched; name a --downloads FOLDER",
            ));
        }
        let folder = folder.unwrap_or_default();
        let places = self.models.iter().map(|place| Place::read(place, &folder));
        let mut places = places.collect::<Result<Vec<_>, _>>().map_err(|error| usage(error.to_string()))?;
        if let Some(folder) = online {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            places.push(Place::Path(folder.to_path_buf()));
        }
        let (shelf, warnings) = Shelf::open(places, uploads)?;
        for warning in warnings {
            room.console.warn(warning);
        }
        Ok(Arc::new(shelf))
    }

    /// Who answers with them.
    pub fn estimator(&self, shelf: &Shelf) -> anyhow::Result<Arc<Estimator>> {
        Ok(Arc::new(Estimator::new((*shelf.registry()).clone(), self.machine()?)?))
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
        let shelf = self.predictors.shelf(room, None, None)?;
        let doors = Doors {
            socket: Some(self.socket.clone()),
            models: None,
            trainer: None,
            online: None,
            is_open: false,
            token: None,
            estimator: Some(self.predictors.estimator(&shelf)?),
            shelf,
        };
        run(room, doors)
    }
}

impl ModelsRole {
    fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let token = token(room, self.token_file.as_deref())?;
        let shelf = self.predictors.shelf(room, self.uploads.clone(), None)?;
        let estimator = self.socket.as_ref().map(|_| self.predictors.estimator(&shelf)).transpose()?;
        let doors = Doors {
            socket: self.socket.clone(),
            models: Some(self.listen),
            trainer: None,
            online: None,
            is_open: !self.open.is_empty(),
            token,
            estimator,
            shelf,
        };
        run(room, doors)
    }
}

/// Gives back what reading pipelines took for a moment: a sidecar is there for long, and is counted by what it holds.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a call without arguments that matter, which only releases what the allocator has free.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The token, from the file or the environment.
fn token(room: &Room, file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    let token = match file {
        Some(path) => Some(super::up::read_token(path)?),
        None => room.settings.secret("up.token").map(str::to_string),
    };
    token.map(|token| Secret::new(&token)).transpose().map_err(|error| usage(error.to_string()))
}

fn run(room: &Room, doors: Doors) -> anyhow::Result<Code> {
    doors.check().map_err(|error| usage(error.to_string()))?;
    let console = room.console;
    give_back();
    doors.run(|opened| {
        let places = opened.in_words().unwrap_or_default();
        console.note(format!("metier: ready at {places}; Ctrl-C ends it"));
    })?;
    Ok(Code::OK)
}
