//! `metier up`: serves the page, the API and the compatible interfaces, until INT or TERM.

mod interfaces;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use metier_cluster::deployer::ClusterAccess;
use metier_linux::KernelRoots;
use metier_linux::stop_request::StopRequest;
use metier_predict::latency::retrain::LatencyRetraining;
use metier_predict::lifecycle::retrain::PredictorRetrainer;
use metier_predict::passport_resolver::LocalNode;
use metier_prom::query::{self, PromCredentials, PromEndpoint};
use metier_server::agent::EngineNameSource;
use metier_server::kepler::KeplerServices;
use metier_server::{
    AccessToken, Config, DoctorCheck, FilePredictor, HttpConfig, HttpLimits, NodePowerConfig,
    PredictorColumns, SopranoConfig, TlsIdentity,
};
use metier_session::queue::WorkUntil;
use metier_session::runfile;
use metier_store::{RecordStore, SpoolDelivery};

use super::CommandContext;
use crate::config::{FlagSettings, data_folder};
use crate::exit::{CliExitCode, usage_error};

const EXAMPLES: &str = "Examples:
  metier up                                              http://127.0.0.1:7001
  metier up --listen 127.0.0.1:0                         a free port; stderr has the address
  metier up --listen 0.0.0.0:7001                        for others, with the token of `metier token`
  metier up --listen 0.0.0.0:7001 --tls-cert cert.pem --tls-key key.pem --open metrics";

/// Serve the page, the API and interfaces compatible with other systems' clients
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "The token is taken from --token-file or METIER_TOKEN, else it is that of `metier token`; never from an argument: others could see it in the list of processes.")]
pub struct UpArgs {
    /// Address to listen on [METIER_UP_LISTEN; default 127.0.0.1:7001]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// File with the token that clients on any address but loopback need [default: that of `metier
    /// token`]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificate and its chain, in PEM; with it the address is HTTPS
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Interface that needs no token on an address that is not loopback: metrics, page, soprano,
    /// models
    #[arg(long, value_name = "INTERFACE")]
    open: Vec<String>,
    /// Further accepted Host header, for a proxy that passes on its own host name
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Job of the Jenkins-compatible interface, with its device; without any, all names are jobs
    #[arg(long, value_name = "NAME[=DEVICE]")]
    job: Vec<String>,
    /// Run file with further fields of a job's runs, such as duration, listen, container; without
    /// it the time limit is 10m
    #[arg(long, value_name = "NAME=FILE")]
    job_file: Vec<String>,
    /// Compatible interface with an address of its own [default without --listen and --bind:
    /// soprano=127.0.0.1:7002, models=127.0.0.1:8100, trainer=127.0.0.1:8102,
    /// estimator=/tmp/estimator.sock]
    #[arg(long, value_name = "NAME=ADDRESS")]
    bind: Vec<String>,
    /// Pipeline of power predictors for the interfaces models and estimator: a folder, a zip, or
    /// the address of a zip [METIER_UP_MODELS]
    #[arg(long, value_name = "PATH|URL")]
    models: Vec<String>,
    /// Train power predictors from that Prometheus in the background, in this folder
    /// [METIER_UP_ONLINE]
    #[arg(long, value_name = "FOLDER")]
    online: Option<PathBuf>,
    /// Folder for power predictors uploaded to the model server; uploads are refused without it
    #[arg(long, value_name = "FOLDER")]
    uploads: Option<PathBuf>,
    /// Prometheus with the metrics of the cluster's nodes, for /api/profiling and /upload
    /// [METIER_UP_PROMETHEUS, PROMETHEUS_IP]
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// File of the only certificate authority to accept for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_ca: Option<PathBuf>,
    /// File with the token for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// Accept any certificate of that Prometheus
    #[arg(long)]
    prometheus_insecure: bool,
    /// Predictor file of XGBoost (JSON) for /api/profiling, instead of metier's predictor
    #[arg(long, value_name = "FILE")]
    soprano_predictor: Option<PathBuf>,
    /// Kubeconfig of the cluster for /api/profiling and /upload [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Largest graph for /upload and for the page [METIER_UP_UPLOAD_LIMIT; default 256Mi]
    #[arg(long, value_name = "SIZE")]
    upload_limit: Option<String>,
    /// Time between power readings of this node [METIER_UP_POWER_INTERVAL; default 5s]
    #[arg(long, value_name = "DURATION")]
    power_interval: Option<String>,
    /// Do not read the power of this node
    #[arg(long)]
    no_power: bool,
    /// Do not work the queue; `metier session work` does that elsewhere
    #[arg(long)]
    no_work: bool,
    /// Do not retrain from new runs of `metier bench`; `metier train latency --from-runs` does it
    /// on request
    #[arg(long)]
    no_learn: bool,
}

/// Time between looks for spooled runs and Jobs of killed programs.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(5);
/// Largest token file; a larger one was named by mistake.
const MAX_TOKEN_FILE_BYTES: u64 = 4096;

impl UpArgs {
    /// The settings that these flags set.
    pub fn setting_values(&self) -> FlagSettings {
        let joined = |list: &Vec<String>| (!list.is_empty()).then(|| list.join(","));
        let shown = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        vec![
            ("up.listen", self.listen.clone()),
            ("up.token_file", shown(&self.token_file)),
            ("up.tls_cert", shown(&self.tls_cert)),
            ("up.tls_key", shown(&self.tls_key)),
            ("up.open", joined(&self.open)),
            ("up.hosts", joined(&self.host)),
            ("up.jobs", joined(&self.job)),
            ("up.job_files", joined(&self.job_file)),
            ("up.doors", joined(&self.bind)),
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

    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        metier_linux::allocator::tune_for_server();
        crate::log::start_logging(&context.console, context.verbose, crate::log::SERVER_LEVEL)?;
        let settings = &context.settings;
        let named = interfaces::InterfaceAddresses::from_settings(context)?;
        let mut http = HttpConfig {
            listen: settings.address("up.listen")?,
            token: load_token(context, "up.token_file")?,
            open: settings.list("up.open"),
            hosts: settings.list("up.hosts"),
            doors: named.shared.clone(),
            tls: load_tls(context)?,
            limits: HttpLimits { upload_bytes: upload_limit(context)?, ..HttpLimits::default() },
            ..HttpConfig::default()
        };
        if http.token.is_none() {
            let own = own_token(context);
            if http.is_loopback() {
                http.start_token = own;
            } else {
                http.token = own;
            }
        }
        http.check().map_err(|error| usage_error(error.to_string()))?;
        for address in http.plain_addresses() {
            context.console.warn(format!(
                "{address} is plain HTTP: the network between can read the token and the runs; use --tls-cert and --tls-key, or a proxy with HTTPS"
            ));
        }
        let scheme = if http.tls.is_some() { "https" } else { "http" };
        // Page, model server and trainer are one process.
        http = http.with_shared_bounds();
        let mut config = Config {
            jobs: load_jobs(context)?,
            soprano: soprano_config(context)?,
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..http.into()
        };
        let (store, is_writable) = open_store(context)?;
        let stored = super::predictors::write_stored_pipelines(&store);
        let answering = named.build_power_services(context, &config, !self.no_power, stored)?;
        if let Some(answering) = answering.as_ref().filter(|_| !self.no_power) {
            let estimator = answering.estimator.clone();
            config.power = Some(NodePowerConfig {
                roots: KernelRoots::default(),
                interval: power_interval(context)?,
                estimator,
                engine: EngineNameSource::discover(),
            });
        }
        config.doctor = Some(doctor_callback(&store));
        let place = store.location().to_string();
        let console = context.console;
        let work = match is_writable && !self.no_work {
            true => Some(QueueWorkerThread::start(context, store.clone())?),
            false => None,
        };
        let mut services = answering.and_then(|answering| answering.services);
        if let Some(services) = services.as_mut().filter(|_| is_writable) {
            services.recorder = Some(super::power::pipeline_recorder(store.clone())?);
        }
        let power = services.map(KeplerServices::run_in_background).transpose()?;
        if let Some(places) = power.as_ref().and_then(|power| power.opened.describe()) {
            console.note(format!("metier: power at {places}"));
        }
        let learning = match is_writable && !self.no_learn {
            true => Some(RetrainThread::start(store.clone())?),
            false => None,
        };
        let housekeeping = match is_writable {
            true => HousekeepingThread::start(&store)?,
            false => None,
        };
        let served = metier_server::run(config, store, |address| {
            console.note(format!("metier: ready at {scheme}://{address}/ (store {place}); Ctrl-C ends it"));
        });
        if let Some(power) = power {
            power.stop();
        }
        if let Some(learning) = learning {
            learning.stop();
        }
        if let Some(housekeeping) = housekeeping {
            housekeeping.stop();
        }
        if let Some(work) = work {
            work.stop();
        }
        served?;
        Ok(CliExitCode::OK)
    }
}

/// The upload limit, at most the limit for any graph file.
fn upload_limit(context: &CommandContext) -> anyhow::Result<u64> {
    let most = metier_onnx::OnnxLimits::default().file_bytes as u64;
    let limit = context.settings.size("up.upload_limit")?.unwrap_or_default().get();
    if !(1..=most).contains(&limit) {
        return Err(context.settings.wrong_value("up.upload_limit", &format!("1 to {}Mi", most >> 20)));
    }
    Ok(limit)
}

/// Time between power readings, short enough that no energy counter wraps unnoticed.
fn power_interval(context: &CommandContext) -> anyhow::Result<Duration> {
    let interval = context.settings.duration("up.power_interval")?.unwrap_or(metier_server::POWER_INTERVAL);
    match interval {
        interval if (Duration::from_secs(1)..=Duration::from_secs(60)).contains(&interval) => Ok(interval),
        _ => Err(context.settings.wrong_value("up.power_interval", "1s to 60s; --no-power does without")),
    }
}

/// The background thread that works the queue.
struct QueueWorkerThread {
    stop: StopRequest,
    thread: JoinHandle<()>,
}

impl QueueWorkerThread {
    fn start(context: &CommandContext, store: RecordStore) -> anyhow::Result<Self> {
        let worker = super::session::build_worker(context, store)?;
        let stop = StopRequest::new();
        let until = stop.clone();
        let work = move || {
            if let Err(error) = worker.run(&until, WorkUntil::Asked) {
                tracing::error!(%error, "the queue is not worked any more");
            }
        };
        let thread = std::thread::Builder::new().name("metier-queue".to_string()).spawn(work);
        Ok(Self { stop, thread: thread.context("cannot start the thread that works the queue")? })
    }

    /// Ends a running session and records its end.
    fn stop(self) {
        self.stop.request();
        let _ = self.thread.join();
    }
}

/// The background thread that retrains from new runs.
struct RetrainThread(StopRequest);

impl RetrainThread {
    fn start(store: RecordStore) -> anyhow::Result<Self> {
        let device =
            metier_device::identity::identify_device(&KernelRoots::default(), data_folder().as_deref())?;
        let stop = StopRequest::new();
        let until = stop.clone();
        let learn = move || {
            let passport = || metier_device::passport::find_for_device(Some(&store), &device);
            let sweep = |store: &RecordStore, device: &metier_types::Device| {
                metier_measure::leftovers::sweep_leftovers(&KernelRoots::default(), store, device)
                    .map_err(|error| error.to_string())
            };
            let task = LatencyRetraining { passport: &passport };
            PredictorRetrainer::new(task).run(&store, &device, &sweep, &until);
        };
        std::thread::Builder::new()
            .name("metier-learn".to_string())
            .spawn(learn)
            .context("cannot start the thread that learns")?;
        Ok(Self(stop))
    }

    /// Does not wait for a training in progress: it is stored whole or not at all.
    fn stop(self) {
        self.0.request();
    }
}

/// The background thread that delivers spooled runs once the store is back, and removes Jobs of
/// killed programs.
struct HousekeepingThread {
    stop: StopRequest,
    thread: JoinHandle<()>,
}

impl HousekeepingThread {
    /// `None` where there is no folder for a spool.
    fn start(store: &RecordStore) -> anyhow::Result<Option<Self>> {
        let Some(spool) = super::spool_of(store.location()) else { return Ok(None) };
        let roots = KernelRoots::default();
        let device = metier_device::identity::identify_device(&roots, data_folder().as_deref())?;
        let stop = StopRequest::new();
        let (until, store) = (stop.clone(), store.clone());
        let deliver = move || {
            while !until.is_requested() {
                match metier_measure::leftovers::deliver_spool(&roots, &spool, &store, &device) {
                    Ok(SpoolDelivery { runs: 0, sessions: 0 }) => {}
                    Ok(SpoolDelivery { runs, sessions }) => {
                        tracing::info!(runs, sessions, "delivered what was spooled while the store was away")
                    }
                    Err(error) => tracing::warn!(%error, "what is spooled could not be delivered yet"),
                }
                super::sweep_jobs();
                until.wait(HOUSEKEEPING_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("metier-sweep".to_string()).spawn(deliver);
        Ok(Some(Self {
            stop,
            thread: thread.context("cannot start the thread that delivers runs and removes leftovers")?,
        }))
    }

    fn stop(self) {
        self.stop.request();
        let _ = self.thread.join();
    }
}

/// The store, and whether it is writable; a read-only store is still served.
fn open_store(context: &CommandContext) -> anyhow::Result<(RecordStore, bool)> {
    let location = context.settings.store()?;
    let store = match RecordStore::open(&location) {
        Err(error @ metier_store::Error::ReadOnly { .. }) => {
            context.console.warn(format!("{error}; it is only read"));
            return Ok((RecordStore::open_read_only(&location)?, false));
        }
        other => other?,
    };
    let roots = KernelRoots::default();
    let swept = metier_device::identity::identify_device(&roots, data_folder().as_deref())
        .map_err(anyhow::Error::from)
        .and_then(|device| Ok(metier_measure::leftovers::sweep_leftovers(&roots, &store, &device)?));
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
fn doctor_callback(store: &RecordStore) -> metier_server::config::DoctorCallback {
    let store = store.clone();
    Arc::new(move || {
        let checks = metier_measure::doctor::check_host(&KernelRoots::default(), Some(&store)).into_iter();
        checks
            .map(|check| DoctorCheck {
                name: check.name.to_string(),
                ok: check.ok,
                text: check.text,
                fix: check.fix,
            })
            .collect()
    })
}

/// Certificate and key of the main address.
fn load_tls(context: &CommandContext) -> anyhow::Result<Option<TlsIdentity>> {
    let settings = &context.settings;
    match (settings.path("up.tls_cert"), settings.path("up.tls_key")) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsIdentity::load(&certificate, &key)?)),
        (Some(_), None) => Err(settings.wrong_value("up.tls_cert", "a --tls-key FILE with it")),
        (None, Some(_)) => Err(settings.wrong_value("up.tls_key", "a --tls-cert FILE with it")),
    }
}

/// The token of `metier token`, for a server without a configured token. Other users of this
/// machine need it on loopback, every client needs it elsewhere.
fn own_token(context: &CommandContext) -> Option<AccessToken> {
    let made = super::token::token_path().and_then(|path| super::token::read_or_create(&path));
    match made.and_then(|token| AccessToken::new(&token).map_err(Into::into)) {
        Ok(secret) => Some(secret),
        Err(error) => {
            let why = crate::exit::error_line(&error);
            context.console.warn(format!("{why}; without it this server is for you alone"));
            None
        }
    }
}

/// Configuration of the SOPRANO-compatible interface.
fn soprano_config(context: &CommandContext) -> anyhow::Result<SopranoConfig> {
    let settings = &context.settings;
    let prometheus = match settings.secret("up.prometheus") {
        Some(address) => {
            let token = settings.path("up.prometheus_token_file");
            let mut endpoint = prometheus_endpoint(address, settings.path("up.prometheus_ca"), token)?;
            endpoint.accept_any_certificate = settings.flag("up.prometheus_insecure")?;
            Some(endpoint)
        }
        None => None,
    };
    let file = settings.path("up.soprano_predictor").map(|path| PredictorColumns::open(&path)).transpose()?;
    let predictor = file.map(|file| Arc::new(file) as Arc<dyn FilePredictor>);
    let cluster = ClusterAccess { kubeconfig: settings.path("up.kubeconfig"), ..ClusterAccess::default() };
    let roots = KernelRoots::default();
    let device = metier_device::identity::identify_device(&roots, data_folder().as_deref()).ok();
    let local =
        device.map(|device| LocalNode { device, boot: metier_cluster::node_choice::own_boot_id(&roots) });
    Ok(SopranoConfig { prometheus, predictor, cluster, local, ..SopranoConfig::default() })
}

/// A Prometheus with its certificate authority and token file.
pub fn prometheus_endpoint(
    address: &str,
    authority: Option<PathBuf>,
    token: Option<PathBuf>,
) -> anyhow::Result<PromEndpoint> {
    let mut endpoint: PromEndpoint =
        address.parse().map_err(|error: query::QueryError| usage_error(error.to_string()))?;
    endpoint.authority = authority;
    if let Some(path) = token {
        endpoint.credentials = PromCredentials::Bearer(read_token(&path)?);
    }
    Ok(endpoint)
}

/// The jobs of the Jenkins-compatible interface.
fn load_jobs(context: &CommandContext) -> anyhow::Result<Vec<metier_server::JenkinsJobConfig>> {
    let names = context.settings.list("up.jobs");
    let wrong = || context.settings.wrong_value("up.jobs", JOBS_SYNTAX);
    let jobs: anyhow::Result<Vec<metier_server::JenkinsJobConfig>> =
        names.iter().map(|name| name.parse().map_err(|_| wrong())).collect();
    let mut jobs = jobs?;
    for text in context.settings.list("up.job_files") {
        let (name, path) = text
            .split_once('=')
            .ok_or_else(|| context.settings.wrong_value("up.job_files", JOB_FILES_SYNTAX))?;
        let job: metier_server::JenkinsJobConfig =
            name.parse().map_err(|_| context.settings.wrong_value("up.job_files", JOB_FILES_SYNTAX))?;
        let at = jobs.iter().position(|known| known.name == job.name).unwrap_or_else(|| {
            jobs.push(job);
            jobs.len() - 1
        });
        jobs[at].defaults = read_job_file(Path::new(path))?;
    }
    Ok(jobs)
}

/// The fields of a job's run file. Requests name the image, so the file has no command and no pod.
fn read_job_file(path: &Path) -> anyhow::Result<serde_json::Map<String, serde_json::Value>> {
    let named = |text: String| usage_error(format!("--job-file: {}: {text}", path.display()));
    let text =
        runfile::read_text(path).with_context(|| format!("cannot read the run file {}", path.display()))?;
    let (mut file, origins) = runfile::parse(&text).map_err(|faults| named(faults.to_string()))?;
    if !file.command.is_empty() || file.pod.is_some() || file.image.is_some() {
        return Err(named(
            "has a command, pod or image; want none: requests name the image as app_name".into(),
        ));
    }
    // Checked with a stand-in image, so that errors appear at start and not at each request.
    file.image = Some("x".into());
    file.resolve_paths(path.parent().unwrap_or(Path::new(".")));
    let checked = file.check_for_later(&origins).map_err(|faults| named(faults.to_string()))?;
    let mut fields = serde_json::to_value(&checked.file)?.as_object().cloned().unwrap_or_default();
    fields.remove("image");
    Ok(fields)
}

const JOB_FILES_SYNTAX: &str = "NAME=FILE with the name of a job and the path of its run file";

const JOBS_SYNTAX: &str = "NAME or NAME=DEVICE, with letters, digits, '-', '_' or '.' in the name";

/// The token from the file that a setting names, or from the environment.
pub fn load_token(context: &CommandContext, file: &str) -> anyhow::Result<Option<AccessToken>> {
    let text = match context.settings.path(file) {
        Some(path) => Some(read_token(&path)?),
        None => context.settings.secret("up.token").map(str::to_string),
    };
    text.map(|text| AccessToken::new(&text).map_err(|error| usage_error(error.to_string()))).transpose()
}

/// The token in a file.
pub fn read_token(path: &Path) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_FILE_BYTES).read_to_string(&mut text))
        .with_context(|| {
            format!("cannot read the token file {}; name one that holds the token alone", path.display())
        })?;
    Ok(text.trim().to_string())
}
