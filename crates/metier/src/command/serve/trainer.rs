//! `metier serve trainer`: learns from what is sent, and from Prometheus while others work.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metier_power::node::Attribute;
use metier_power::training::Machine;
use metier_power::vocabulary::Trainer;
use metier_prom::query::Endpoint;
use metier_server::kepler::{Doors, Online};

use super::super::{Room, up};
use super::Predictors;
use crate::exit::{Code, usage};

/// The trainer.
#[derive(Debug, Args)]
pub struct TrainerRole {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8102")]
    listen: SocketAddr,
    /// File that holds the token; needed on any address but loopback
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Prometheus that scrapes Kepler's exporter: learn from it while others work
    #[arg(long, value_name = "URL", env = "PROM_SERVER", requires = "pipelines")]
    prometheus: Option<String>,
    /// File of the certificate authority that alone vouches for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_ca: Option<PathBuf>,
    /// File that holds the token that Prometheus wants
    #[arg(long, value_name = "FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// Believe whoever answers in the place of that Prometheus
    #[arg(long)]
    prometheus_insecure: bool,
    /// Folder for what is learned from Prometheus; an estimator that is given it as --models takes it up by itself
    #[arg(long, value_name = "FOLDER")]
    pipelines: Option<PathBuf>,
    #[command(flatten)]
    pace: Pace,
    /// Serve the estimator too, on that socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    predictors: Predictors,
}

/// How often the online trainer learns, and from what.
#[derive(Debug, Args)]
pub struct Pace {
    /// Time from round to round
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = span)]
    interval: Duration,
    /// Time that a round looks back; the newest quarter is for comparison
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = span)]
    window: Duration,
    /// Time from row to row
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = span)]
    step: Duration,
    /// Trainer that learns; can be repeated [default: XgboostFitTrainer and LinearRegressionTrainer]
    #[arg(long, value_name = "NAME")]
    trainer: Vec<String>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(300),
            window: Duration::from_secs(1800),
            step: Duration::from_secs(3),
            trainer: Vec::new(),
        }
    }
}

fn span(text: &str) -> Result<Duration, String> {
    crate::time::duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("want {}", crate::time::DURATION))
}

/// Most rows of a window: what Prometheus gives at once.
const ROWS: u128 = 11_000;

impl Pace {
    /// The online trainer of that Prometheus, into that folder.
    pub fn online(
        &self,
        prometheus: Endpoint,
        folder: PathBuf,
        predictors: &Predictors,
    ) -> anyhow::Result<Online> {
        if self.window.as_nanos() / self.step.as_nanos() >= ROWS {
            return Err(usage(format!(
                "--window has {ROWS} steps or more; want a longer --step or a shorter --window"
            )));
        }
        let mut settings = metier_power::online::Settings::new(folder);
        let machine = predictors.machine()?;
        // Without all five attributes a machine is of no type; what is learned is of type 0 then.
        settings.machine = Some(Machine { id: "this".to_string(), spec: machine })
            .filter(|machine| Attribute::ALL.iter().all(|attribute| machine.spec.has(*attribute)));
        if !self.trainer.is_empty() {
            let named = |name: &String| {
                let all: Vec<&str> =
                    Trainer::KEPLER.iter().chain([&Trainer::Auto]).map(|trainer| trainer.name()).collect();
                Trainer::named(name)
                    .ok_or_else(|| usage(format!("--trainer is {name:?}; want one of {}", all.join(", "))))
            };
            settings.trainers = self.trainer.iter().map(named).collect::<Result<_, _>>()?;
        }
        Ok(Online { prometheus, interval: self.interval, window: self.window, step: self.step, settings })
    }
}

impl TrainerRole {
    /// Serves.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let token = super::token(room, self.token_file.as_deref())?;
        let predictors = self.predictors.or_of(&self.predictors.settings());
        let shelf = predictors.shelf(room, None, self.pipelines.as_deref())?;
        let online = match (&self.prometheus, &self.pipelines) {
            (Some(address), Some(folder)) => {
                let (ca, token) = (self.prometheus_ca.clone(), self.prometheus_token_file.clone());
                let mut endpoint = up::endpoint(address, ca, token)?;
                endpoint.accept_any_certificate = self.prometheus_insecure;
                Some(self.pace.online(endpoint, folder.clone(), &predictors)?)
            }
            _ => None,
        };
        let doors = Doors {
            socket: self.socket.clone(),
            trainer: Some(self.listen),
            online,
            token,
            estimator: Some(predictors.estimator(&shelf)?),
            ..Doors::new(shelf)
        };
        super::run(room, doors)
    }
}
