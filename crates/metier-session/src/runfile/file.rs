//! The table of run-file fields. It generates the reader, the JSON Schema, the flags of `metier
//! run` and the assignment of flags to fields (see [`super::fields`]).
//!
//! Short forms are accepted (`dataset: images.tar`, `pod: alpine`, `mounts: ["a:/a:ro"]`). A
//! written file has the full form.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use metier_types::schema::{RecordSchema, VersionedRecord};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::document::DocumentNode;
use super::document_reader::{DocumentReader, MapFields};
use super::fault::{FieldOrigins, RunFileFaults};
use super::fields::{FieldSlot, FieldTable, FlagGroup, RunFlag, is_default, serialize_time, serialize_words};
use super::forms;
use super::quantity::{CORES, DURATION, SIZE, duration};
use super::schema_forms::{ListenForm, OneOrMoreSchema, ScalarSchema, ShortForm, StacksForm};

const WORDS: &str = "a list of words such as [make, \"-j2\"]";
const BOOL: &str = "true or false";

run_file_tables! {
/// Description of a run.
RunFile "" {
    /// `metier.run-file/1`.
    schema: Version = "\"metier.run-file/1\"";
    /// Name of the workload; runs of one name belong together.
    name: Text = "a name", [Keeping "name" "NAME"];
    /// Program and arguments, to run on this machine. No shell reads it.
    command: Command = "a list of words such as [make, \"-j2\"]; no shell reads it";
    /// Image, to run as a container.
    image: Text = "an image such as python:3.12",
        [Containers "image" "IMAGE" "Run a container of this image; words after `--` are its arguments"];
    /// Image, to run as a Job of a cluster, and where.
    pod: Pod = "an image, or a map of image, node, selector, …",
        [Containers "pod" "IMAGE" "Run a pod of this image in a cluster"];
    /// Arguments after `command` or the entrypoint; `{dataset}` becomes the dataset's path.
    arguments: Arguments = WORDS;
    /// Additional environment variables.
    environment: Table = "names and their texts, such as `MODE: fast`",
        [Surroundings "env" "NAME[=VALUE]" "Environment variable; NAME alone passes on the current value"];
    /// Folder to run in.
    working_directory: Text = "the path of a folder", [Surroundings "workdir" "FOLDER"];
    /// Files and folders of this machine that a container sees.
    mounts: Mounts = "a list of mounts", [Containers "mount" "SOURCE:TARGET[:ro]"];
    /// Dataset of the run: fetched, verified and read-only.
    dataset: Dataset = "a path, https://…, s3://…, or a map of source, digest, …",
        [Dataset "dataset" "SOURCE"
         "Dataset, fetched before the clock starts: a path, https://… or s3://bucket/key"];
    /// File or folder whose digest is recorded.
    input: Text = "the path of a file or folder", [Dataset "input" "PATH"];
    /// Files to store with the run afterwards: paths with `*` and `?`.
    artefacts: Texts = "paths such as [\"out/*.json\"]", [Measuring "artefact" "PATTERN"];
    /// Other tools that measure from inside, such as nsys or TAU.
    probes: Probes = "a list of probes",
        [Measuring "probe" "FILE"
         "A tool that measures from inside: a YAML file of wrap, mounts, environment and artefacts"];
    /// Resource limits.
    limits: Limits = "a map of cpu, memory and gpu";
    /// Companion runs: started before this run, ended after it.
    needs: Runs = "a list of runs", [Surroundings "needs" "FILE|COMMAND"];
    /// Neighbour runs: started before the clock, and restarted until this run ends.
    with: Runs = "a list of runs", [Surroundings "with" "FILE|COMMAND"];
    /// Sign that the run is ready.
    ready: Ready = "a map of one of port, http, file, output, and within",
        [Surroundings "ready" "SIGN"
         "Sign that it is ready: port:8080, http://…, file:PATH, or for a container output:TEXT"];
    /// Number of warm-up runs.
    warmup: Count = "a whole number", [Measuring "warmup" "N"];
    /// Number of measured runs.
    repeats: Count = "a whole number", [Measuring "repeat" "N"];
    /// End at the first repetition that fails.
    stop_on_failure: Switch = BOOL, [Measuring "stop-on-failure" ""];
    /// Time limit of a run.
    timeout: Time(duration) = DURATION,
        [Surroundings "timeout" "DURATION"
         "Time limit of a run: 250ms, 1.5s, 2m, 1h [METIER_RUN_TIMEOUT; default none]"];
    /// Planned duration; then the run is ended and counts as complete.
    duration: Time(duration) = DURATION,
        [Surroundings "for" "DURATION" "Planned duration; then the run is ended and counts as complete, with exit code 0"];
    /// Time between INT, TERM and KILL.
    grace: Time(forms::grace) = "a time such as 5s, at most 1h",
        [Surroundings "grace" "DURATION"
         "Time between INT, TERM and KILL at the end of its time [METIER_RUN_GRACE; default 5s]"];
    /// How long leftover processes may continue.
    linger: Time(duration) = DURATION,
        [Surroundings "linger" "DURATION"
         "How long leftover processes may continue [METIER_RUN_LINGER; default 10s]"];
    /// Time between samples.
    interval: Time(forms::interval) = "1ms to 10s",
        [Measuring "interval" "DURATION"
         "Time between samples of the time line, 1ms to 10s [METIER_RUN_INTERVAL; default 100ms]"];
    /// Sources of application messages.
    listen: Listen = "socket, pywaggle, lines, or a map with scrape too",
        [Measuring "listen" "HOW"
         "Listen to application messages: socket, socket=PATH, pywaggle, lines"];
    /// Stack samples per second.
    stacks: Stacks = "true, false or samples per second", [Measuring "stacks" "HZ"];
    /// Options of the container.
    container: Container = "a map of engine, network, runtime, user, …";
    /// Words to find the run by.
    tags: Texts = "a list of words", [Keeping "tag" "WORD"];
}

/// A Job of a cluster.
Pod "pod." {
    /// The image.
    image: Required = "an image such as python:3.12";
    /// Name of the node to run on.
    node: Text = "the name of a node", [Containers "node" "NAME"];
    /// Labels that the node must have.
    selector: Table = "labels and their values, such as `zone: edge`", [Containers "selector" "NAME=VALUE"];
    /// Namespace; by default the context's own, else `default`.
    namespace: Text = "the name of a namespace", [Containers "namespace" "NAME"];
    /// Context of the kubeconfig.
    context: Text = "the name of a context", [Containers "context" "NAME"];
    /// Path of the kubeconfig.
    kubeconfig: Text = "the path of a kubeconfig",
        [Containers "kubeconfig" "FILE" "Path of the kubeconfig [KUBECONFIG; default ~/.kube/config]"];
}

/// A file or folder of this machine that a container sees.
Mount "mounts." {
    /// Path on this machine.
    source: Required = "a path here";
    /// Path in the container.
    target: Required = "an absolute path there";
    /// Whether it is read-only.
    read_only: Switch = BOOL;
}

/// Dataset of a run.
Dataset "dataset." {
    /// A path, `https://…`, or `s3://bucket/key`, with a final `/` for a folder.
    source: Required = "a path, https://… or s3://…";
    /// Required digest: `sha256:` and 64 digits.
    digest: Text = "sha256: and 64 digits", [Dataset "dataset-digest" "sha256:…"];
    /// Path in the container.
    target: Text = "an absolute path in the container",
        [Dataset "dataset-target" "PATH" "Path of the dataset in the container [default /dataset]"];
    /// Before the clock starts, `cold` drops it from the page cache and `warm` reads it.
    page_cache: Text = "cold or warm", [Dataset "page-cache" "STATE"];
    /// Address of the S3-compatible store; by default AWS_ENDPOINT_URL, else Amazon's.
    endpoint: Text = "an address such as https://s3.example.org", [Dataset "dataset-endpoint" "URL"];
    /// Region of the store; by default AWS_REGION, else us-east-1.
    region: Text = "a region such as us-east-1", [Dataset "dataset-region" "NAME"];
}

/// Another tool that measures from inside, with its mounts, variables and result files.
Probe "probes." {
    /// Name of the tool.
    name: Text = "a name";
    /// Words before the command, such as `nsys profile -o /tmp/trace`.
    wrap: Words = "a list of words such as [nsys, profile]";
    /// Mounts that the tool needs.
    mounts: Mounts = "a list of mounts";
    /// Variables that the tool needs.
    environment: Table = "names and their texts";
    /// Result files of the tool.
    artefacts: Texts = "paths such as [\"*.nsys-rep\"]";
}

/// Resource limits of a run.
Limits "limits." {
    /// Cores: `2`, `0.5`, `500m`.
    cpu: Text = CORES,
        [Surroundings "limit-cpu" "CORES" "Cores it may use: 2, 0.5, 500m"];
    /// Memory: `300Mi`, `1.5Gi`.
    memory: Text = SIZE,
        [Surroundings "limit-memory" "SIZE" "Memory it may use: 300Mi, 1.5Gi, 512MB"];
    /// GPUs: a number, or `all`.
    gpu: Text = "a number of GPUs, or all",
        [Surroundings "limit-gpu" "N|all" "GPUs that a container or pod gets: a number, or all"];
}

/// Sources of application messages.
Listen "listen." {
    /// The Waggle live socket.
    socket: Switch = BOOL;
    /// At this path of this host instead of a generated one.
    socket_path: Text = "the absolute path of a socket";
    /// pywaggle's log folder.
    pywaggle: Switch = BOOL;
    /// Lines on a file descriptor.
    lines: Switch = BOOL;
    /// The application's metrics pages.
    scrape: Texts = "addresses such as http://127.0.0.1:8000/metrics",
        [Measuring "scrape" "URL" "Read the application's metrics page"];
}

/// How a container is made.
Container "container." {
    /// Socket of the engine: a path or `unix://…`; default DOCKER_HOST, else the usual ones.
    engine: Text = "the path of a socket, or unix://…", [Containers "engine" "SOCKET"];
    /// Entrypoint instead of the image's own.
    entrypoint: Texts = WORDS, [Containers "entrypoint" "WORD"];
    /// Network to join: `host`, `none`, or a name.
    network: Text = "host, none, or the name of a network", [Containers "network" "NETWORK"];
    /// Runtime, such as `nvidia`.
    runtime: Text = "the name of a runtime, such as nvidia", [Containers "runtime" "NAME"];
    /// User in the container, `name` or `uid:gid`.
    user: Text = "a user such as 1000:1000", [Containers "user" "USER"];
    /// Devices of this machine for the container.
    devices: Texts = "paths such as [/dev/video0]", [Containers "device" "PATH"];
    /// Additional capabilities.
    capabilities: Texts = "names such as [SYS_NICE]", [Containers "capability" "NAME"];
    /// Whether the container has all privileges on this machine.
    privileged: Switch = BOOL, [Containers "privileged" ""];
    /// Whether the container reads metier's stdin.
    stdin: Switch = BOOL, [Containers "stdin" ""];
    /// Size of its `/dev/shm`.
    shared_memory: Text = SIZE, [Containers "shared-memory" "SIZE"];
    /// Labels in addition to metier's own.
    labels: Table = "names and their texts", [Containers "label" "NAME=VALUE"];
    /// When to pull the image: `missing` (if not present), `always` or `never`.
    pull: Text = "missing, always or never", [Containers "pull" "WHEN"];
}

/// Readiness of a run: exactly one sign, and a time limit.
Ready "ready." {
    /// A server listens on this port: `8080` or `host:8080`.
    port: Text = "a port such as 8080";
    /// This address answers with a status below 400.
    http: Text = "an address such as http://127.0.0.1:8080/ready";
    /// This file exists.
    file: Text = "the path of a file";
    /// The run printed a line that contains this text.
    output: Text = "a text that it prints";
    /// Time limit of readiness.
    within: Time(forms::above_zero) = DURATION,
        [Surroundings "ready-within" "DURATION" "Time limit of readiness [default 60s]"];
}
}

impl VersionedRecord for RunFile {
    const SCHEMA: &'static str = "metier.run-file/1";
}

/// Another run: the path of its file, or the run itself.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NestedRun {
    /// Path of its run file, relative to this file.
    File(String),
    /// The run itself.
    Run(Box<RunFile>),
}

impl Default for NestedRun {
    fn default() -> Self {
        Self::File(String::new())
    }
}

impl<'de> Deserialize<'de> for RunFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Parsed again from text, so that one reader handles all forms.
        let value = serde_json::Value::deserialize(deserializer)?;
        let custom_error = |faults: RunFileFaults| D::Error::custom(faults.to_string().replace('\n', "; "));
        let (file, origins) = super::parse(&value.to_string()).map_err(custom_error)?;
        if let Some(faults) = origins.collect_faults(Vec::new()) {
            return Err(custom_error(faults));
        }
        Ok(file)
    }
}

impl Pod {
    pub(super) fn of(image: String) -> Self {
        Self { image, ..Self::default() }
    }
}

impl Dataset {
    pub(super) fn of(source: String) -> Self {
        Self { source, ..Self::default() }
    }
}

impl RunFile {
    pub(super) fn from_node(node: DocumentNode) -> Result<(Self, FieldOrigins), RunFileFaults> {
        let mut reader = DocumentReader::default();
        let want = "a map of fields such as `command: [sleep, \"1\"]`";
        match reader.map(node, "", want, Self::read) {
            Some(file) => {
                reader.origins.misshapen = reader.faults;
                Ok((file, reader.origins))
            }
            None => Err(RunFileFaults(reader.faults)),
        }
    }

    /// The field of a flag, by its dotted name; `None` if its part of the run file is missing.
    pub(super) fn slot_at(&mut self, field: &str) -> Option<FieldSlot<'_>> {
        let Some((part, name)) = field.split_once('.') else { return Some(self.slot(field)) };
        Some(match part {
            "pod" => self.pod.as_mut()?.slot(name),
            "dataset" => self.dataset.as_mut()?.slot(name),
            "ready" => self.ready.as_mut()?.slot(name),
            "limits" => self.limits.slot(name),
            "listen" => self.listen.slot(name),
            _ => self.container.slot(name),
        })
    }
}

/// Every flag that sets a field.
pub fn run_flags() -> impl Iterator<Item = &'static RunFlag> {
    let tables = [
        RunFile::FLAGS,
        Limits::FLAGS,
        Ready::FLAGS,
        Listen::FLAGS,
        Dataset::FLAGS,
        Container::FLAGS,
        Pod::FLAGS,
    ];
    tables.into_iter().flatten()
}
