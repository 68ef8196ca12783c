//! The flags of `metier run`, by what they are about. Each is a field of a run file too, and lays itself over it: lists
//! and tables grow, everything else is replaced.

use std::path::PathBuf;

use clap::Args;
use metier_session::runfile::{
    Dataset, Listen, MOUNT, Mount, Origins, Other, Pod, Ready, RunFile, STACKS, mount, words,
};
use metier_types::WorkloadId;

use crate::exit::usage;

/// What a container or a pod is made of.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Containers and pods")]
pub struct Images {
    /// Run a container of this image; words after `--` are its arguments
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Run a pod of this image in a cluster
    #[arg(long, visible_alias = "kube", value_name = "IMAGE", conflicts_with = "image")]
    pub pod: Option<String>,
    /// In place of the image's entrypoint; may be given again for its words
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    entrypoint: Vec<String>,
    /// A file or folder that it sees; may be given again
    #[arg(long, value_name = "SOURCE:TARGET[:ro]")]
    mount: Vec<String>,
    /// When the image is fetched: missing, always, never
    #[arg(long, value_name = "WHEN")]
    pull: Option<String>,
    /// Where the container engine listens [DOCKER_HOST; default the usual sockets]
    #[arg(long, value_name = "SOCKET")]
    engine: Option<String>,
    /// Its network: none, host, bridge or a name
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Its runtime, such as nvidia
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,
    /// Its user, such as 1000:1000
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// A device of this machine that it may use; may be given again
    #[arg(long, value_name = "PATH")]
    device: Vec<String>,
    /// A capability beyond the usual ones; may be given again
    #[arg(long, value_name = "NAME")]
    capability: Vec<String>,
    /// It may do everything that this machine may
    #[arg(long)]
    privileged: bool,
    /// It reads our standard input
    #[arg(long)]
    stdin: bool,
    /// Size of its /dev/shm
    #[arg(long, value_name = "SIZE")]
    shared_memory: Option<String>,
    /// A label beside ours; may be given again
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// The node that the pod runs on
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// A label that its node must have; may be given again
    #[arg(long, value_name = "NAME=VALUE")]
    selector: Vec<String>,
    /// Its namespace [default: the context's]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The cluster, as the kubeconfig calls it
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The file that knows the clusters [KUBECONFIG; default ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
}

/// What it gets, and what it may use.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Surroundings and limits")]
pub struct Surroundings {
    /// A variable; NAME alone passes ours on; may be given again
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Folder to run in
    #[arg(long, value_name = "FOLDER")]
    pub workdir: Option<String>,
    /// Longest time it may take: 250ms, 1.5s, 2m, 1h [METIER_RUN_TIMEOUT; default none]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Run it for so long, then end it: it was complete, and the exit code is 0
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<String>,
    /// Time between INT, TERM and KILL when its time is up [METIER_RUN_GRACE; default 5s]
    #[arg(long, value_name = "TIME")]
    pub grace: Option<String>,
    /// How long processes that it leaves behind may go on [METIER_RUN_LINGER; default 10s]
    #[arg(long, value_name = "TIME")]
    pub linger: Option<String>,
    /// Cores it may use: 2, 0.5, 500m
    #[arg(long, value_name = "CORES")]
    limit_cpu: Option<String>,
    /// Memory it may use: 300Mi, 1.5Gi, 512MB
    #[arg(long, value_name = "SIZE")]
    limit_memory: Option<String>,
    /// GPUs that a container or pod gets: a number, or all
    #[arg(long, value_name = "N|all")]
    limit_gpu: Option<String>,
    /// A run that it needs, started before it: a run file or a command; may be given again
    #[arg(long, value_name = "FILE|COMMAND")]
    needs: Vec<String>,
    /// A run to measure beside it: a run file or a command; may be given again
    #[arg(long, value_name = "FILE|COMMAND")]
    with: Vec<String>,
    /// When it is ready: port:8080, http://…, file:PATH, or of a container output:TEXT
    #[arg(long, value_name = "SIGN")]
    ready: Option<String>,
    /// How long getting ready may take [default 60s]
    #[arg(long, value_name = "TIME")]
    ready_within: Option<String>,
}

/// What it works on.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Dataset")]
pub struct Datasets {
    /// What it works on, fetched before the clock starts: a path, https://… or s3://bucket/key
    #[arg(long, value_name = "SOURCE")]
    pub dataset: Option<String>,
    /// The digest that it must have
    #[arg(long, value_name = "sha256:…")]
    dataset_digest: Option<String>,
    /// Where a container sees it [default /dataset]
    #[arg(long, value_name = "PATH")]
    dataset_target: Option<String>,
    /// Address of an S3-compatible store [AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    dataset_endpoint: Option<String>,
    /// Its region [AWS_REGION; default us-east-1]
    #[arg(long, value_name = "NAME")]
    dataset_region: Option<String>,
    /// Where fetched datasets are kept [default ~/.cache/metier/datasets]
    #[arg(long, value_name = "FOLDER")]
    pub dataset_cache: Option<PathBuf>,
    /// Most that fetched datasets may take: 50Gi; those unused for longest go first [METIER_RUN_DATASET_CACHE_LIMIT; default none]
    #[arg(long, value_name = "SIZE")]
    pub dataset_cache_limit: Option<String>,
    /// Drop it from the page cache before the clock starts, or read it in: cold, warm
    #[arg(long, value_name = "STATE")]
    pub page_cache: Option<String>,
    /// File or folder that it works on; its content's digest is recorded
    #[arg(long, value_name = "PATH")]
    input: Option<String>,
}

/// How it is measured.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Measuring")]
pub struct Measuring {
    /// Measure so many times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: Option<u32>,
    /// Run so many times before, without counting those
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warmup: Option<u32>,
    /// With --repeat, end at the first repetition that fails
    #[arg(long)]
    stop_on_failure: bool,
    /// Time between samples of the time line, 1ms to 10s [METIER_RUN_INTERVAL; default 100ms]
    #[arg(long, value_name = "TIME")]
    pub interval: Option<String>,
    /// Listen to what it says of itself: socket, socket=PATH, pywaggle, lines; may be given again
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Read its own metrics page; may be given again
    #[arg(long, value_name = "URL")]
    scrape: Vec<String>,
    /// Sample its stacks, so many times a second
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "99")]
    stacks: Option<u32>,
    /// Files to keep with the run: a path with * and ?; may be given again
    #[arg(long, value_name = "PATTERN")]
    pub artefact: Vec<String>,
    /// A probe that measures from inside, from a YAML file of wrap, mounts, environment and artefacts; may be given again
    #[arg(long, value_name = "FILE")]
    probe: Vec<PathBuf>,
}

/// How it is kept and found.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Keeping")]
pub struct Keeping {
    /// Name of the workload; runs of one name belong together
    #[arg(long)]
    name: Option<WorkloadId>,
    /// A word to find the run by; may be given again
    #[arg(long, value_name = "WORD")]
    tag: Vec<String>,
    /// Write the record to this file too (metier.run/1; with --repeat metier.runs/1)
    #[arg(long, value_name = "FILE")]
    pub save_json: Option<PathBuf>,
    /// Keep nothing in the store
    #[arg(long)]
    pub no_store: bool,
}

/// Replaces a field if the flag was given, and remembers who did.
fn replace<T>(field: &mut T, origins: &mut Origins, path: &str, flag: &str, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
        origins.flag(path, flag);
    }
}

/// Adds to a list, and remembers which items came from the flag.
fn add<T>(
    list: &mut Vec<T>,
    origins: &mut Origins,
    path: &str,
    flag: &str,
    given: impl IntoIterator<Item = T>,
) {
    for item in given {
        if list.is_empty() {
            origins.flag(path, flag);
        }
        origins.flag(&format!("{path}[{}]", list.len()), flag);
        list.push(item);
    }
}

fn pair<'a>(flag: &str, text: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| usage(format!("{flag} is {text:?}; want NAME=VALUE")))
}

impl Images {
    pub fn lay_over(&self, file: &mut RunFile, origins: &mut Origins) -> anyhow::Result<()> {
        if let Some(image) = &self.image {
            (file.command, file.pod) = (Vec::new(), None);
            replace(&mut file.image, origins, "image", "--image", Some(Some(image.clone())));
        }
        if let Some(image) = &self.pod {
            (file.command, file.image) = (Vec::new(), None);
            let pod = Pod { image: image.clone(), ..file.pod.take().unwrap_or_default() };
            replace(&mut file.pod, origins, "pod", "--pod", Some(Some(pod)));
            origins.flag("pod.image", "--pod");
        }
        let container = &mut file.container;
        let some = |given: &Option<String>| given.clone().map(Some);
        if !self.entrypoint.is_empty() {
            replace(
                &mut container.entrypoint,
                origins,
                "container.entrypoint",
                "--entrypoint",
                Some(self.entrypoint.clone()),
            );
        }
        replace(&mut container.pull, origins, "container.pull", "--pull", some(&self.pull));
        replace(&mut container.engine, origins, "container.engine", "--engine", some(&self.engine));
        replace(&mut container.network, origins, "container.network", "--network", some(&self.network));
        replace(&mut container.runtime, origins, "container.runtime", "--runtime", some(&self.runtime));
        replace(&mut container.user, origins, "container.user", "--user", some(&self.user));
        replace(
            &mut container.privileged,
            origins,
            "container.privileged",
            "--privileged",
            self.privileged.then_some(true),
        );
        let stdin = self.stdin.then_some(true);
        replace(&mut container.stdin, origins, "container.stdin", "--stdin", stdin);
        replace(
            &mut container.shared_memory,
            origins,
            "container.shared_memory",
            "--shared-memory",
            some(&self.shared_memory),
        );
        if !self.device.is_empty() {
            origins.flag("container.devices", "--device");
            container.devices.extend(self.device.iter().cloned());
        }
        if !self.capability.is_empty() {
            origins.flag("container.capabilities", "--capability");
            container.capabilities.extend(self.capability.iter().cloned());
        }
        for label in &self.label {
            let (name, value) = pair("--label", label)?;
            origins.flag("container.labels", "--label");
            container.labels.insert(name.into(), value.into());
        }
        let mounts = self
            .mount
            .iter()
            .map(|text| {
                let found = mount(text).ok_or_else(|| usage(format!("--mount is {text:?}; want {MOUNT}")))?;
                // A pod's is a path of its node: where one stands here says nothing of that.
                if file.pod.is_some() {
                    return Ok(found);
                }
                let source = std::path::absolute(&found.source).map(|path| path.display().to_string());
                Ok(Mount { source: source.unwrap_or(found.source), ..found })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        add(&mut file.mounts, origins, "mounts", "--mount", mounts);
        self.cluster(file, origins)
    }

    /// Where the pod runs.
    fn cluster(&self, file: &mut RunFile, origins: &mut Origins) -> anyhow::Result<()> {
        let given = [
            ("--node", self.node.is_some()),
            ("--selector", !self.selector.is_empty()),
            ("--namespace", self.namespace.is_some()),
            ("--context", self.context.is_some()),
            ("--kubeconfig", self.kubeconfig.is_some()),
        ];
        let Some(pod) = file.pod.as_mut() else {
            return match given.iter().find(|(_, is_given)| *is_given) {
                Some((flag, _)) => Err(usage(format!(
                    "{flag} is only for a pod; want --pod IMAGE or a run file with pod too"
                ))),
                None => Ok(()),
            };
        };
        let some = |given: &Option<String>| given.clone().map(Some);
        replace(&mut pod.node, origins, "pod.node", "--node", some(&self.node));
        replace(&mut pod.namespace, origins, "pod.namespace", "--namespace", some(&self.namespace));
        replace(&mut pod.context, origins, "pod.context", "--context", some(&self.context));
        replace(&mut pod.kubeconfig, origins, "pod.kubeconfig", "--kubeconfig", some(&self.kubeconfig));
        for label in &self.selector {
            let (name, value) = pair("--selector", label)?;
            origins.flag("pod.selector", "--selector");
            pod.selector.insert(name.into(), value.into());
        }
        Ok(())
    }
}

impl Surroundings {
    pub fn lay_over(&self, file: &mut RunFile, origins: &mut Origins) -> anyhow::Result<()> {
        for text in &self.env {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name.to_string(), value.to_string()),
                None => match std::env::var(text) {
                    Ok(value) => (text.clone(), value),
                    Err(_) => {
                        let want = "NAME=VALUE, or a NAME that is set here";
                        return Err(usage(format!("--env is {text:?}; want {want}")));
                    }
                },
            };
            origins.flag(&format!("environment.{name}"), "--env");
            file.environment.insert(name, value);
        }
        let some = |given: &Option<String>| given.clone().map(Some);
        replace(&mut file.working_directory, origins, "working_directory", "--workdir", some(&self.workdir));
        replace(&mut file.limits.cpu, origins, "limits.cpu", "--limit-cpu", some(&self.limit_cpu));
        replace(
            &mut file.limits.memory,
            origins,
            "limits.memory",
            "--limit-memory",
            some(&self.limit_memory),
        );
        replace(&mut file.limits.gpu, origins, "limits.gpu", "--limit-gpu", some(&self.limit_gpu));
        replace(&mut file.duration, origins, "duration", "--for", some(&self.duration));
        let needs =
            self.needs.iter().map(|text| other("--needs", text)).collect::<anyhow::Result<Vec<_>>>()?;
        add(&mut file.needs, origins, "needs", "--needs", needs);
        let with = self.with.iter().map(|text| other("--with", text)).collect::<anyhow::Result<Vec<_>>>()?;
        add(&mut file.with, origins, "with", "--with", with);
        if let Some(sign) = &self.ready {
            let mut ready = sign_of(sign)?;
            ready.within = file.ready.take().and_then(|ready| ready.within);
            file.ready = Some(ready);
            for field in ["ready", "ready.port", "ready.http", "ready.file", "ready.output"] {
                origins.flag(field, "--ready");
            }
        }
        if let Some(within) = &self.ready_within {
            let Some(ready) = file.ready.as_mut() else {
                let want = "--ready SIGN or a run file with ready too";
                return Err(usage(format!("--ready-within is only for what gets ready; want {want}")));
            };
            ready.within = Some(within.clone());
            origins.flag("ready.within", "--ready-within");
        }
        Ok(())
    }
}

/// A run file by its name, else a command in words.
fn other(flag: &str, text: &str) -> anyhow::Result<Other> {
    if super::source::is_named_like_one(text.as_ref()) {
        return Ok(Other::File(text.into()));
    }
    let command = words(text).filter(|words| !words.is_empty()).ok_or_else(|| {
        usage(format!("{flag} is {text:?}; want a run file, or a command with its quotes closed"))
    })?;
    Ok(Other::Run(Box::new(RunFile { command, ..RunFile::default() })))
}

fn sign_of(text: &str) -> anyhow::Result<Ready> {
    let ready = Ready::default();
    let some = |text: &str| Some(text.to_string());
    Ok(match text.split_once(':') {
        Some(("port", port)) => Ready { port: some(port), ..ready },
        Some(("http" | "https", _)) => Ready { http: some(text), ..ready },
        Some(("file", path)) => Ready { file: some(path), ..ready },
        Some(("output", part)) => Ready { output: some(part), ..ready },
        _ => {
            return Err(usage(format!(
                "--ready is {text:?}; want port:8080, http://…, file:PATH or output:TEXT"
            )));
        }
    })
}

impl Datasets {
    pub fn lay_over(&self, file: &mut RunFile, origins: &mut Origins) -> anyhow::Result<()> {
        if let Some(source) = &self.dataset {
            // Another dataset has another digest, and may be in another store.
            let kept = file.dataset.take().unwrap_or_default();
            file.dataset = Some(Dataset {
                source: source.clone(),
                target: kept.target,
                page_cache: kept.page_cache,
                ..Dataset::default()
            });
            origins.flag("dataset", "--dataset");
            origins.flag("dataset.source", "--dataset");
        }
        let some = |given: &Option<String>| given.clone().map(Some);
        replace(&mut file.input, origins, "input", "--input", some(&self.input));
        let given = [
            ("--dataset-digest", &self.dataset_digest),
            ("--dataset-target", &self.dataset_target),
            ("--dataset-endpoint", &self.dataset_endpoint),
            ("--dataset-region", &self.dataset_region),
            ("--page-cache", &self.page_cache),
        ];
        let Some(dataset) = file.dataset.as_mut() else {
            return match given.iter().find(|(_, given)| given.is_some()) {
                Some((flag, _)) => {
                    Err(usage(format!("{flag} is only for a dataset; want --dataset SOURCE too")))
                }
                None => Ok(()),
            };
        };
        replace(
            &mut dataset.digest,
            origins,
            "dataset.digest",
            "--dataset-digest",
            some(&self.dataset_digest),
        );
        replace(
            &mut dataset.target,
            origins,
            "dataset.target",
            "--dataset-target",
            some(&self.dataset_target),
        );
        replace(
            &mut dataset.endpoint,
            origins,
            "dataset.endpoint",
            "--dataset-endpoint",
            some(&self.dataset_endpoint),
        );
        replace(
            &mut dataset.region,
            origins,
            "dataset.region",
            "--dataset-region",
            some(&self.dataset_region),
        );
        replace(
            &mut dataset.page_cache,
            origins,
            "dataset.page_cache",
            "--page-cache",
            some(&self.page_cache),
        );
        Ok(())
    }
}

impl Measuring {
    pub fn lay_over(&self, file: &mut RunFile, origins: &mut Origins) -> anyhow::Result<()> {
        replace(&mut file.repeats, origins, "repeats", "--repeat", self.repeat.map(Some));
        replace(&mut file.warmup, origins, "warmup", "--warmup", self.warmup.map(Some));
        replace(
            &mut file.stop_on_failure,
            origins,
            "stop_on_failure",
            "--stop-on-failure",
            self.stop_on_failure.then_some(true),
        );
        if !self.listen.is_empty() {
            file.listen = Listen { scrape: std::mem::take(&mut file.listen.scrape), ..Listen::default() };
            origins.flag("listen", "--listen");
        }
        for word in &self.listen {
            let Listen { socket, socket_path, pywaggle, lines, .. } = &mut file.listen;
            match word.as_str() {
                "socket" => *socket = true,
                path if path.starts_with("socket=/") => {
                    (*socket, *socket_path) = (true, path.strip_prefix("socket=").map(str::to_string));
                }
                "pywaggle" => *pywaggle = true,
                "lines" => *lines = true,
                _ => {
                    return Err(usage(format!(
                        "--listen is {word:?}; want socket, socket=PATH with an absolute path, pywaggle or lines"
                    )));
                }
            }
        }
        add(&mut file.listen.scrape, origins, "listen.scrape", "--scrape", self.scrape.iter().cloned());
        replace(&mut file.stacks, origins, "stacks", "--stacks", self.stacks.map(Some));
        add(&mut file.artefacts, origins, "artefacts", "--artefact", self.artefact.iter().cloned());
        for path in &self.probe {
            let probe = super::source::probe(path)?;
            origins.flag(&format!("probes[{}]", file.probes.len()), "--probe");
            file.probes.push(probe);
        }
        debug_assert_eq!(STACKS, 99, "the default that the flag names");
        Ok(())
    }
}

impl Keeping {
    pub fn lay_over(&self, file: &mut RunFile, origins: &mut Origins) {
        replace(
            &mut file.name,
            origins,
            "name",
            "--name",
            self.name.as_ref().map(|name| Some(name.to_string())),
        );
        add(&mut file.tags, origins, "tags", "--tag", self.tag.iter().cloned());
    }
}
