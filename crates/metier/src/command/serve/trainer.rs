//! `metier serve trainer`: trains power predictors on request, and from Prometheus in the
//! background.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metier_power::kepler_settings::KeplerSettings;
use metier_power::kepler_terms::PowerTrainer;
use metier_power::node::MachineAttribute;
use metier_power::training::MeasuredMachine;
use metier_prom::query::PromEndpoint;
use metier_server::kepler::{KeplerServices, OnlineTrainerConfig};

use super::super::{CommandContext, up};
use super::PowerPredictorArgs;
use crate::exit::{CliExitCode, usage_error};

/// The trainer.
#[derive(Debug, Args)]
pub struct ServeTrainerArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8102")]
    listen: SocketAddr,
    /// File with the token; required on any address but loopback
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Prometheus that scrapes Kepler's exporter, to train from in the background [PROM_SERVER]
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// File of the only certificate authority to accept for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_ca: Option<PathBuf>,
    /// File with the token for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// Accept any certificate of that Prometheus [PROM_SSL_DISABLE]
    #[arg(long)]
    prometheus_insecure: bool,
    /// Folder for predictors trained from Prometheus; an estimator with it as --models loads them
    /// by itself [MODEL_PATH, MNT_PATH; default: among the user's data, else in the temporary
    /// folder]
    #[arg(long, value_name = "FOLDER")]
    pipelines: Option<PathBuf>,
    #[command(flatten)]
    pace: OnlinePaceArgs,
    /// Also serve the estimator on this unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    predictors: PowerPredictorArgs,
}

/// Schedule and data of the online trainer.
#[derive(Debug, Clone, Default, Args)]
pub struct OnlinePaceArgs {
    /// Time between training rounds [SAMPLING_INTERVAL, PROM_QUERY_INTERVAL; default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    interval: Option<Duration>,
    /// Window of a round; its newest quarter is the validation set [PROM_QUERY_INTERVAL; default:
    /// 30m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    window: Option<Duration>,
    /// Time between rows [PROM_QUERY_STEP; default: 3s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    step: Option<Duration>,
    /// Trainer of AbsPower; can be repeated [default: XgboostFitTrainer and
    /// LinearRegressionTrainer]. DynPower is always a line through 0
    #[arg(long, value_name = "NAME")]
    trainer: Vec<String>,
    /// Label of this node's series in Prometheus, as instance=node1; can be repeated. If Prometheus
    /// scrapes several nodes, the default is the instance with this machine's name (NODE_NAME,
    /// else its host name)
    #[arg(long, value_name = "LABEL=VALUE", value_parser = parse_label)]
    only: Vec<(String, String)>,
}

/// A label and its value.
pub fn parse_label(text: &str) -> Result<(String, String), String> {
    let (label, value) = text.split_once('=').ok_or("want LABEL=VALUE")?;
    match metier_prom::is_label_name(label) {
        true => Ok((label.to_string(), value.to_string())),
        false => Err("want letters, digits and underscores before the =".to_string()),
    }
}

/// Name of this machine: the pod's Kubernetes node where the manifest gives it, else the host name.
fn node_name() -> Option<String> {
    let text = std::env::var("NODE_NAME").ok();
    let name = text.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    name.map(|name| name.trim().to_string()).filter(|name| !name.is_empty())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    crate::time::parse_duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("want {}", crate::time::DURATION))
}

/// Limit of rows in a window: Prometheus returns no more at once.
const MAX_WINDOW_ROWS: u128 = 11_000;

impl OnlinePaceArgs {
    /// Adds Kepler's settings where no flag is given.
    pub fn or_settings(&self, settings: &KeplerSettings) -> anyhow::Result<Self> {
        let or_setting = |own: Option<Duration>, of: Result<Option<Duration>, metier_power::Error>| match own
        {
            Some(own) => Ok(Some(own)),
            None => of.map_err(|error| usage_error(error.to_string())),
        };
        Ok(Self {
            interval: or_setting(self.interval, settings.sampling_interval())?,
            window: or_setting(self.window, settings.query_interval())?,
            step: or_setting(self.step, settings.query_step())?,
            trainer: self.trainer.clone(),
            only: self.only.clone(),
        })
    }

    /// Configuration of the online trainer.
    pub fn online_config(
        &self,
        prometheus: PromEndpoint,
        folder: PathBuf,
        predictors: &PowerPredictorArgs,
    ) -> anyhow::Result<OnlineTrainerConfig> {
        let seconds =
            |duration: Option<Duration>, otherwise| duration.unwrap_or(Duration::from_secs(otherwise));
        let interval = seconds(self.interval, 300);
        let (window, step) = (seconds(self.window, 1800), seconds(self.step, 3));
        if window.as_nanos() / step.as_nanos() >= MAX_WINDOW_ROWS {
            return Err(usage_error(format!(
                "--window has {MAX_WINDOW_ROWS} steps or more; want a longer --step or a shorter --window"
            )));
        }
        let mut settings = metier_power::online::OnlineSettings::new(folder);
        let machine = predictors.load_machine_spec()?;
        // A machine without all five attributes has no node type; its predictors get type 0.
        settings.machine = Some(MeasuredMachine { id: "this".to_string(), spec: machine })
            .filter(|machine| MachineAttribute::ALL.iter().all(|attribute| machine.spec.has(*attribute)));
        if !self.trainer.is_empty() {
            let named = |name: &String| {
                let all: Vec<&str> = PowerTrainer::KEPLER
                    .iter()
                    .chain([&PowerTrainer::Auto])
                    .map(|trainer| trainer.name())
                    .collect();
                PowerTrainer::named(name).ok_or_else(|| {
                    usage_error(format!("--trainer is {name:?}; want one of {}", all.join(", ")))
                })
            };
            settings.trainers = self.trainer.iter().map(named).collect::<Result<_, _>>()?;
        }
        let only = self.only.clone();
        Ok(OnlineTrainerConfig { prometheus, interval, window, step, settings, only, node: node_name() })
    }
}

impl ServeTrainerArgs {
    /// The predictors and the machine.
    pub fn predictors(&self) -> &PowerPredictorArgs {
        &self.predictors
    }

    /// Folder of predictors trained from Prometheus: the flag's, else that of Kepler's settings,
    /// else among the user's data.
    fn pipeline_folder(&self, settings: &KeplerSettings) -> anyhow::Result<PathBuf> {
        let places = || {
            settings.models().into_iter().chain(crate::config::data_folder().map(|path| path.join("power")))
        };
        let folder = self.pipelines.clone().or_else(|| crate::config::writable_folder(places(), "power"));
        folder.ok_or_else(|| {
            usage_error("there is no folder to keep what is learned in; name a --pipelines FOLDER")
        })
    }

    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        metier_linux::allocator::tune_for_server();
        let token = super::load_token(context, self.token_file.as_deref())?;
        let settings = self.predictors.kepler_settings();
        let predictors = self.predictors.or_settings(&settings);
        let prometheus = self.prometheus.clone().or_else(|| settings.prometheus());
        let folder = match (&prometheus, &self.pipelines) {
            (Some(_), _) => Some(self.pipeline_folder(&settings)?),
            (None, folder) => folder.clone(),
        };
        let shelf = predictors.open_catalog(context, None, folder.as_deref())?;
        let online = match (&prometheus, &folder) {
            (Some(address), Some(folder)) => {
                let (ca, token) = (self.prometheus_ca.clone(), self.prometheus_token_file.clone());
                let mut endpoint = up::prometheus_endpoint(address, ca, token)?;
                endpoint.accept_any_certificate =
                    self.prometheus_insecure || settings.skips_tls_verification();
                Some(self.pace.or_settings(&settings)?.online_config(
                    endpoint,
                    folder.clone(),
                    &predictors,
                )?)
            }
            _ => None,
        };
        let services = KeplerServices {
            socket: self.socket.clone(),
            trainer: Some(self.listen),
            online,
            token,
            estimator: Some(predictors.build_estimator(&shelf)?),
            ..KeplerServices::new(shelf)
        };
        super::run_services(context, services)
    }
}
