//! `metier serve`: serves one role of Kepler's power stack, until INT or TERM.

mod trainer;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::kepler_settings::KeplerSettings;
use metier_power::node::{self, MachineSpec};
use metier_power::pipeline::{ModelServerClient, PipelineLocation};
use metier_server::AccessToken;
use metier_server::kepler::{self, FetchConfig, KeplerServices};

use super::CommandContext;
use crate::config::FlagSettings;
use crate::exit::{CliExitCode, usage_error};
use trainer::ServeTrainerArgs;
pub use trainer::{OnlinePaceArgs, parse_label};

const EXAMPLES: &str = "Examples:
  metier serve estimator                                 /tmp/estimator.sock, for Kepler's exporter
  metier serve models --models ec2-0.7.11.zip            http://127.0.0.1:8100
  metier serve models --models https://example.org/models/v0.7/ec2-0.7.11.zip
  metier serve trainer --prometheus http://127.0.0.1:9090 --pipelines /var/lib/metier/power
  metier serve models --listen 0.0.0.0:8100 --open models --socket /tmp/estimator.sock";

/// Serve one role alone: Kepler's estimator, model server or trainer
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct ServeArgs {
    /// Further accepted Host header: a name by which clients address this service [METIER_UP_HOSTS]
    #[arg(long, value_name = "NAME", global = true)]
    host: Vec<String>,
    #[command(subcommand)]
    role: ServeCommand,
}

/// The roles.
#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Serve the estimator for Kepler's exporter on a unix socket
    #[command(before_help = "Examples:
  metier serve estimator
  metier serve estimator --socket /tmp/estimator.sock --models /var/lib/kepler/models")]
    Estimator(ServeEstimatorArgs),
    /// Serve power predictors over HTTP
    #[command(before_help = "Examples:
  metier serve models --models specpower-0.7.11.zip --models ec2-0.7.11.zip
  METIER_TOKEN=… metier serve models --uploads /var/lib/metier/predictors")]
    Models(ServeModelsArgs),
    /// Serve the trainer: on request, and from Prometheus in the background
    #[command(before_help = "Examples:
  metier serve trainer                                   POST http://127.0.0.1:8102/train
  metier serve trainer --prometheus http://127.0.0.1:9090 --pipelines /var/lib/metier/power --socket /tmp/estimator.sock")]
    Trainer(ServeTrainerArgs),
}

/// The predictors and the machine.
#[derive(Debug, Clone, Default, Args)]
pub struct PowerPredictorArgs {
    /// Pipeline of kepler-model-db: a folder or zip, a folder of them, or the address of a zip; the
    /// last one with a source is used for it
    #[arg(long, value_name = "PATH|URL")]
    models: Vec<String>,
    /// Cache folder of fetched pipelines [MODEL_PATH, MNT_PATH; default: below the user's cache,
    /// else the temporary folder]
    #[arg(long, value_name = "FOLDER")]
    downloads: Option<PathBuf>,
    /// The cache folder from Kepler's settings.
    #[arg(skip)]
    downloads_of_settings: Option<PathBuf>,
    /// Folder of the store's pipelines in use.
    #[arg(skip)]
    stored: Option<PathBuf>,
    /// File that describes this machine: processor, cores, chips, memory in GiB, frequency in MHz
    #[arg(long, value_name = "FILE")]
    machine_spec: Option<PathBuf>,
    /// Error that ranks predictors, smallest first [ERROR_KEY; default: mae]
    #[arg(long, value_name = "KEY")]
    error_key: Option<String>,
    /// Folder of Kepler's settings, a file for each key [CONFIG_PATH; default:
    /// /etc/kepler/kepler.config]
    #[arg(long, short = 'c', value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
    /// Log level [default: info]
    #[arg(long, short = 'l', value_name = "LEVEL", value_parser = ["debug", "info", "warn", "error"])]
    log_level: Option<String>,
}

/// The estimator.
#[derive(Debug, Args)]
struct ServeEstimatorArgs {
    /// Path of the unix socket
    #[arg(long, value_name = "PATH", default_value = kepler::DEFAULT_SOCKET_PATH)]
    socket: PathBuf,
    /// Model server to fetch predictors from [MODEL_SERVER_URL, where MODEL_SERVER_ENABLE is true]
    #[arg(long, value_name = "URL")]
    model_server: Option<String>,
    /// Serve health (/healthz, /readyz) and the predictors in use (/metrics) on this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Interface that needs no token on an address that is not loopback: metrics
    #[arg(long, value_name = "INTERFACE", value_parser = ["metrics"])]
    open: Vec<String>,
    #[command(flatten)]
    predictors: PowerPredictorArgs,
}

/// The model server.
#[derive(Debug, Args)]
struct ServeModelsArgs {
    /// Address to listen on [default: 127.0.0.1 and MODEL_SERVER_PORT, else 8100]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Interface that needs no token on an address that is not loopback: models
    #[arg(long, value_name = "INTERFACE", value_parser = ["models"])]
    open: Vec<String>,
    /// File with the token for uploads and reloads
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Folder for uploaded predictors; uploads are refused without it
    #[arg(long, value_name = "FOLDER")]
    uploads: Option<PathBuf>,
    /// Also serve the estimator on this unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    predictors: PowerPredictorArgs,
}

impl ServeArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let predictors = match &self.role {
            ServeCommand::Estimator(role) => &role.predictors,
            ServeCommand::Models(role) => &role.predictors,
            ServeCommand::Trainer(role) => role.predictors(),
        };
        let level = predictors.log_level.as_deref().unwrap_or(crate::log::SERVER_LEVEL);
        crate::log::start_logging(&context.console, context.verbose, level)?;
        match &self.role {
            ServeCommand::Estimator(role) => role.run(context),
            ServeCommand::Models(role) => role.run(context),
            ServeCommand::Trainer(role) => role.run(context),
        }
    }

    /// The settings that these flags set.
    pub fn setting_values(&self) -> FlagSettings {
        vec![("up.hosts", (!self.host.is_empty()).then(|| self.host.join(",")))]
    }
}

/// Largest machine description file.
const MAX_SPEC_BYTES: u64 = 64 << 10;

impl PowerPredictorArgs {
    /// The predictors at these paths, for this machine.
    pub fn from_models(models: Vec<String>) -> Self {
        Self { models, ..Self::default() }
    }

    /// Kepler's own settings; flags override them.
    pub fn kepler_settings(&self) -> KeplerSettings {
        let settings = KeplerSettings::open(self.config_dir.as_deref(), |key| std::env::var(key).ok());
        if let Some(job) = settings.vm_job() {
            metier_power::extract::set_vm_job(&job);
        }
        settings
    }

    /// Adds the pipelines of Kepler's settings if no flag names any.
    pub fn or_settings(&self, settings: &KeplerSettings) -> Self {
        let models = if self.models.is_empty() { settings.pipelines() } else { self.models.clone() };
        let error_key = self.error_key.clone().or_else(|| settings.error_key());
        Self { models, error_key, downloads_of_settings: settings.downloads(), ..self.clone() }
    }

    /// Adds the pipelines of the store; pipelines that flags name have precedence.
    pub fn with_stored(self, stored: Option<PathBuf>) -> Self {
        Self { stored, ..self }
    }

    /// The error that ranks predictors.
    pub fn error_key(&self) -> String {
        self.error_key.clone().unwrap_or_else(|| "mae".to_string())
    }

    /// Whether there are predictors besides the shipped ones.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty() && self.stored.is_none()
    }

    /// Folder of fetched pipelines.
    fn download_folder(&self) -> anyhow::Result<PathBuf> {
        let folder = self.downloads.clone().or_else(|| {
            let places =
                self.downloads_of_settings.clone().into_iter().chain(crate::config::pipeline_folder());
            crate::config::writable_folder(places, "pipelines")
        });
        let why = "there is no folder to keep predictors in that are fetched; name a --downloads FOLDER";
        folder.ok_or_else(|| usage_error(why))
    }

    /// Opens the pipelines and warns about unreadable ones. The folder of predictors trained or
    /// fetched at run time comes last, and so has precedence.
    pub fn open_catalog(
        &self,
        context: &CommandContext,
        uploads: Option<PathBuf>,
        online: Option<&Path>,
    ) -> anyhow::Result<Arc<PipelineCatalog>> {
        // Predictors of custom metrics are found only if the metrics are known.
        super::power::set_third_party_metrics(&[])?;
        let is_address = |place: &String| place.contains("://") && !place.starts_with("file://");
        let folder =
            if self.models.iter().any(is_address) { self.download_folder()? } else { PathBuf::default() };
        let stored = self.stored.iter().map(|folder| Ok(PipelineLocation::Path(folder.clone())));
        let named = self.models.iter().map(|place| PipelineLocation::read(place, &folder));
        let mut places = stored
            .chain(named)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| usage_error(error.to_string()))?;
        if let Some(folder) = online {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            places.push(PipelineLocation::Path(folder.to_path_buf()));
        }
        let (shelf, warnings) = PipelineCatalog::open(places, uploads)?;
        for warning in warnings {
            context.console.warn(warning);
        }
        Ok(Arc::new(shelf))
    }

    /// Builds the estimator of these predictors.
    pub fn build_estimator(&self, shelf: &PipelineCatalog) -> anyhow::Result<Arc<PowerEstimator>> {
        let estimator = PowerEstimator::new((*shelf.registry()).clone(), self.load_machine_spec()?)?;
        Ok(Arc::new(estimator.with_error_key(&self.error_key())))
    }

    /// The machine of the flag's file, else of Kepler's file, else this one.
    fn load_machine_spec(&self) -> anyhow::Result<MachineSpec> {
        const KEPLERS: &str = "/etc/kepler/models/machine/spec.json";
        if let Some(path) = &self.machine_spec {
            return read_machine_spec(path)
                .map_err(|why| usage_error(format!("--machine-spec is {}: {why}", path.display())));
        }
        let keplers = Path::new(KEPLERS);
        if keplers.exists()
            && let Ok(machine) = read_machine_spec(keplers)
        {
            return Ok(machine);
        }
        Ok(node::discover::discover(Path::new("/proc"), Path::new("/sys")))
    }
}

fn read_machine_spec(path: &Path) -> Result<MachineSpec, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_SPEC_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("{error}; want {{\"processor\": …, \"cores\": …}}"))
}

impl ServeEstimatorArgs {
    fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        metier_linux::allocator::tune_for_server();
        let settings = self.predictors.kepler_settings();
        let predictors = self.predictors.or_settings(&settings);
        let asking = self.fetch_config(&predictors, &settings)?;
        let folder = asking.as_ref().and_then(|asking| asking.folder.parent());
        let shelf = predictors.open_catalog(context, None, folder)?;
        let estimator = Some(predictors.build_estimator(&shelf)?);
        let services = KeplerServices {
            socket: Some(self.socket.clone()),
            metrics: self.listen,
            is_open: !self.open.is_empty(),
            estimator,
            asking,
            ..KeplerServices::new(shelf)
        };
        run_services(context, services)
    }

    /// Where to fetch missing predictors; `None` if no server and no initial pipeline is set.
    fn fetch_config(
        &self,
        predictors: &PowerPredictorArgs,
        settings: &KeplerSettings,
    ) -> anyhow::Result<Option<FetchConfig>> {
        let server = match &self.model_server {
            Some(address) => Some(ModelServerClient::new(&model_route(address))),
            None => settings.model_server().map(|address| ModelServerClient::new(&address)),
        };
        let server = server.transpose().map_err(|error| usage_error(error.to_string()))?;
        let initial = settings.initial();
        if server.is_none() && initial.is_empty() {
            return Ok(None);
        }
        let folder = predictors.download_folder()?.join("asked").join("model-server");
        Ok(Some(FetchConfig { server, initial, folder }))
    }
}

/// The address of `/model` of a server, if the path is missing.
fn model_route(address: &str) -> String {
    let address = if address.contains("://") { address.to_string() } else { format!("http://{address}") };
    let after = address.split_once("://").map_or("", |(_, after)| after);
    match after.trim_end_matches('/').contains('/') {
        true => address,
        false => format!("{}/model", address.trim_end_matches('/')),
    }
}

impl ServeModelsArgs {
    fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        metier_linux::allocator::tune_for_server();
        let token = load_token(context, self.token_file.as_deref())?;
        let settings = self.predictors.kepler_settings();
        let predictors = self.predictors.or_settings(&settings);
        let port = settings.port().map_err(|error| usage_error(error.to_string()))?;
        let local = || SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(kepler::MODELS_PORT)));
        let shelf = predictors.open_catalog(context, self.uploads.clone(), None)?;
        let services = KeplerServices {
            socket: self.socket.clone(),
            models: Some(self.listen.unwrap_or_else(local)),
            is_open: !self.open.is_empty(),
            token,
            estimator: self.socket.as_ref().map(|_| predictors.build_estimator(&shelf)).transpose()?,
            error_key: predictors.error_key(),
            ..KeplerServices::new(shelf)
        };
        run_services(context, services)
    }
}

/// The token, from the file or the environment.
fn load_token(context: &CommandContext, file: Option<&Path>) -> anyhow::Result<Option<AccessToken>> {
    let token = match file {
        Some(path) => Some(super::up::read_token(path)?),
        None => context.settings.secret("up.token").map(str::to_string),
    };
    token.map(|token| AccessToken::new(&token)).transpose().map_err(|error| usage_error(error.to_string()))
}

fn run_services(context: &CommandContext, mut services: KeplerServices) -> anyhow::Result<CliExitCode> {
    services.http.hosts = context.settings.list("up.hosts");
    services.check().map_err(|error| usage_error(error.to_string()))?;
    let console = context.console;
    services.run(|opened| {
        let places = opened.describe().unwrap_or_default();
        console.note(format!("metier: ready at {places}; Ctrl-C ends it"));
    })?;
    Ok(CliExitCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_server_may_be_named_with_or_without_its_route() {
        for (named, route) in [
            ("models:8100", "http://models:8100/model"),
            ("http://models:8100/", "http://models:8100/model"),
            ("https://host/kepler/model", "https://host/kepler/model"),
        ] {
            assert_eq!(model_route(named), route);
        }
    }
}
