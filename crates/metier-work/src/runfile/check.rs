//! From what was written to what can run: every field checked, all faults at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_measure::spec::{
    Command, ContainerSpec, GpuCount, INTERVALS, Limits, Mount, PodSpec, Pull, Target,
};
use metier_measure::{Spec, app};
use metier_types::{Bytes, Digest, PageCache};

use super::fault::{Fault, Faults, Origins};
use super::file::{Dataset, Other, Probe, Ready, RunFile};
use super::node::shortened;
use super::quantity::{CORES, DURATION, SIZE, duration, millicores, size};

/// A run that makes sense.
#[derive(Debug, Clone)]
pub struct Checked {
    /// What it was made of, paths made absolute; it can be written out and read again.
    pub file: RunFile,
    /// What the measuring room is asked for; batch, repetition, dataset and company come when it is run.
    pub spec: Spec,
    /// What it works on.
    pub dataset: Option<Wanted>,
    /// Runs that it needs.
    pub needs: Vec<Checked>,
    /// Runs beside it.
    pub with: Vec<Checked>,
    /// When it is ready.
    pub ready: Option<Readiness>,
    /// Runs before the ones that count.
    pub warmup: u32,
    /// How many times to measure.
    pub repeats: u32,
}

/// A dataset that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Where it is.
    pub source: Source,
    /// The digest that it must have.
    pub digest: Option<Digest>,
    /// Where a container sees it.
    pub target: String,
    /// What to do about the page cache.
    pub page_cache: PageCache,
}

/// Where a dataset is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file or folder here.
    Path(PathBuf),
    /// A file on a web server.
    Http(String),
    /// An object, or all under a prefix that ends with `/`.
    S3 {
        /// The bucket.
        bucket: String,
        /// The key, or the prefix.
        key: String,
        /// Where the store is, if it was said.
        endpoint: Option<String>,
        /// Its region, if it was said.
        region: Option<String>,
    },
}

/// When a run is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// What to look for.
    pub sign: Sign,
    /// How long that may take.
    pub within: Duration,
}

/// What shows that a run is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sign {
    /// Something listens there.
    Port(String, u16),
    /// It answers.
    Http(String),
    /// It is there.
    File(PathBuf),
    /// It printed this.
    Output(String),
}

/// Where a container sees its dataset if nobody says otherwise.
pub const DATASET_TARGET: &str = "/dataset";
/// How long getting ready may take if nobody says otherwise.
pub const WITHIN: Duration = Duration::from_secs(60);
/// Runs beside one.
const MOST_OTHERS: usize = 16;

impl RunFile {
    /// Checks everything.
    pub fn check(self, origins: &Origins) -> Result<Checked, Faults> {
        self.check_with(origins, false)
    }

    /// Checks everything but what is there: it runs later, and perhaps on another device.
    pub fn check_for_later(self, origins: &Origins) -> Result<Checked, Faults> {
        self.check_with(origins, true)
    }

    fn check_with(self, origins: &Origins, is_later: bool) -> Result<Checked, Faults> {
        let input_later = is_later || origins.is_flag("input");
        let mut check = Check { faults: Vec::new(), input_later, is_later };
        let checked = check.run(self, "");
        if check.faults.is_empty()
            && let Err(metier_measure::Error::Spec { field, got, want }) = checked.spec.check()
        {
            check.faults.push(Fault::new(field, got, want));
        }
        match origins.all(check.faults) {
            None => Ok(checked),
            Some(faults) => Err(faults),
        }
    }

    /// Takes relative paths as they are meant: from where the file is.
    pub fn beside(&mut self, folder: &Path) {
        let absolute = |path: &mut String| {
            if !path.is_empty() && !path.contains("://") {
                *path = folder.join(path.as_str()).display().to_string();
            }
        };
        let probes = self.probes.iter_mut().flat_map(|probe| &mut probe.mounts);
        self.mounts.iter_mut().chain(probes).for_each(|mount| absolute(&mut mount.source));
        self.working_directory.iter_mut().chain(&mut self.input).for_each(absolute);
        self.dataset.iter_mut().for_each(|dataset| absolute(&mut dataset.source));
        self.pod.iter_mut().filter_map(|pod| pod.kubeconfig.as_mut()).for_each(absolute);
        if self.image.is_none() && self.pod.is_none() {
            self.ready.iter_mut().filter_map(|ready| ready.file.as_mut()).for_each(absolute);
        }
        for other in self.needs.iter_mut().chain(&mut self.with) {
            match other {
                Other::File(path) => absolute(path),
                Other::Run(file) => file.beside(folder),
            }
        }
    }
}

struct Check {
    faults: Vec<Fault>,
    /// An input that was typed is looked for when it is read.
    input_later: bool,
    /// Nothing is looked for on this device.
    is_later: bool,
}

/// Which of the three it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Command,
    Container,
    Pod,
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

fn measured_mount(mount: &super::Mount) -> Mount {
    let source = std::path::absolute(&mount.source).unwrap_or_else(|_| mount.source.as_str().into());
    Mount { source, target: mount.target.as_str().into(), read_only: mount.read_only }
}

impl Check {
    fn wrong(&mut self, field: String, got: &str, want: &str) {
        self.faults.push(Fault::new(field, format!("{:?}", shortened(got)), want));
    }

    /// A text that has to be readable as something.
    fn read<T>(
        &mut self,
        field: String,
        text: Option<&String>,
        want: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = text?;
        let value = read(text);
        if value.is_none() {
            self.wrong(field, text, want);
        }
        value
    }

    fn run(&mut self, file: RunFile, path: &str) -> Checked {
        let at = |name: &str| join(path, name);
        let kind = self.kind(&file, path);
        let target = self.target(&file, kind, path);
        let is_here = kind == Kind::Command;
        let mut environment = file.environment.clone();
        let mut mounts = file.mounts.clone();
        let mut artefacts = file.artefacts.clone();
        for (index, probe) in file.probes.iter().enumerate() {
            self.probe(probe, &at(&format!("probes[{index}]")), kind, &file);
            environment.extend(probe.environment.clone());
            mounts.extend(probe.mounts.iter().cloned());
            artefacts.extend(probe.artefacts.iter().cloned());
        }
        self.variables(&file.environment, &at("environment"));
        for (index, mount) in file.mounts.iter().enumerate() {
            self.mount(mount, &at(&format!("mounts[{index}]")), kind);
        }
        self.patterns(&file.artefacts, &at("artefacts"));
        let dataset =
            file.dataset.as_ref().and_then(|dataset| self.dataset(dataset, &at("dataset"), is_here));
        let ready = file.ready.as_ref().and_then(|ready| self.ready(ready, &at("ready"), path.is_empty()));
        for (name, count, least) in [("repeats", file.repeats, 1), ("warmup", file.warmup, 0)] {
            if let Some(count) = count.filter(|count| !(least..=100_000).contains(count)) {
                self.wrong(at(name), &count.to_string(), &format!("{least} to 100000"));
            }
        }
        let mut spec = Spec::of(target);
        spec.limits = self.limits(&file, path);
        spec.mounts = mounts.iter().map(measured_mount).collect();
        spec.environment = environment.into_iter().collect();
        spec.artefacts = artefacts;
        spec.input = file.input.as_ref().map(PathBuf::from);
        spec.working_directory = file.working_directory.as_ref().map(PathBuf::from);
        self.times(&file, path, &mut spec);
        if let Some(rate) = file.stacks.filter(|rate| !(1..=1000).contains(rate)) {
            self.wrong(at("stacks"), &rate.to_string(), "1 to 1000 samples per second");
        }
        spec.stacks = file.stacks;
        for (index, address) in file.listen.scrape.iter().enumerate() {
            if let Err(want) = app::http::Url::parse(address) {
                self.wrong(at(&format!("listen.scrape[{index}]")), address, want);
            }
        }
        spec.listen = app::Ways {
            socket: file.listen.socket || file.listen.socket_path.is_some(),
            socket_path: file.listen.socket_path.as_ref().map(PathBuf::from),
            pywaggle: file.listen.pywaggle,
            lines: file.listen.lines,
            scrape: file.listen.scrape.clone(),
        };
        if let Some(path) = file.listen.socket_path.as_ref().filter(|path| !path.starts_with('/')) {
            self.wrong(at("listen.socket_path"), path, "the absolute path of a socket");
        }
        for (index, tag) in file.tags.iter().enumerate() {
            if tag.is_empty() || tag.len() > 200 || tag.chars().any(char::is_control) {
                self.wrong(at(&format!("tags[{index}]")), tag, "1 to 200 printable characters");
            }
        }
        spec.tags = file.tags.clone();
        let name = "1 to 200 printable characters without '/' at either end";
        spec.name = self.read(at("name"), file.name.as_ref(), name, |text| text.parse().ok());
        if let Some(folder) = file.working_directory.as_ref() {
            if is_here && !self.is_later && !Path::new(folder).is_dir() {
                self.wrong(at("working_directory"), folder, "a folder that is there");
            } else if !is_here && !folder.starts_with('/') {
                self.wrong(at("working_directory"), folder, "an absolute path in the container");
            }
        }
        let input = file.input.as_ref().filter(|_| !self.input_later);
        if let Some(input) = input.filter(|input| std::fs::metadata(input).is_err()) {
            self.wrong(at("input"), input, "a file or folder that is there");
        }
        let needs = self.others(&file.needs, &at("needs"));
        let with = self.others(&file.with, &at("with"));
        let (warmup, repeats) = (file.warmup.unwrap_or(0), file.repeats.unwrap_or(1));
        Checked { spec, dataset, needs, with, ready, warmup, repeats, file }
    }

    fn limits(&mut self, file: &RunFile, path: &str) -> Limits {
        let at = |name: &str| join(path, name);
        let given = &file.limits;
        let gpus = |text: &str| match text {
            "all" => Some(GpuCount::All),
            text => text.parse().ok().filter(|count| (1..=64).contains(count)).map(GpuCount::Count),
        };
        Limits {
            cpu: self.read(at("limits.cpu"), given.cpu.as_ref(), CORES, |text| {
                millicores(text)
                    .filter(|thousandths| (10..=100_000_000).contains(thousandths))
                    .map(|thousandths| thousandths as f64 / 1000.0)
            }),
            memory: self.read(at("limits.memory"), given.memory.as_ref(), SIZE, |text| {
                size(text).filter(|bytes| *bytes >= 1 << 20).map(Bytes)
            }),
            gpus: self.read(at("limits.gpu"), given.gpu.as_ref(), "a number of GPUs, or all", gpus),
        }
    }

    fn times(&mut self, file: &RunFile, path: &str, spec: &mut Spec) {
        let at = |name: &str| join(path, name);
        spec.timeout = self.read(at("timeout"), file.timeout.as_ref(), DURATION, |text| {
            duration(text).filter(|time| !time.is_zero())
        });
        let up_to_hour = |text: &str| duration(text).filter(|time| *time <= Duration::from_secs(3600));
        let want = "a time such as 5s, at most 1h";
        let grace = self.read(at("grace"), file.grace.as_ref(), want, up_to_hour);
        let linger = self.read(at("linger"), file.linger.as_ref(), DURATION, duration);
        let interval = self.read(at("interval"), file.interval.as_ref(), "1ms to 10s", |text| {
            duration(text).filter(|time| INTERVALS.contains(time))
        });
        spec.grace = grace.unwrap_or(spec.grace);
        spec.linger = linger.unwrap_or(spec.linger);
        spec.interval = interval.unwrap_or(spec.interval);
    }

    /// Exactly one of the three, and nothing that only the others have.
    fn kind(&mut self, file: &RunFile, path: &str) -> Kind {
        let at = |name: &str| join(path, name);
        let given = [
            (Kind::Command, "command", !file.command.is_empty()),
            (Kind::Container, "image", file.image.is_some()),
            (Kind::Pod, "pod", file.pod.is_some()),
        ];
        let kinds: Vec<_> = given.iter().filter(|(_, _, is)| *is).collect();
        let kind = match kinds.as_slice() {
            [(kind, _, _)] => *kind,
            [] => {
                self.faults.push(Fault::absent(at("command"), "what to run: one of command, image or pod"));
                return Kind::Command;
            }
            [(_, first, _), .., (kind, last, _)] => {
                let got = format!("given beside {first}");
                self.faults.push(Fault::new(at(last), got, "one of command, image or pod"));
                *kind
            }
        };
        let only_container = "left out: it is only for an image";
        let only_image = "left out: it is only for an image or a pod";
        let c = &file.container;
        let (here, not_container) = (kind == Kind::Command, kind != Kind::Container);
        for (field, is_wrong, want) in [
            ("mounts", here && !file.mounts.is_empty(), "left out: a command sees this machine's files"),
            (
                "limits.gpu",
                here && file.limits.gpu.is_some(),
                "left out: a command sees all GPUs of this machine",
            ),
            ("container.entrypoint", here && !c.entrypoint.is_empty(), only_image),
            ("container.pull", here && c.pull.is_some(), only_image),
            ("container.engine", not_container && c.engine.is_some(), only_container),
            ("container.network", not_container && c.network.is_some(), only_container),
            ("container.runtime", not_container && c.runtime.is_some(), only_container),
            ("container.user", not_container && c.user.is_some(), only_container),
            ("container.devices", not_container && !c.devices.is_empty(), only_container),
            ("container.capabilities", not_container && !c.capabilities.is_empty(), only_container),
            ("container.privileged", not_container && c.privileged, only_container),
            ("container.shared_memory", not_container && c.shared_memory.is_some(), only_container),
            ("container.labels", not_container && !c.labels.is_empty(), only_container),
        ] {
            if is_wrong {
                self.faults.push(Fault::new(at(field), "given", want));
            }
        }
        kind
    }

    fn target(&mut self, file: &RunFile, kind: Kind, path: &str) -> Target {
        let at = |name: &str| join(path, name);
        let wrap = || file.probes.iter().rev().flat_map(|probe| probe.wrap.iter().cloned());
        let c = &file.container;
        let entrypoint =
            (!c.entrypoint.is_empty()).then(|| wrap().chain(c.entrypoint.iter().cloned()).collect());
        let pull = self
            .read(at("container.pull"), c.pull.as_ref(), "missing, always or never", |text| match text {
                "missing" => Some(Pull::Missing),
                "always" => Some(Pull::Always),
                "never" => Some(Pull::Never),
                _ => None,
            })
            .unwrap_or_default();
        let target = match kind {
            Kind::Command => {
                if file.command.first().is_some_and(String::is_empty) {
                    self.wrong(at("command"), "", "a program to run");
                }
                let mut words =
                    wrap().chain(file.command.iter().cloned()).chain(file.arguments.iter().cloned());
                let program = words.next().unwrap_or_default().into();
                Target::Command(Command { program, arguments: words.map(Into::into).collect() })
            }
            Kind::Container => Target::Container(ContainerSpec {
                stdin: false,
                image: file.image.clone().unwrap_or_default(),
                entrypoint,
                arguments: file.arguments.clone(),
                engine: c.engine.clone(),
                user: c.user.clone(),
                network: c.network.clone(),
                runtime: c.runtime.clone(),
                devices: c.devices.iter().map(PathBuf::from).collect(),
                capabilities: c.capabilities.clone(),
                privileged: c.privileged,
                shared_memory: self
                    .read(at("container.shared_memory"), c.shared_memory.as_ref(), SIZE, size)
                    .map(Bytes),
                labels: c.labels.clone(),
                pull,
                without_gate: false,
            }),
            Kind::Pod => {
                let pod = file.pod.clone().unwrap_or_default();
                Target::Pod(PodSpec {
                    image: pod.image,
                    entrypoint,
                    arguments: file.arguments.clone(),
                    kubeconfig: pod.kubeconfig.map(PathBuf::from),
                    context: pod.context,
                    namespace: pod.namespace,
                    node: pod.node,
                    node_labels: pod.selector,
                    as_elsewhere: false,
                    start_within: None,
                    pull,
                })
            }
        };
        if let Some(image) = target.image()
            && (image.is_empty() || image.contains(char::is_whitespace) || image.starts_with('-'))
        {
            let field = if kind == Kind::Pod { "pod.image" } else { "image" };
            self.wrong(at(field), image, "an image such as python:3.12");
        }
        for device in &c.devices {
            if !device.starts_with('/') {
                self.wrong(at("container.devices"), device, "absolute paths such as /dev/video0");
            }
        }
        target
    }

    fn variables(&mut self, variables: &BTreeMap<String, String>, path: &str) {
        for name in variables.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                self.wrong(format!("{path}.{name}"), name, "a name without '='");
            }
        }
    }

    fn patterns(&mut self, patterns: &[String], path: &str) {
        for (index, pattern) in patterns.iter().enumerate() {
            if pattern.is_empty() || pattern.split('/').any(|part| part == "..") {
                self.wrong(format!("{path}[{index}]"), pattern, "a path such as out/*.json, without `..`");
            }
        }
    }

    fn probe(&mut self, probe: &Probe, path: &str, kind: Kind, file: &RunFile) {
        self.variables(&probe.environment, &format!("{path}.environment"));
        self.patterns(&probe.artefacts, &format!("{path}.artefacts"));
        for (index, mount) in probe.mounts.iter().enumerate() {
            self.mount(mount, &format!("{path}.mounts[{index}]"), kind);
        }
        if kind == Kind::Command && !probe.mounts.is_empty() {
            let want = "left out: a command sees this machine's files";
            self.faults.push(Fault::new(format!("{path}.mounts"), "given", want));
        }
        if !probe.wrap.is_empty() && kind != Kind::Command && file.container.entrypoint.is_empty() {
            let got = "words before an entrypoint that is not known";
            let want = "container.entrypoint too: it says what to put the words before";
            self.faults.push(Fault::new(format!("{path}.wrap"), got, want));
        }
    }

    fn mount(&mut self, mount: &super::Mount, path: &str, kind: Kind) {
        if !mount.target.starts_with('/') || mount.target.contains(':') {
            self.wrong(format!("{path}.target"), &mount.target, "an absolute path in the container");
        }
        match kind {
            Kind::Container if !self.is_later && std::fs::symlink_metadata(&mount.source).is_err() => {
                self.wrong(format!("{path}.source"), &mount.source, "a file or folder that is there");
            }
            Kind::Pod if !mount.source.starts_with('/') => {
                self.wrong(format!("{path}.source"), &mount.source, "an absolute path on the node");
            }
            _ => {}
        }
    }

    fn dataset(&mut self, dataset: &Dataset, path: &str, is_here: bool) -> Option<Wanted> {
        let digest = self.read(
            format!("{path}.digest"),
            dataset.digest.as_ref(),
            "sha256: and 64 digits from 0 to f",
            |text| text.to_ascii_lowercase().parse().ok(),
        );
        let page_cache =
            self.read(format!("{path}.page_cache"), dataset.page_cache.as_ref(), "cold or warm", |text| {
                match text {
                    "cold" => Some(PageCache::Cold),
                    "warm" => Some(PageCache::Warm),
                    _ => None,
                }
            });
        if let Some(target) = &dataset.target {
            if is_here {
                let want = "only for an image or a pod; a command finds it by METIER_DATASET or {dataset}";
                self.faults.push(Fault::new(format!("{path}.target"), "given for a command", want));
            } else if !target.starts_with('/') || target.contains(':') {
                self.wrong(format!("{path}.target"), target, "an absolute path in the container");
            }
        }
        let source = Source::read(&dataset.source, dataset.endpoint.clone(), dataset.region.clone());
        if source.is_none() {
            let want = "a path, https://host/file, or s3://bucket/key";
            // What cannot be read may still have a password in it.
            self.wrong(format!("{path}.source"), &without_secrets(&dataset.source), want);
        }
        let is_s3 = matches!(source, Some(Source::S3 { .. }));
        for (name, given) in [("endpoint", &dataset.endpoint), ("region", &dataset.region)] {
            if given.is_some() && !is_s3 && source.is_some() {
                self.faults.push(Fault::new(
                    format!("{path}.{name}"),
                    "given for no S3 store",
                    "s3://bucket/key as the source",
                ));
            }
        }
        if let Some(endpoint) = dataset.endpoint.as_ref().filter(|endpoint| !is_web(endpoint)) {
            let want = "an address such as https://s3.example.org";
            self.wrong(format!("{path}.endpoint"), &without_secrets(endpoint), want);
        }
        Some(Wanted {
            source: source?,
            digest,
            target: dataset.target.clone().unwrap_or_else(|| DATASET_TARGET.to_string()),
            page_cache: page_cache.unwrap_or(PageCache::Untouched),
        })
    }

    fn ready(&mut self, ready: &Ready, path: &str, is_main: bool) -> Option<Readiness> {
        let port = self.read(
            format!("{path}.port"),
            ready.port.as_ref(),
            "a port such as 8080 or 127.0.0.1:8080",
            |text| {
                let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
                port.parse().ok().filter(|port| *port > 0).map(|port| Sign::Port(host.to_string(), port))
            },
        );
        let http = self.read(
            format!("{path}.http"),
            ready.http.as_ref(),
            "an address such as http://127.0.0.1:8080/ready",
            |text| is_web(text).then(|| Sign::Http(text.to_string())),
        );
        let file = ready.file.as_ref().map(|file| Sign::File(file.into()));
        let output =
            self.read(format!("{path}.output"), ready.output.as_ref(), "a text that it prints", |text| {
                (!text.is_empty() && !text.contains('\n')).then(|| Sign::Output(text.to_string()))
            });
        let within = self.read(format!("{path}.within"), ready.within.as_ref(), DURATION, |text| {
            duration(text).filter(|time| !time.is_zero())
        });
        let given =
            [ready.port.is_some(), ready.http.is_some(), ready.file.is_some(), ready.output.is_some()];
        let count = given.into_iter().filter(|is| *is).count();
        if count != 1 {
            let got = format!("{count} of port, http, file and output");
            self.faults.push(Fault::new(path, got, "exactly one of them"));
        }
        if is_main && ready.output.is_some() {
            let want = "port, http or file: the output of the run itself goes where you sent it, unread";
            self.faults.push(Fault::new(format!("{path}.output"), "given", want));
        }
        let sign = port.or(http).or(file).or(output)?;
        Some(Readiness { sign, within: within.unwrap_or(WITHIN) })
    }

    fn others(&mut self, others: &[Other], path: &str) -> Vec<Checked> {
        if others.len() > MOST_OTHERS {
            self.wrong(path.to_string(), &others.len().to_string(), "at most 16 runs");
            return Vec::new();
        }
        let mut list = Vec::new();
        for (index, other) in others.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match other {
                Other::Run(file) => {
                    if file.repeats.is_some() || file.warmup.is_some() {
                        let want = "neither repeats nor warmup: it lasts as long as it is wanted";
                        self.faults.push(Fault::new(&path, "a run with repeats or warmup", want));
                    }
                    list.push(self.run((**file).clone(), &path));
                }
                Other::File(name) => match load(Path::new(name)) {
                    Ok(checked) => list.push(checked),
                    Err(Loading::Unreadable(why)) => {
                        let got = format!("{:?}, which cannot be read ({why})", shortened(name));
                        self.faults.push(Fault::new(&path, got, "the path of a run file"));
                    }
                    Err(Loading::Faulty(faults)) => self.faults.extend(faults.of(Path::new(name)).0),
                },
            }
        }
        list
    }
}

enum Loading {
    Unreadable(String),
    Faulty(Faults),
}

/// Another run's file. It may have company of its own only in line, which bounds how deep this goes.
fn load(path: &Path) -> Result<Checked, Loading> {
    let text = super::read_text(path).map_err(|why| Loading::Unreadable(why.to_string()))?;
    let (mut file, origins) = super::parse(&text).map_err(Loading::Faulty)?;
    let others = file.needs.iter().chain(&file.with);
    if others.into_iter().any(|other| matches!(other, Other::File(_))) {
        let want = "its company in line: files of files of files have no end";
        return Err(Loading::Faulty(Fault::new("needs", "the path of a file", want).into()));
    }
    file.beside(path.parent().unwrap_or(Path::new(".")));
    file.check(&origins).map_err(Loading::Faulty)
}

impl Source {
    /// Reads where a dataset is.
    pub fn read(text: &str, endpoint: Option<String>, region: Option<String>) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, key) = rest.split_once('/')?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let is_bucket = (1..=255).contains(&bucket.len()) && bucket.chars().all(is_name);
            let is_key = !key.contains(['?', '#']) && !key.split('/').any(|part| part == "..");
            return (is_bucket && is_key).then(|| Self::S3 {
                bucket: bucket.into(),
                key: key.into(),
                endpoint,
                region,
            });
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return is_web(text).then(|| Self::Http(text.into()));
        }
        (!text.is_empty() && !text.contains("://")).then(|| Self::Path(text.into()))
    }
}

/// Whether it is an address of the web with a host.
fn is_web(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        !host.is_empty()
            && !host.starts_with(':')
            && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

/// An address without user, password, query and fragment: what may be shown and kept.
pub fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_string() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit('@').next().unwrap_or_default();
    match path {
        Some(path) => format!("{scheme}://{host}/{path}"),
        None => format!("{scheme}://{host}"),
    }
}
