//! `metier up`: the page, the API and the doors for other systems' clients, until INT or TERM.

mod doors;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use metier_cluster::deployer::ClusterAccess;
use metier_linux::Roots;
use metier_linux::stop_request::StopRequest;
use metier_predict::latency::retrain::LatencyRetraining;
use metier_predict::lifecycle::retrain::Retrainer;
use metier_predict::passport_resolver::LocalNode;
use metier_prom::query::{self, Credentials, Endpoint};
use metier_server::agent::Engine;
use metier_server::kepler::Doors;
use metier_server::{
    Check, Config, FilePredictor, HttpConfig, Limits, Power, PredictorColumns, Secret, Soprano,
};
use metier_session::queue::Until;
use metier_session::runfile;
use metier_store::Store;

use super::Room;
use crate::config::{Typed, data_folder};
use crate::exit::{Code, usage};

const EXAMPLES: &str = "Examples:
  metier up                                              http://127.0.0.1:7001
  metier up --listen 127.0.0.1:0                         a free port; the address is said on stderr
  METIER_TOKEN=… metier up --listen 0.0.0.0:7001         for others, with a token
  metier up --listen 0.0.0.0:7001 --token-file token --open metrics";

/// Serve the page, the API and the doors for other systems' clients
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "The token is taken from --token-file or METIER_TOKEN, never from an argument: others could see it in the list of processes.")]
pub struct Up {
    /// Where to listen [METIER_UP_LISTEN; default 127.0.0.1:7001]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// File that holds the token; needed on any address but loopback
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Door that needs no token on an address that is not loopback: metrics, page, soprano, models
    #[arg(long, value_name = "DOOR")]
    open: Vec<String>,
    /// Further name that the Host header may have, for a proxy that passes the outer name on
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Job that the Jenkins-shaped door knows, with the device that measures it; without any, all names are jobs
    #[arg(long, value_name = "NAME[=DEVICE]")]
    job: Vec<String>,
    /// Run file with what a job's runs have beside what is sent, such as duration, listen, container; a job without one has a time limit of 10m
    #[arg(long, value_name = "NAME=FILE")]
    job_file: Vec<String>,
    /// Door with a place of its own; without --listen and --door: soprano=127.0.0.1:7002, models=127.0.0.1:8100, trainer=127.0.0.1:8102, estimator=/tmp/estimator.sock
    #[arg(long, value_name = "NAME=PLACE")]
    door: Vec<String>,
    /// Pipeline of power predictors for the doors models and estimator: a folder, a zip, or the address of a zip [METIER_UP_MODELS]
    #[arg(long, value_name = "PATH|URL")]
    models: Vec<String>,
    /// Learn predictors of power from that Prometheus while others work, and keep them in this folder [METIER_UP_ONLINE]
    #[arg(long, value_name = "FOLDER")]
    online: Option<PathBuf>,
    /// Folder for predictors of power that are uploaded to the model server; without one none are taken
    #[arg(long, value_name = "FOLDER")]
    uploads: Option<PathBuf>,
    /// Prometheus that knows the nodes of the cluster, for /api/profiling and /upload [METIER_UP_PROMETHEUS, PROMETHEUS_IP]
    #[arg(long, value_name = "URL")]
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
    /// Predictor file of XGBoost (JSON) that answers at /api/profiling instead of ours
    #[arg(long, value_name = "FILE")]
    soprano_predictor: Option<PathBuf>,
    /// The cluster's file, for graphs that are placed through /api/profiling and /upload [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Largest graph that may be sent to /upload and to the page [METIER_UP_UPLOAD_LIMIT; default 256Mi]
    #[arg(long, value_name = "SIZE")]
    upload_limit: Option<String>,
    /// How often the power of this node is looked at, for the page [METIER_UP_POWER_INTERVAL; default 5s]
    #[arg(long, value_name = "TIME")]
    power_interval: Option<String>,
    /// Do not look at the power of this node
    #[arg(long)]
    no_power: bool,
    /// Do not measure sessions that wait; `metier session work` does that elsewhere
    #[arg(long)]
    no_work: bool,
    /// Do not learn from new runs of `metier bench`; `metier train latency --from-runs` does that by hand
    #[arg(long)]
    no_learn: bool,
}

/// Longest token file; a larger one is something else.
const TOKEN_FILE_BYTES: u64 = 4096;

impl Up {
    /// What of it is a setting.
    pub fn typed(&self) -> Typed {
        let joined = |list: &Vec<String>| (!list.is_empty()).then(|| list.join(","));
        let shown = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        vec![
            ("up.listen", self.listen.clone()),
            ("up.token_file", shown(&self.token_file)),
            ("up.open", joined(&self.open)),
            ("up.hosts", joined(&self.host)),
            ("up.jobs", joined(&self.job)),
            ("up.job_files", joined(&self.job_file)),
            ("up.doors", joined(&self.door)),
            ("up.models", joined(&self.models)),
            ("up.online", shown(&self.online)),
            ("up.uploads", shown(&self.uploads)),
            ("up.prometheus", self.prometheus.clone()),
            ("up.prometheus_ca", shown(&self.prometheus_ca)),
            ("up.prometheus_token_file", shown(&self.prometheus_token_file)),
            ("up.prometheus_insecure", self.prometheus_insecure.then(|| "true".to_string())),
            ("up.soprano_predictor", shown(&self.soprano_predictor)),
            ("up.kubeconfig", shown(&self.kubeconfig)),
            ("up.upload_limit", self.upload_limit.clone()),
            ("up.power_interval", self.power_interval.clone()),
        ]
    }

    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        crate::log::start(&room.console, room.verbose, crate::log::SERVER)?;
        let settings = &room.settings;
        let named = doors::Named::read(room)?;
        let mut http = HttpConfig {
            listen: settings.address("up.listen")?,
            token: token(room, "up.token_file")?,
            open: settings.list("up.open"),
            hosts: settings.list("up.hosts"),
            doors: named.shared.clone(),
            limits: Limits { upload_bytes: upload_limit(room)?, ..Limits::default() },
            ..HttpConfig::default()
        };
        http.check().map_err(|error| usage(error.to_string()))?;
        if http.token.is_none() {
            http.start_token = start_token(room);
        }
        let mut config = Config {
            jobs: jobs(room)?,
            soprano: soprano(room)?,
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..http.into()
        };
        let (store, is_writable) = open(room)?;
        let stored = super::predictors::stored_pipelines(&store);
        let answering = named.power(room, &config, !self.no_power, stored)?;
        if let Some(answering) = answering.as_ref().filter(|_| !self.no_power) {
            let estimator = answering.estimator.clone();
            config.power = Some(Power {
                roots: Roots::default(),
                interval: power_interval(room)?,
                estimator,
                engine: Engine::found(),
            });
        }
        config.doctor = Some(doctor(&store));
        let place = store.location().to_string();
        let console = room.console;
        let work = match is_writable && !self.no_work {
            true => Some(Working::start(room, store.clone())?),
            false => None,
        };
        let mut doors = answering.and_then(|answering| answering.doors);
        if let Some(doors) = doors.as_mut().filter(|_| is_writable) {
            doors.recorder = Some(super::power::recorder(store.clone())?);
        }
        let power = doors.map(Doors::beside).transpose()?;
        if let Some(places) = power.as_ref().and_then(|power| power.opened.in_words()) {
            console.note(format!("metier: power at {places}"));
        }
        let learning = match is_writable && !self.no_learn {
            true => Some(Learning::start(store.clone())?),
            false => None,
        };
        let served = metier_server::run(config, store, |address| {
            console.note(format!("metier: ready at http://{address}/ (store {place}); Ctrl-C ends it"));
        });
        if let Some(power) = power {
            power.end();
        }
        if let Some(learning) = learning {
            learning.end();
        }
        if let Some(work) = work {
            work.end();
        }
        served?;
        Ok(Code::OK)
    }
}

/// The largest graph that may be sent: no more than is read of any file.
fn upload_limit(room: &Room) -> anyhow::Result<u64> {
    let most = metier_onnx::Limits::default().file_bytes as u64;
    let limit = room.settings.size("up.upload_limit")?.unwrap_or_default().get();
    if !(1..=most).contains(&limit) {
        return Err(room.settings.wrong("up.upload_limit", &format!("1 to {}Mi", most >> 20)));
    }
    Ok(limit)
}

/// How often the power of this node is looked at: often enough that no meter counts past its end in between.
fn power_interval(room: &Room) -> anyhow::Result<Duration> {
    let interval = room.settings.duration("up.power_interval")?.unwrap_or(metier_server::POWER_INTERVAL);
    match interval {
        interval if (Duration::from_secs(1)..=Duration::from_secs(60)).contains(&interval) => Ok(interval),
        _ => Err(room.settings.wrong("up.power_interval", "1s to 60s; --no-power does without")),
    }
}

/// The thread that works the queue beside the server.
struct Working {
    stop: StopRequest,
    thread: JoinHandle<()>,
}

impl Working {
    fn start(room: &Room, store: Store) -> anyhow::Result<Self> {
        let worker = super::session::worker(room, store)?;
        let stop = StopRequest::new();
        let until = stop.clone();
        let work = move || {
            if let Err(error) = worker.run(&until, Until::Asked) {
                tracing::error!(%error, "the queue is not worked any more");
            }
        };
        let thread = std::thread::Builder::new().name("metier-queue".to_string()).spawn(work);
        Ok(Self { stop, thread: thread.context("cannot start the thread that works the queue")? })
    }

    /// A session under way is told to end, and its end recorded.
    fn end(self) {
        self.stop.ask();
        let _ = self.thread.join();
    }
}

/// The thread that learns from new runs beside the server.
struct Learning(StopRequest);

impl Learning {
    fn start(store: Store) -> anyhow::Result<Self> {
        let device = metier_device::identity::this(&Roots::default(), data_folder().as_deref())?;
        let stop = StopRequest::new();
        let until = stop.clone();
        let learn = move || {
            let passport = || metier_device::passport::of_device(Some(&store), &device);
            let sweep = |store: &Store, device: &metier_types::Device| {
                metier_measure::leftovers::sweep(&Roots::default(), store, device)
                    .map_err(|error| error.to_string())
            };
            let task = LatencyRetraining { passport: &passport };
            Retrainer::new(task).run(&store, &device, &sweep, &until);
        };
        std::thread::Builder::new()
            .name("metier-learn".to_string())
            .spawn(learn)
            .context("cannot start the thread that learns")?;
        Ok(Self(stop))
    }

    /// Nobody waits for what is being learned: it is kept whole or not at all.
    fn end(self) {
        self.0.ask();
    }
}

/// The store, and whether it can be written; where not, looking at it is still worth something.
fn open(room: &Room) -> anyhow::Result<(Store, bool)> {
    let location = room.settings.store()?;
    let store = match Store::open(&location) {
        Err(error @ metier_store::Error::ReadOnly { .. }) => {
            room.console.warn(format!("{error}; it is only read"));
            return Ok((Store::open_read_only(&location)?, false));
        }
        other => other?,
    };
    let roots = Roots::default();
    let swept = metier_device::identity::this(&roots, data_folder().as_deref())
        .map_err(anyhow::Error::from)
        .and_then(|device| Ok(metier_measure::leftovers::sweep(&roots, &store, &device)?));
    match swept {
        Ok(runs) if runs.is_empty() => {}
        Ok(runs) => {
            tracing::info!(runs = runs.len(), "marked runs as interrupted whose measuring program is gone")
        }
        Err(error) => tracing::warn!(%error, "runs of programs that are gone could not be marked"),
    }
    Ok((store, true))
}

/// The checks of this host, for the page.
fn doctor(store: &Store) -> metier_server::config::Doctor {
    let store = store.clone();
    Arc::new(move || {
        let checks = metier_measure::doctor::checks(&Roots::default(), Some(&store)).into_iter();
        checks
            .map(|check| Check {
                name: check.name.to_string(),
                ok: check.ok,
                text: check.text,
                fix: check.fix,
            })
            .collect()
    })
}

/// What others show to start runs, where the server was given no token. Without it, only this user can.
fn start_token(room: &Room) -> Option<Secret> {
    let made = super::token::place().and_then(|path| super::token::read_or_make(&path));
    match made.and_then(|token| Secret::new(&token).map_err(Into::into)) {
        Ok(secret) => Some(secret),
        Err(error) => {
            let why = crate::exit::one_line(&error);
            room.console.warn(format!("{why}; only you can start runs through this server"));
            None
        }
    }
}

/// What the SOPRANO profiler's doors are told.
fn soprano(room: &Room) -> anyhow::Result<Soprano> {
    let settings = &room.settings;
    let prometheus = match settings.secret("up.prometheus") {
        Some(address) => {
            let token = settings.path("up.prometheus_token_file");
            let mut endpoint = endpoint(address, settings.path("up.prometheus_ca"), token)?;
            endpoint.accept_any_certificate = settings.flag("up.prometheus_insecure")?;
            Some(endpoint)
        }
        None => None,
    };
    let file = settings.path("up.soprano_predictor").map(|path| PredictorColumns::open(&path)).transpose()?;
    let predictor = file.map(|file| Arc::new(file) as Arc<dyn FilePredictor>);
    let cluster = ClusterAccess { kubeconfig: settings.path("up.kubeconfig"), ..ClusterAccess::default() };
    let roots = Roots::default();
    let device = metier_device::identity::this(&roots, data_folder().as_deref()).ok();
    let local = device.map(|device| LocalNode { device, boot: metier_cluster::node::own_boot(&roots) });
    Ok(Soprano { prometheus, predictor, cluster, local, ..Soprano::default() })
}

/// A Prometheus, who vouches for it, and the file of the token that it wants.
pub fn endpoint(
    address: &str,
    authority: Option<PathBuf>,
    token: Option<PathBuf>,
) -> anyhow::Result<Endpoint> {
    let mut endpoint: Endpoint = address.parse().map_err(|error: query::Error| usage(error.to_string()))?;
    endpoint.authority = authority;
    if let Some(path) = token {
        endpoint.credentials = Credentials::Bearer(read_token(&path)?);
    }
    Ok(endpoint)
}

/// The jobs of the Jenkins-shaped door.
fn jobs(room: &Room) -> anyhow::Result<Vec<metier_server::Job>> {
    let names = room.settings.list("up.jobs");
    let wrong = || room.settings.wrong("up.jobs", JOBS);
    let jobs: anyhow::Result<Vec<metier_server::Job>> =
        names.iter().map(|name| name.parse().map_err(|_| wrong())).collect();
    let mut jobs = jobs?;
    for text in room.settings.list("up.job_files") {
        let (name, path) =
            text.split_once('=').ok_or_else(|| room.settings.wrong("up.job_files", JOB_FILES))?;
        let job: metier_server::Job =
            name.parse().map_err(|_| room.settings.wrong("up.job_files", JOB_FILES))?;
        let at = jobs.iter().position(|known| known.name == job.name).unwrap_or_else(|| {
            jobs.push(job);
            jobs.len() - 1
        });
        jobs[at].defaults = job_file(Path::new(path))?;
    }
    Ok(jobs)
}

/// What a job's run file says. What runs is sent, so it has no command and no pod.
fn job_file(path: &Path) -> anyhow::Result<serde_json::Map<String, serde_json::Value>> {
    let named = |text: String| usage(format!("--job-file: {}: {text}", path.display()));
    let text =
        runfile::read_text(path).with_context(|| format!("cannot read the run file {}", path.display()))?;
    let (mut file, origins) = runfile::parse(&text).map_err(|faults| named(faults.to_string()))?;
    if !file.command.is_empty() || file.pod.is_some() || file.image.is_some() {
        return Err(named(
            "it says what to run; want only what is beside that: the image is sent as app_name".into(),
        ));
    }
    // As it will be, with any image: what is wrong is told now, and not to each who sends one.
    file.image = Some("x".into());
    file.beside(path.parent().unwrap_or(Path::new(".")));
    let checked = file.check_for_later(&origins).map_err(|faults| named(faults.to_string()))?;
    let mut fields = serde_json::to_value(&checked.file)?.as_object().cloned().unwrap_or_default();
    fields.remove("image");
    Ok(fields)
}

const JOB_FILES: &str = "NAME=FILE with the name of a job and the path of its run file";

const JOBS: &str = "NAME or NAME=DEVICE, with letters, digits, '-', '_' or '.' in the name";

/// The token, from the file that a setting names or the environment.
pub fn token(room: &Room, file: &str) -> anyhow::Result<Option<Secret>> {
    let text = match room.settings.path(file) {
        Some(path) => Some(read_token(&path)?),
        None => room.settings.secret("up.token").map(str::to_string),
    };
    text.map(|text| Secret::new(&text).map_err(|error| usage(error.to_string()))).transpose()
}

/// The token in a file.
pub fn read_token(path: &Path) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(TOKEN_FILE_BYTES).read_to_string(&mut text))
        .with_context(|| {
            format!("cannot read the token file {}; name one that holds the token alone", path.display())
        })?;
    Ok(text.trim().to_string())
}
