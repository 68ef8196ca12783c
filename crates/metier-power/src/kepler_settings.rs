//! Reads Kepler's own settings, so that its config maps work unchanged: a file named after the key
//! in a folder, else the environment variable.
//!
//! Only settings that metier uses are read. An empty value counts as unset, true is exactly
//! `true`, lists are separated by commas. No files outside the folder are read.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::kepler_terms::{EnergySource, OutputType, shorten};

/// Mount point of the config map unless `CONFIG_PATH` is set.
const DEFAULT_CONFIG_FOLDER: &str = "/etc/kepler/kepler.config";
/// Address of a cluster's model server unless `MODEL_SERVER_URL` is set.
const DEFAULT_MODEL_SERVER: &str = "http://kepler-model-server.kepler.svc.cluster.local:8100";
/// The pipeline below a custom `MODEL_TOPURL`.
const STANDARD_PIPELINE: &str = "std_v0.7.11.zip";
/// Longest interval: a month.
const MAX_INTERVAL_SECONDS: u64 = 31 * 86_400;
const MAX_VALUE_BYTES: u64 = 64 << 10;

/// The exporter's levels by key prefix, with output type and source. Containers use the process
/// level; the exporter has no level for them.
const LEVELS: [(&str, OutputType, EnergySource); 6] = [
    ("NODE_TOTAL", OutputType::AbsPower, EnergySource::Acpi),
    ("NODE_COMPONENTS", OutputType::AbsPower, EnergySource::RaplSysfs),
    ("PROCESS_TOTAL", OutputType::DynPower, EnergySource::Acpi),
    ("PROCESS_COMPONENTS", OutputType::DynPower, EnergySource::RaplSysfs),
    ("CONTAINER_TOTAL", OutputType::DynPower, EnergySource::Acpi),
    ("CONTAINER_COMPONENTS", OutputType::DynPower, EnergySource::RaplSysfs),
];

/// A single predictor at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialPredictor {
    /// Whether idle power is included.
    pub output_type: OutputType,
    /// Where the energy that it learned from was read.
    pub source: EnergySource,
    /// `http(s)://…` or `file:///…`.
    pub address: String,
}

/// Returns the environment variable of a key.
type EnvironmentLookup = dyn Fn(&str) -> Option<String>;

pub struct KeplerSettings {
    folder: PathBuf,
    environment: Box<EnvironmentLookup>,
    /// The lines of `MODEL_CONFIG`.
    lines: BTreeMap<String, String>,
}

impl KeplerSettings {
    /// Opens a folder; by default that of `CONFIG_PATH`, else Kepler's default folder.
    pub fn open(folder: Option<&Path>, environment: impl Fn(&str) -> Option<String> + 'static) -> Self {
        let named = folder.map(Path::to_path_buf);
        let folder = named.or_else(|| environment("CONFIG_PATH").map(PathBuf::from));
        let mut settings = Self {
            folder: folder.unwrap_or_else(|| DEFAULT_CONFIG_FOLDER.into()),
            environment: Box::new(environment),
            lines: BTreeMap::new(),
        };
        let text = settings.text("MODEL_CONFIG").unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        settings.lines = lines
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.trim().to_string(), value.trim().to_string()))
            .collect();
        settings
    }

    /// The value of a key.
    pub fn text(&self, key: &str) -> Option<String> {
        let mut text = String::new();
        let file = std::fs::File::open(self.folder.join(key)).ok();
        let is_read = file.is_some_and(|file| file.take(MAX_VALUE_BYTES).read_to_string(&mut text).is_ok());
        let text = if is_read { Some(text) } else { (self.environment)(key) };
        text.map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
    }

    fn is_true(&self, key: &str) -> bool {
        self.text(key).is_some_and(|text| text == "true")
    }

    /// The error by which predictors are compared (`ERROR_KEY`).
    pub fn error_key(&self) -> Option<String> {
        self.text("ERROR_KEY")
    }

    /// The port of the model server (`MODEL_SERVER_PORT`).
    pub fn port(&self) -> Result<Option<u16>, Error> {
        let Some(text) = self.text("MODEL_SERVER_PORT") else { return Ok(None) };
        let port = text.parse().ok().filter(|port| *port != 0);
        port.map(Some).ok_or_else(|| Error::Word {
            field: "MODEL_SERVER_PORT",
            got: shorten(&text),
            want: "a port from 1 to 65535".to_string(),
        })
    }

    /// Prometheus address of the online trainer (`PROM_SERVER`).
    pub fn prometheus(&self) -> Option<String> {
        self.text("PROM_SERVER")
    }

    /// Whether TLS certificates are not verified (`PROM_SSL_DISABLE`). The original's default is
    /// true; here it is false.
    pub fn skips_tls_verification(&self) -> bool {
        self.is_true("PROM_SSL_DISABLE")
    }

    /// The job whose series are of virtual machines (`VM_JOB_NAME`).
    pub fn vm_job(&self) -> Option<String> {
        self.text("VM_JOB_NAME")
    }

    /// Seconds between rounds of the online trainer (`SAMPLING_INTERVAL`, else
    /// `PROM_QUERY_INTERVAL`).
    pub fn sampling_interval(&self) -> Result<Option<Duration>, Error> {
        Ok(self.seconds("SAMPLING_INTERVAL")?.or(self.query_interval()?))
    }

    /// Time range of a query in seconds (`PROM_QUERY_INTERVAL`).
    pub fn query_interval(&self) -> Result<Option<Duration>, Error> {
        self.seconds("PROM_QUERY_INTERVAL")
    }

    /// Seconds between rows (`PROM_QUERY_STEP`).
    pub fn query_step(&self) -> Result<Option<Duration>, Error> {
        self.seconds("PROM_QUERY_STEP")
    }

    fn seconds(&self, key: &'static str) -> Result<Option<Duration>, Error> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let seconds = text.parse().ok().filter(|seconds: &u64| (1..=MAX_INTERVAL_SECONDS).contains(seconds));
        seconds.map(|seconds| Some(Duration::from_secs(seconds))).ok_or_else(|| Error::Word {
            field: key,
            got: shorten(&text),
            want: format!("seconds from 1 to {MAX_INTERVAL_SECONDS}"),
        })
    }

    /// Download folder: `MODEL_PATH`, else `download` below `MNT_PATH`.
    pub fn downloads(&self) -> Option<PathBuf> {
        let below = self.text("MNT_PATH").map(|folder| Path::new(&folder).join("download"));
        self.text("MODEL_PATH").map(PathBuf::from).or(below)
    }

    /// Folder for trained pipelines: `MODEL_PATH`, else `models` below `MNT_PATH`.
    pub fn models(&self) -> Option<PathBuf> {
        let below = self.text("MNT_PATH").map(|folder| Path::new(&folder).join("models"));
        self.text("MODEL_PATH").map(PathBuf::from).or(below)
    }

    /// Places of pipelines: the folder `MODEL_PATH`, or `models` below `MNT_PATH`, if it exists;
    /// the addresses of `INITIAL_PIPELINE_URL`, else the standard pipeline below `MODEL_TOPURL`.
    /// Empty if none is set: metier contacts only configured addresses.
    pub fn pipelines(&self) -> Vec<String> {
        let folder = self.models().filter(|folder| folder.is_dir());
        let named = self.text("INITIAL_PIPELINE_URL").unwrap_or_default();
        let mut addresses: Vec<String> =
            named.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_string).collect();
        if addresses.is_empty() {
            let top = self.text("MODEL_TOPURL");
            addresses.extend(top.map(|top| format!("{}/{STANDARD_PIPELINE}", top.trim_end_matches('/'))));
        }
        folder.map(|folder| folder.to_string_lossy().into_owned()).into_iter().chain(addresses).collect()
    }

    /// Address of the model server's `/model`, if `MODEL_SERVER_ENABLE` is `true`.
    pub fn model_server(&self) -> Option<String> {
        if !self.is_true("MODEL_SERVER_ENABLE") {
            return None;
        }
        let server = self.text("MODEL_SERVER_URL").unwrap_or_else(|| DEFAULT_MODEL_SERVER.to_string());
        let server = if server.contains("://") { server } else { format!("http://{server}") };
        let path = self.text("MODEL_SERVER_MODEL_REQ_PATH").unwrap_or_else(|| "/model".to_string());
        Some(format!("{}/{}", server.trim_end_matches('/'), path.trim_start_matches('/')))
    }

    /// Single predictors (`NODE_TOTAL_INIT_URL` and similar). Process settings apply to processes;
    /// the original used the node's predictor for them.
    pub fn initial(&self) -> Vec<InitialPredictor> {
        let mut found: Vec<InitialPredictor> = Vec::new();
        for (level, output_type, source) in LEVELS {
            let key = format!("{level}_INIT_URL");
            let line = self.lines.get(&key).filter(|line| !line.is_empty()).cloned();
            let Some(address) = line.or_else(|| self.text(&key)) else { continue };
            if !found
                .iter()
                .any(|predictor| predictor.output_type == output_type && predictor.source == source)
            {
                found.push(InitialPredictor { output_type, source, address });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, environment: &[(&str, &str)]) -> KeplerSettings {
        let known: BTreeMap<String, String> =
            environment.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        KeplerSettings::open(Some(folder), move |key| known.get(key).cloned())
    }

    #[test]
    fn a_file_of_the_folder_goes_before_the_environment_and_nothing_is_asked_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let settings = open(folder.path(), &[]);
        assert_eq!(
            (settings.model_server(), settings.pipelines(), settings.error_key()),
            (None, vec![], None)
        );
        assert_eq!((settings.port().unwrap(), settings.initial()), (None, vec![]));
        std::fs::write(folder.path().join("ERROR_KEY"), "mape\n").unwrap();
        let settings = open(folder.path(), &[("ERROR_KEY", "mse"), ("MODEL_SERVER_PORT", "8200")]);
        assert_eq!(settings.error_key().as_deref(), Some("mape"));
        assert_eq!(settings.port().unwrap(), Some(8200));
        let wrong = open(folder.path(), &[("MODEL_SERVER_PORT", "http")]).port().unwrap_err().to_string();
        assert!(wrong.contains("MODEL_SERVER_PORT") && wrong.contains("http"), "{wrong}");
    }

    #[test]
    fn the_trainers_keys_are_read_from_the_folder_too() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("PROM_SERVER"), "http://prometheus:9090\n").unwrap();
        let of = |environment: &[(&str, &str)]| open(folder.path(), environment);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(of(&[]).prometheus().as_deref(), Some("http://prometheus:9090"));
        assert!(
            !of(&[]).skips_tls_verification() && of(&[("PROM_SSL_DISABLE", "true")]).skips_tls_verification()
        );
        assert_eq!(of(&[("PROM_QUERY_INTERVAL", "60")]).sampling_interval().unwrap(), seconds(60));
        let both = [("PROM_QUERY_INTERVAL", "60"), ("SAMPLING_INTERVAL", "20"), ("VM_JOB_NAME", "guests")];
        assert_eq!(of(&both).sampling_interval().unwrap(), seconds(20));
        assert_eq!(of(&both).query_interval().unwrap(), seconds(60));
        assert_eq!(of(&both).vm_job().as_deref(), Some("guests"));
        let wrong = of(&[("SAMPLING_INTERVAL", "often")]).sampling_interval().unwrap_err().to_string();
        assert!(wrong.contains("SAMPLING_INTERVAL") && wrong.contains("often"), "{wrong}");
        assert_eq!(of(&[("MNT_PATH", "/mnt")]).downloads(), Some("/mnt/download".into()));
    }

    #[test]
    fn the_model_server_is_where_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let of = |environment: &[(&str, &str)]| open(folder.path(), environment).model_server();
        assert_eq!(of(&[("MODEL_SERVER_ENABLE", "yes")]), None);
        assert_eq!(
            of(&[("MODEL_SERVER_ENABLE", "true")]).unwrap(),
            "http://kepler-model-server.kepler.svc.cluster.local:8100/model"
        );
        let own = [
            ("MODEL_SERVER_ENABLE", "true"),
            ("MODEL_SERVER_URL", "models.lan:9/"),
            ("MODEL_SERVER_MODEL_REQ_PATH", "/m"),
        ];
        assert_eq!(of(&own).unwrap(), "http://models.lan:9/m");
    }

    #[test]
    fn pipelines_are_those_that_somebody_named() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_string_lossy().into_owned();
        let of = |environment: &[(&str, &str)]| open(folder.path(), environment).pipelines();
        assert_eq!(of(&[("MODEL_TOPURL", "http://a/b/")]), ["http://a/b/std_v0.7.11.zip"]);
        let both =
            [("MODEL_PATH", here.as_str()), ("INITIAL_PIPELINE_URL", "http://a/x.zip, http://a/y.zip")];
        assert_eq!(of(&both), [here.as_str(), "http://a/x.zip", "http://a/y.zip"]);
        assert_eq!(of(&[("MNT_PATH", &here)]), Vec::<String>::new(), "there is no folder models in it");
    }

    #[test]
    fn what_is_meant_for_processes_is_theirs_and_lines_keep_what_follows_a_second_equals_sign() {
        let folder = tempfile::tempdir().unwrap();
        let lines = "# levels\nNODE_TOTAL_ESTIMATOR=true\nNODE_TOTAL_INIT_URL=http://a/b.zip?key=1\n PROCESS_COMPONENTS_INIT_URL = file:///c.json \n\
                     CONTAINER_COMPONENTS_INIT_URL=http://not/this\n";
        std::fs::write(folder.path().join("MODEL_CONFIG"), lines).unwrap();
        let of = |output_type, source, address: &str| InitialPredictor {
            output_type,
            source,
            address: address.into(),
        };
        assert_eq!(
            open(folder.path(), &[]).initial(),
            [
                of(OutputType::AbsPower, EnergySource::Acpi, "http://a/b.zip?key=1"),
                of(OutputType::DynPower, EnergySource::RaplSysfs, "file:///c.json"),
            ]
        );
    }
}
