//! Settings: every key, the source of its value, and its validation.
//!
//! Precedence: flag, then environment, then file, then default. [`SETTING_KEYS`] lists all keys.
//! An unknown key in the file is rejected with its name and line, so a misspelt one is never
//! ignored. Values are checked when they are read; `metier config` checks all.

mod config_file;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use metier_session::runfile::quantity;
use metier_store::StoreLocation;
use metier_types::Bytes;

use crate::exit::usage_error;
use crate::output::{ColorWhen, DataFormat, enum_words};
use crate::time;

/// A setting.
pub struct SettingKey {
    /// Its name in the file.
    pub name: &'static str,
    /// Its flag, where it has one.
    pub flag: Option<&'static str>,
    /// Default value; computed for the store.
    pub default: Option<&'static str>,
    pub about: &'static str,
    /// Whether its value is secret.
    pub secret: bool,
}

impl SettingKey {
    /// Its environment variable, derived from its name.
    pub fn variable(&self) -> String {
        match self.name {
            "up.token" => "METIER_TOKEN".to_string(),
            name => format!("METIER_{}", name.to_uppercase().replace('.', "_")),
        }
    }
}

const fn setting_key(
    name: &'static str,
    flag: Option<&'static str>,
    default: Option<&'static str>,
    about: &'static str,
) -> SettingKey {
    SettingKey { name, flag, default, about, secret: false }
}

/// All settings.
pub const SETTING_KEYS: &[SettingKey] = &[
    setting_key("store", Some("--store"), None, "where runs are kept: a file, or postgres://…"),
    setting_key("output", Some("--output"), Some("table"), "form of data: table, json, yaml or csv"),
    setting_key("color", Some("--color"), Some("auto"), "colours: auto, always or never"),
    setting_key("quiet", Some("--quiet"), Some("false"), "print only data and errors"),
    setting_key("run.interval", Some("--interval"), Some("100ms"), "time between samples"),
    setting_key("run.timeout", Some("--timeout"), None, "longest time a command may take"),
    setting_key("run.grace", Some("--grace"), Some("5s"), "time between INT, TERM and KILL"),
    setting_key("run.linger", Some("--linger"), Some("10s"), "how long processes left behind may go on"),
    setting_key(
        "run.dataset_cache_limit",
        Some("--dataset-cache-limit"),
        None,
        "size limit of the dataset cache, such as 50Gi",
    ),
    setting_key("up.listen", Some("--listen"), Some("127.0.0.1:7001"), "address of page and API"),
    setting_key("up.open", Some("--open"), Some(""), "interfaces that need no token, by commas"),
    setting_key("up.hosts", Some("--host"), Some(""), "further names that a proxy passes on"),
    setting_key("up.jobs", Some("--job"), Some(""), "jobs of the Jenkins-compatible interface, by commas"),
    setting_key(
        "up.job_files",
        Some("--job-file"),
        Some(""),
        "run files of those jobs, as NAME=FILE, by commas",
    ),
    setting_key(
        "up.doors",
        Some("--bind"),
        None,
        "compatible interfaces with an address of their own, by commas",
    ),
    setting_key("up.online", Some("--online"), None, "folder of predictors trained from Prometheus"),
    setting_key("up.uploads", Some("--uploads"), None, "folder of uploaded power predictors"),
    setting_key("up.models", Some("--models"), None, "pipelines of power predictors, by commas"),
    setting_key(
        "up.prometheus",
        Some("--prometheus"),
        None,
        "Prometheus with the nodes' metrics; else PROMETHEUS_IP",
    ),
    setting_key(
        "up.prometheus_ca",
        Some("--prometheus-ca"),
        None,
        "file of the only certificate authority to accept",
    ),
    setting_key("up.prometheus_token_file", Some("--prometheus-token-file"), None, "file with its token"),
    setting_key(
        "up.prometheus_insecure",
        Some("--prometheus-insecure"),
        Some("false"),
        "accept any certificate for it",
    ),
    setting_key(
        "up.soprano_predictor",
        Some("--soprano-predictor"),
        None,
        "predictor file of XGBoost for /api/profiling",
    ),
    setting_key(
        "up.kubeconfig",
        Some("--kubeconfig"),
        None,
        "file of the cluster that graphs are placed in; else as kubectl finds it",
    ),
    setting_key("up.upload_limit", Some("--upload-limit"), Some("256Mi"), "largest graph in an upload"),
    setting_key(
        "up.power_interval",
        Some("--power-interval"),
        Some("5s"),
        "time between power readings of this node",
    ),
    setting_key("up.tls_cert", Some("--tls-cert"), None, "file with the certificate for HTTPS"),
    setting_key("up.tls_key", Some("--tls-key"), None, "file with its private key"),
    setting_key("up.token_file", Some("--token-file"), None, "file with the token; else `metier token`"),
    SettingKey {
        secret: true,
        ..setting_key("up.token", None, None, "the token itself; better kept in up.token_file")
    },
    setting_key("agent.listen", Some("--listen"), Some("127.0.0.1:7003"), "address of the node's exporter"),
    setting_key("agent.open", Some("--open"), Some(""), "its interfaces that need no token, by commas"),
    setting_key("agent.token_file", Some("--token-file"), None, "file with its token; else METIER_TOKEN"),
    setting_key(
        "agent.socket",
        Some("--socket"),
        Some(metier_server::agent::DEFAULT_APP_SOCKET),
        "where applications are listened to, by commas, or none",
    ),
    setting_key("agent.engine", Some("--engine"), None, "socket of the container engine, or none"),
    setting_key("agent.node", Some("--node"), None, "name of this node"),
    setting_key("agent.location", Some("--location"), None, "where this node stands"),
];

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    Flag(&'static str),
    Environment(String),
    /// A line of the file.
    File(PathBuf, usize),
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path, line) => write!(f, "file {}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone)]
pub struct SettingValue {
    /// The value as text; `None` if it is not set and has no default.
    pub value: Option<String>,
    /// Its source.
    pub origin: SettingOrigin,
}

/// Settings from flags: key and value, if any.
pub type FlagSettings = Vec<(&'static str, Option<String>)>;

pub struct Settings {
    values: BTreeMap<&'static str, SettingValue>,
    path: Option<PathBuf>,
    has_file: bool,
}

impl Settings {
    /// Merges settings from flags, the environment and the file.
    pub fn load(config: Option<&Path>, typed: FlagSettings) -> anyhow::Result<Self> {
        let (path, named) = match config
            .map(Path::to_path_buf)
            .or_else(|| environment_variable("METIER_CONFIG").map(Into::into))
        {
            Some(path) => (Some(path), true),
            None => (
                xdg_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("metier/config.toml")),
                false,
            ),
        };
        let written = match &path {
            Some(path) => config_file::read_config_file(path, named)?,
            None => None,
        };
        let has_file = written.is_some();
        let mut written = written.unwrap_or_default();
        let mut typed: BTreeMap<&str, String> =
            typed.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let mut values = BTreeMap::new();
        for key in SETTING_KEYS {
            let flag = typed
                .remove(key.name)
                .map(|value| (value, SettingOrigin::Flag(key.flag.unwrap_or(key.name))));
            let environment =
                || from_environment(key).map(|(value, name)| (value, SettingOrigin::Environment(name)));
            let from_file = || {
                let (value, line) = written.remove(key.name)?;
                let path = path.clone()?;
                Some((resolve_path(key, value, &path), SettingOrigin::File(path, line)))
            };
            let setting = match flag.or_else(environment).or_else(from_file) {
                Some((value, origin)) => SettingValue { value: Some(value), origin },
                None => SettingValue { value: default_value(key), origin: SettingOrigin::Default },
            };
            values.insert(key.name, setting);
        }
        Ok(Self { values, path, has_file })
    }

    /// The settings file, and whether it exists.
    pub fn file(&self) -> Option<(&Path, bool)> {
        self.path.as_deref().map(|path| (path, self.has_file))
    }

    /// A setting by name.
    pub fn get(&self, name: &str) -> Option<&SettingValue> {
        self.values.get(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.value.as_deref()
    }

    /// The error for an invalid value: its source, the value, and what is wanted.
    pub fn wrong_value(&self, name: &str, want: &str) -> anyhow::Error {
        let Some(setting) = self.get(name) else { return usage_error(format!("there is no setting {name}")) };
        let got = setting.value.as_deref().unwrap_or_default();
        usage_error(format!("{} is {got:?}; want {want}", self.source_of(name)))
    }

    /// Name of the source in errors.
    pub fn source_of(&self, name: &str) -> String {
        match self.get(name).map(|setting| &setting.origin) {
            Some(SettingOrigin::Flag(flag)) => (*flag).to_string(),
            Some(SettingOrigin::Environment(variable)) => variable.clone(),
            Some(SettingOrigin::File(path, line)) => format!("{}:{line}: {name}", path.display()),
            Some(SettingOrigin::Default) | None => name.to_string(),
        }
    }

    /// The form of data.
    pub fn format(&self) -> anyhow::Result<DataFormat> {
        self.enum_value("output")
    }

    /// When to use colours.
    pub fn color(&self) -> anyhow::Result<ColorWhen> {
        self.enum_value("color")
    }

    fn enum_value<T: ValueEnum>(&self, name: &str) -> anyhow::Result<T> {
        T::from_str(self.text(name).unwrap_or_default(), false)
            .map_err(|_| self.wrong_value(name, &format!("one of {}", enum_words::<T>().join(", "))))
    }

    /// A boolean.
    pub fn flag(&self, name: &str) -> anyhow::Result<bool> {
        match self.text(name).unwrap_or_default() {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" | "" => Ok(false),
            _ => Err(self.wrong_value(name, "true or false")),
        }
    }

    pub fn duration(&self, name: &str) -> anyhow::Result<Option<Duration>> {
        let read = |text| time::parse_duration(text).ok_or_else(|| self.wrong_value(name, time::DURATION));
        self.text(name).map(read).transpose()
    }

    pub fn size(&self, name: &str) -> anyhow::Result<Option<Bytes>> {
        let read =
            |text| quantity::size(text).map(Bytes).ok_or_else(|| self.wrong_value(name, quantity::SIZE));
        self.text(name).map(read).transpose()
    }

    /// An address to listen on.
    pub fn address(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let text = self.text(name).unwrap_or_default();
        let address = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}").parse(),
            None => text.parse(),
        };
        address.map_err(|_| self.wrong_value(name, "ADDRESS:PORT such as 127.0.0.1:7001 or [::1]:7001"))
    }

    /// Names separated by commas.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_string).collect()
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The value of a secret setting.
    pub fn secret(&self, name: &str) -> Option<&str> {
        self.text(name)
    }

    /// The store's location.
    pub fn store(&self) -> anyhow::Result<StoreLocation> {
        let Some(text) = self.text("store") else {
            return Err(usage_error(
                "no place for a store: neither XDG_DATA_HOME nor HOME is an absolute path; name one with --store FILE",
            ));
        };
        text.parse().map_err(|error| match error {
            metier_store::Error::BadLocation { want, .. } => self.wrong_value("store", &want),
            other => other.into(),
        })
    }

    /// The printable form of a setting, without secrets.
    pub fn display_value(&self, key: &SettingKey) -> Option<String> {
        let value = self.text(key.name)?;
        Some(match (key.secret, key.name) {
            (true, _) => "(hidden)".to_string(),
            (_, "store") => match value.parse::<StoreLocation>() {
                Ok(location) => location.to_string(),
                Err(_) if value.contains("://") => "(hidden: not a valid URL)".to_string(),
                Err(_) => value.to_string(),
            },
            // A store address may contain a password.
            (_, "up.prometheus") => match value.parse::<metier_prom::query::PromEndpoint>() {
                Ok(endpoint) => endpoint.to_string(),
                Err(_) => "(hidden: not an address)".to_string(),
            },
            _ => value.to_string(),
        })
    }

    /// Checks every value, for `metier config`.
    pub fn check(&self) -> anyhow::Result<()> {
        self.format()?;
        self.color()?;
        self.flag("quiet")?;
        self.flag("up.prometheus_insecure")?;
        self.address("up.listen")?;
        self.address("agent.listen")?;
        for name in ["run.interval", "run.timeout", "run.grace", "run.linger", "up.power_interval"] {
            self.duration(name)?;
        }
        self.size("run.dataset_cache_limit")?;
        self.size("up.upload_limit")?;
        Ok(())
    }
}

/// The value of a key in the environment, with its variable.
fn from_environment(key: &SettingKey) -> Option<(String, String)> {
    let of = |name: &str| environment_variable(name).map(|value| (value, name.to_string()));
    // The SOPRANO profiler's images set these variables.
    let seeds = || if key.name == "up.prometheus" { of("PROMETHEUS_IP") } else { None };
    of(&key.variable()).or_else(seeds)
}

/// An environment variable that is set and not empty.
fn environment_variable(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

/// A base folder of the XDG specification, which demands that relative paths be ignored.
fn xdg_folder(name: &str, under_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(under_home)))
}

/// The data folder.
pub fn data_folder() -> Option<PathBuf> {
    xdg_folder("XDG_DATA_HOME", ".local/share").map(|folder| folder.join("metier"))
}

/// Default cache folder of datasets.
pub fn dataset_folder() -> Option<PathBuf> {
    xdg_folder("XDG_CACHE_HOME", ".cache").map(|folder| folder.join("metier/datasets"))
}

/// Default cache folder of power predictor pipelines.
pub fn pipeline_folder() -> Option<PathBuf> {
    xdg_folder("XDG_CACHE_HOME", ".cache").map(|folder| folder.join("metier/pipelines"))
}

/// The first writable folder of these; else a private folder below the temporary folder.
pub fn writable_folder(iterator: impl IntoIterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    let is_writable = |folder: &PathBuf| {
        let probe = folder.join(format!(".metier-{}", std::process::id()));
        let is_written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&probe, b"")).is_ok();
        let _ = std::fs::remove_file(&probe);
        is_written
    };
    iterator
        .into_iter()
        .find(is_writable)
        .or_else(|| Some(private_temp_folder()?.join(name)).filter(is_writable))
}

/// A folder below the temporary folder that only this user can write to. One with another owner is
/// rejected.
fn private_temp_folder() -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    let folder = std::env::temp_dir().join(format!("metier-{own}"));
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    let about = std::fs::symlink_metadata(&folder).ok()?;
    (about.is_dir() && about.uid() == own && about.mode() & 0o022 == 0).then_some(folder)
}

/// A private folder for files that live as long as a run, for hosts that cannot execute from
/// memory.
pub fn runtime_folder() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match given.map(|folder| folder.join("metier")).or_else(|| data_folder().map(|folder| folder.join("run")))
    {
        Some(folder) => folder,
        // An unpredictable name, so that no other user can create it first.
        None => std::env::temp_dir().join(format!("metier-{}", metier_types::RunId::new())),
    }
}

fn default_value(key: &SettingKey) -> Option<String> {
    match key.name {
        "store" => data_folder().map(|folder| folder.join("metier.db").display().to_string()),
        _ => key.default.map(str::to_string),
    }
}

/// Resolves a path relative to the file that contains it, not to the working directory; `~/` is
/// home.
fn resolve_path(key: &SettingKey, value: String, file: &Path) -> String {
    let is_path = !value.contains("://")
        && matches!(
            key.name,
            "store"
                | "up.tls_cert"
                | "up.tls_key"
                | "up.token_file"
                | "up.prometheus_ca"
                | "up.prometheus_token_file"
                | "up.soprano_predictor"
                | "up.kubeconfig"
                | "up.online"
                | "up.uploads"
                | "agent.token_file"
        );
    if !is_path {
        return value;
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = match (value.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => file.parent().unwrap_or(Path::new(".")).join(&value),
    };
    path.display().to_string()
}
