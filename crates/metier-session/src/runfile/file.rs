//! A run file as it is written: every field as its text, nothing checked but its shape.
//!
//! Short forms are accepted where one value says it all (`dataset: images.tar`, `pod: alpine`, `mounts: ["a:/a:ro"]`)
//! and written out in full when a file is written back.

use std::collections::BTreeMap;

use metier_types::schema::{Schema, Versioned};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::fault::{Fault, Faults, Origins};
use super::form::{Listening, OneOrMore, Short, Stacks, Word};
use super::node::{Node, Value};
use super::read::{Fields, Reader};

/// Depth of run files inside run files.
const DEEPEST: usize = 2;

fn no(yes: &bool) -> bool {
    !*yes
}

/// What is to run and how, as it is written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunFile {
    /// `metier.run-file/1`.
    #[serde(default)]
    pub schema: Schema<RunFile>,
    /// Name of the workload; runs of one name belong together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub name: Option<String>,
    /// Program and arguments, to run on this machine. No shell reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub command: Vec<String>,
    /// Image, to run as a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub image: Option<String>,
    /// Image, to run as a Job of a cluster, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Short<Pod>>")]
    pub pod: Option<Pod>,
    /// Arguments, after those of `command`, or to the image's entrypoint. `{dataset}` stands for where the dataset is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Word>")]
    pub arguments: Vec<String>,
    /// Variables beside those that it gets anyway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Word>")]
    pub environment: BTreeMap<String, String>,
    /// Folder to run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub working_directory: Option<String>,
    /// Files and folders of this machine that a container sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Short<Mount>>")]
    pub mounts: Vec<Mount>,
    /// What it works on: fetched, verified and read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Short<Dataset>>")]
    pub dataset: Option<Dataset>,
    /// File or folder whose digest is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub input: Option<String>,
    /// Files to keep with the run afterwards: paths with `*` and `?`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub artefacts: Vec<String>,
    /// Other tools that measure from inside, such as nsys or TAU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// What it may use at most.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Runs that it needs: started before it, ended after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Other>,
    /// Runs to put beside it: started before its clock, and again whenever they end, until it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Other>,
    /// When it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Runs before the ones that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// How many times to measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// End at the first repetition that fails.
    #[serde(default, skip_serializing_if = "no")]
    pub stop_on_failure: bool,
    /// Longest time it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub timeout: Option<String>,
    /// How long it is to run; then it is ended, and was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub duration: Option<String>,
    /// Time between INT, TERM and KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub grace: Option<String>,
    /// How long processes that it leaves behind may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub linger: Option<String>,
    /// Time between samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub interval: Option<String>,
    /// How to listen to what the application says of itself.
    #[serde(default, skip_serializing_if = "Listen::is_empty")]
    #[schemars(with = "Listening")]
    pub listen: Listen,
    /// Samples of its stacks per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Stacks>")]
    pub stacks: Option<u32>,
    /// How a container is made.
    #[serde(default, skip_serializing_if = "Container::is_empty")]
    pub container: Container,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub tags: Vec<String>,
}

impl Versioned for RunFile {
    const SCHEMA: &'static str = "metier.run-file/1";
}

/// A Job of a cluster.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pod {
    /// The image.
    #[schemars(with = "Word")]
    pub image: String,
    /// The node to run on, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub node: Option<String>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Word>")]
    pub selector: BTreeMap<String, String>,
    /// Namespace; the context's own, else `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub context: Option<String>,
    /// Path of the kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub kubeconfig: Option<String>,
}

/// A file or folder of this machine that a container sees.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Path here.
    #[schemars(with = "Word")]
    pub source: String,
    /// Path there.
    #[schemars(with = "Word")]
    pub target: String,
    /// Whether it may only be read.
    #[serde(default, skip_serializing_if = "no")]
    pub read_only: bool,
}

/// What a run works on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// A path, `https://…`, or `s3://bucket/key`, with `/` at its end for a folder.
    #[schemars(with = "Word")]
    pub source: String,
    /// Its digest, `sha256:` and 64 digits; what is fetched must have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub digest: Option<String>,
    /// Where a container sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub target: Option<String>,
    /// `cold` drops it from the page cache before the clock starts, `warm` reads it in; else it is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub page_cache: Option<String>,
    /// Address of the S3-compatible store; AWS_ENDPOINT_URL, else Amazon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub endpoint: Option<String>,
    /// Region of the store; AWS_REGION, else us-east-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub region: Option<String>,
}

/// Another tool that measures from inside: what it needs to be there, and the files that it leaves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub name: Option<String>,
    /// Words before the command, such as `nsys profile -o /tmp/trace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Word>")]
    pub wrap: Vec<String>,
    /// Files that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Short<Mount>>")]
    pub mounts: Vec<Mount>,
    /// Variables that it needs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Word>")]
    pub environment: BTreeMap<String, String>,
    /// Files that it leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub artefacts: Vec<String>,
}

/// What a run may use at most.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Cores: `2`, `0.5`, `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub cpu: Option<String>,
    /// Memory: `300Mi`, `1.5Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub memory: Option<String>,
    /// GPUs: a number, or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub gpu: Option<String>,
}

impl Limits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How to listen to what the application says of itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// On the Waggle live socket.
    #[serde(default, skip_serializing_if = "no")]
    pub socket: bool,
    /// At this path of this host instead of one of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub socket_path: Option<String>,
    /// To pywaggle's log folder.
    #[serde(default, skip_serializing_if = "no")]
    pub pywaggle: bool,
    /// To lines on a file descriptor.
    #[serde(default, skip_serializing_if = "no")]
    pub lines: bool,
    /// To its own metrics pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub scrape: Vec<String>,
}

impl Listen {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How a container is made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Where the engine listens: a socket's path or `unix://…`; DOCKER_HOST, else the usual sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub engine: Option<String>,
    /// What to run instead of the image's entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub entrypoint: Vec<String>,
    /// Network to join: `host`, `none`, or a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub network: Option<String>,
    /// Runtime, such as `nvidia`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub runtime: Option<String>,
    /// User inside, `name` or `uid:gid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub user: Option<String>,
    /// Devices of this machine that it sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub devices: Vec<String>,
    /// Capabilities beyond the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrMore")]
    pub capabilities: Vec<String>,
    /// Whether it may do everything that this machine may.
    #[serde(default, skip_serializing_if = "no")]
    pub privileged: bool,
    /// Whether it reads our standard input.
    #[serde(default, skip_serializing_if = "no")]
    pub stdin: bool,
    /// Size of its `/dev/shm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub shared_memory: Option<String>,
    /// Labels beside ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Word>")]
    pub labels: BTreeMap<String, String>,
    /// When the image is fetched: `missing` (when it is not here yet), `always` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub pull: Option<String>,
}

impl Container {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When a run is ready: one of the four, within a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Something listens on this port: `8080` or `host:8080`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub port: Option<String>,
    /// This address answers with a status below 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub http: Option<String>,
    /// This file is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub file: Option<String>,
    /// It printed a line with this text in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub output: Option<String>,
    /// How long that may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Word>")]
    pub within: Option<String>,
}

/// Another run: the path of its file, or all of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Other {
    /// Path of its run file, from where this one is.
    File(String),
    /// The run itself.
    Run(Box<RunFile>),
}

impl Default for Other {
    fn default() -> Self {
        Self::File(String::new())
    }
}

impl<'de> Deserialize<'de> for RunFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By way of text: one reader for all forms.
        let value = serde_json::Value::deserialize(deserializer)?;
        let told = |faults: Faults| D::Error::custom(faults.to_string().replace('\n', "; "));
        let (file, origins) = super::parse(&value.to_string()).map_err(told)?;
        if let Some(faults) = origins.all(Vec::new()) {
            return Err(told(faults));
        }
        Ok(file)
    }
}

impl RunFile {
    pub(super) fn from_node(node: Node) -> Result<(Self, Origins), Faults> {
        let mut reader = Reader::default();
        let file = reader.map(node, "", "a map of fields such as `command: [sleep, \"1\"]`", |fields| {
            Self::read(fields, 0)
        });
        match file {
            Some(file) => {
                reader.origins.misshapen = reader.faults;
                Ok((file, reader.origins))
            }
            None => Err(Faults(reader.faults)),
        }
    }

    fn read(fields: &mut Fields<'_>, depth: usize) -> Self {
        let words = "a list of words such as [make, \"-j2\"]";
        if let Some(schema) = fields.text("schema", "\"metier.run-file/1\"")
            && schema != Self::SCHEMA
        {
            let fault =
                Fault::new(fields.full("schema"), format!("{schema:?}"), format!("{:?}", Self::SCHEMA));
            let fault = fields.reader.origins.locate(fault);
            fields.reader.faults.push(fault);
        }
        Self {
            schema: Schema::new(),
            name: fields.text("name", "a name"),
            command: read_command(fields, "command"),
            image: fields.text("image", "an image such as python:3.12"),
            pod: read_pod(fields),
            arguments: fields.words("arguments", words),
            environment: fields.table("environment", "names and their texts, such as `MODE: fast`"),
            working_directory: fields.text("working_directory", "the path of a folder"),
            mounts: read_mounts(fields),
            dataset: read_dataset(fields),
            input: fields.text("input", "the path of a file or folder"),
            artefacts: fields.texts("artefacts", "paths such as [\"out/*.json\"]"),
            probes: read_probes(fields),
            limits: fields
                .inner("limits", "a map of cpu, memory and gpu", |limits| Limits {
                    cpu: limits.text("cpu", super::quantity::CORES),
                    memory: limits.text("memory", super::quantity::SIZE),
                    gpu: limits.text("gpu", "a number of GPUs, or all"),
                })
                .unwrap_or_default(),
            needs: read_others(fields, "needs", depth),
            with: read_others(fields, "with", depth),
            ready: fields.inner("ready", "a map of one of port, http, file, output, and within", |ready| {
                Ready {
                    port: ready.text("port", "a port such as 8080"),
                    http: ready.text("http", "an address such as http://127.0.0.1:8080/ready"),
                    file: ready.text("file", "the path of a file"),
                    output: ready.text("output", "a text that it prints"),
                    within: ready.text("within", super::quantity::DURATION),
                }
            }),
            warmup: fields.number("warmup", "a whole number"),
            repeats: fields.number("repeats", "a whole number"),
            stop_on_failure: fields.flag("stop_on_failure").unwrap_or_default(),
            timeout: fields.text("timeout", super::quantity::DURATION),
            duration: fields.text("duration", super::quantity::DURATION),
            grace: fields.text("grace", super::quantity::DURATION),
            linger: fields.text("linger", super::quantity::DURATION),
            interval: fields.text("interval", super::quantity::DURATION),
            listen: read_listen(fields),
            stacks: read_stacks(fields),
            container: fields
                .inner("container", "a map of engine, network, runtime, user, …", |container| Container {
                    engine: container.text("engine", "the path of a socket, or unix://…"),
                    entrypoint: container.texts("entrypoint", words),
                    network: container.text("network", "host, none, or the name of a network"),
                    runtime: container.text("runtime", "the name of a runtime, such as nvidia"),
                    user: container.text("user", "a user such as 1000:1000"),
                    devices: container.texts("devices", "paths such as [/dev/video0]"),
                    capabilities: container.texts("capabilities", "names such as [SYS_NICE]"),
                    privileged: container.flag("privileged").unwrap_or_default(),
                    stdin: container.flag("stdin").unwrap_or_default(),
                    shared_memory: container.text("shared_memory", super::quantity::SIZE),
                    labels: container.table("labels", "names and their texts"),
                    pull: container.text("pull", "missing, always or never"),
                })
                .unwrap_or_default(),
            tags: fields.texts("tags", "a list of words"),
        }
    }
}

/// A program alone may be written without brackets; words in one text are not taken apart.
fn read_command(fields: &mut Fields<'_>, name: &'static str) -> Vec<String> {
    let Some(node) = fields.take(name) else { return Vec::new() };
    let want = "a list of words such as [make, \"-j2\"]; no shell reads it";
    let path = fields.full(name);
    match &node.value {
        Value::Text(text) if !text.contains(char::is_whitespace) => vec![text.clone()],
        _ => fields.reader.list(node, &path, want, |reader, item, path| reader.text(item, path, want)),
    }
}

fn read_pod(fields: &mut Fields<'_>) -> Option<Pod> {
    let node = fields.take("pod")?;
    let path = fields.full("pod");
    if let Value::Text(image) = node.value {
        return Some(Pod { image, ..Pod::default() });
    }
    fields.reader.map(node, &path, "an image, or a map of image, node, selector, …", |pod| Pod {
        image: pod.text("image", "an image such as python:3.12").unwrap_or_default(),
        node: pod.text("node", "the name of a node"),
        selector: pod.table("selector", "labels and their values, such as `zone: edge`"),
        namespace: pod.text("namespace", "the name of a namespace"),
        context: pod.text("context", "the name of a context"),
        kubeconfig: pod.text("kubeconfig", "the path of a kubeconfig"),
    })
}

/// What a mount should look like.
pub const MOUNT: &str =
    "SOURCE:TARGET or SOURCE:TARGET:ro with an absolute target, or a map of source, target, read_only";

/// Reads `source:target` with `:ro` or `:rw` after it.
pub fn mount(text: &str) -> Option<Mount> {
    let (text, read_only) = match text.rsplit_once(':') {
        Some((before, "ro")) => (before, true),
        Some((before, "rw")) => (before, false),
        _ => (text, false),
    };
    let (source, target) = text.split_once(':')?;
    let is_whole = !source.is_empty() && target.starts_with('/') && !target.contains(':');
    is_whole.then(|| Mount { source: source.into(), target: target.into(), read_only })
}

fn read_mounts(fields: &mut Fields<'_>) -> Vec<Mount> {
    let Some(node) = fields.take("mounts") else { return Vec::new() };
    let path = fields.full("mounts");
    fields.reader.list(node, &path, "a list of mounts", |reader, item, path| {
        if let Value::Text(text) = &item.value {
            let read = mount(text);
            if read.is_none() {
                reader.wrong(&item, path, MOUNT);
            }
            return read;
        }
        reader.map(item, path, MOUNT, |mount| Mount {
            source: mount.text("source", "a path here").unwrap_or_default(),
            target: mount.text("target", "an absolute path there").unwrap_or_default(),
            read_only: mount.flag("read_only").unwrap_or_default(),
        })
    })
}

fn read_dataset(fields: &mut Fields<'_>) -> Option<Dataset> {
    let node = fields.take("dataset")?;
    let path = fields.full("dataset");
    if let Value::Text(source) = node.value {
        return Some(Dataset { source, ..Dataset::default() });
    }
    fields.reader.map(
        node,
        &path,
        "a path, https://…, s3://…, or a map of source, digest, …",
        |dataset| Dataset {
            source: dataset.text("source", "a path, https://… or s3://…").unwrap_or_default(),
            digest: dataset.text("digest", "sha256: and 64 digits"),
            target: dataset.text("target", "an absolute path in the container"),
            page_cache: dataset.text("page_cache", "cold or warm"),
            endpoint: dataset.text("endpoint", "an address such as https://s3.example.org"),
            region: dataset.text("region", "a region such as us-east-1"),
        },
    )
}

fn read_probes(fields: &mut Fields<'_>) -> Vec<Probe> {
    let Some(node) = fields.take("probes") else { return Vec::new() };
    let path = fields.full("probes");
    fields.reader.list(node, &path, "a list of probes", |reader, item, path| {
        reader.map(item, path, PROBE, Probe::read)
    })
}

/// What a probe should look like.
const PROBE: &str = "a map of name, wrap, mounts, environment, artefacts";

impl Probe {
    pub(super) fn from_node(node: Node) -> Result<Self, Faults> {
        let mut reader = Reader::default();
        match reader.map(node, "", PROBE, Self::read) {
            Some(probe) if reader.faults.is_empty() => Ok(probe),
            _ => Err(Faults(reader.faults)),
        }
    }

    fn read(probe: &mut Fields<'_>) -> Self {
        Self {
            name: probe.text("name", "a name"),
            wrap: probe.words("wrap", "a list of words such as [nsys, profile]"),
            mounts: read_mounts(probe),
            environment: probe.table("environment", "names and their texts"),
            artefacts: probe.texts("artefacts", "paths such as [\"*.nsys-rep\"]"),
        }
    }
}

fn read_others(fields: &mut Fields<'_>, name: &'static str, depth: usize) -> Vec<Other> {
    let Some(node) = fields.take(name) else { return Vec::new() };
    let path = fields.full(name);
    let want = "the path of a run file, or a run with command, image or pod";
    fields.reader.list(node, &path, "a list of runs", |reader, item, path| match &item.value {
        Value::Text(file) => Some(Other::File(file.clone())),
        _ if depth >= DEEPEST => {
            reader.wrong(&item, path, "runs that need no runs that need runs");
            None
        }
        _ => reader
            .map(item, path, want, |inner| RunFile::read(inner, depth + 1))
            .map(|file| Other::Run(Box::new(file))),
    })
}

fn read_listen(fields: &mut Fields<'_>) -> Listen {
    let Some(node) = fields.take("listen") else { return Listen::default() };
    let path = fields.full("listen");
    let want = "socket, pywaggle, lines, or a map with scrape too";
    if let Value::List(_) | Value::Text(_) = &node.value {
        let mut listen = Listen::default();
        let words = match node.value {
            Value::Text(_) => vec![(path, node)],
            _ => fields.reader.items(node, &path, want),
        };
        for (path, word) in words {
            match &word.value {
                Value::Text(text) if text == "socket" => listen.socket = true,
                Value::Text(text) if text == "pywaggle" => listen.pywaggle = true,
                Value::Text(text) if text == "lines" => listen.lines = true,
                _ => fields.reader.wrong(&word, &path, "socket, pywaggle or lines"),
            }
        }
        return listen;
    }
    fields
        .reader
        .map(node, &path, want, |listen| Listen {
            socket: listen.flag("socket").unwrap_or_default(),
            socket_path: listen.text("socket_path", "the absolute path of a socket"),
            pywaggle: listen.flag("pywaggle").unwrap_or_default(),
            lines: listen.flag("lines").unwrap_or_default(),
            scrape: listen.texts("scrape", "addresses such as http://127.0.0.1:8000/metrics"),
        })
        .unwrap_or_default()
}

/// Samples of stacks per second where nobody says how many.
pub const STACKS: u32 = 99;

fn read_stacks(fields: &mut Fields<'_>) -> Option<u32> {
    let node = fields.take("stacks")?;
    match &node.value {
        Value::Plain(word) if word == "true" => Some(STACKS),
        Value::Plain(word) if word == "false" => None,
        Value::Plain(word) if word.parse::<u32>().is_ok() => word.parse().ok(),
        _ => {
            let path = fields.full("stacks");
            fields.reader.wrong(&node, &path, "true, false or samples per second");
            None
        }
    }
}
