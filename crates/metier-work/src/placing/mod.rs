//! Where a graph goes in a cluster: every node is a candidate, each with a prediction or a reason, and the fastest that has room is chosen. Then the choice
//! can be carried out, as a Deployment on that node, and undone.
//!
//! [`choose`] only thinks, and asks one function what a node would do with the graph, so that whoever knows better (a door with current
//! load) can answer differently; [`Oracle`] is the usual answer, from passports and predictors, and [`load_of`] what a Prometheus says of a node. [`Hands`] looks at the cluster and acts. Its calls block,
//! with time limits: from a server they belong into a thread that may.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use metier_cluster::cluster::Cluster;
use metier_cluster::deployment::{self, Service};
use metier_cluster::space::{self, NodeFacts, Survey};
use metier_device::passport;
use metier_measure::spec::PodSpec;
use metier_onnx::Analysis;
use metier_store::Store;
pub use metier_types::PassportUse;
use metier_types::{Bytes, Device, Digest, Passport, Prediction, Ratio};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::nodes::Snapshot;
use metier_predict::latency::{Conditions, Latency, generic};

/// The label by which a node says which device it is; a node name or one of [`ALSO`] is looked up otherwise.
pub const DEVICE_LABEL: &str = "metier.device";
/// Labels that other tools put on nodes, by which boards and machine types are known.
const ALSO: [&str; 6] = [
    "device",
    "board",
    "nvidia.com/gpu.machine",
    "feature.node.kubernetes.io/system-os_release.ID_MODEL",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];
/// How long the cluster may take to be looked at.
const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// Requests are whole mebibytes.
const MEBI: u64 = 1 << 20;

/// What is to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    pub workload: String,
    /// Threads of each replica, as cores that it asks for; what is predicted may be for more ([`Predicted::threads`]).
    pub threads: u32,
    /// How many replicas, all on one node.
    pub replicas: u32,
    /// The architecture that its image is built for, where only one will do.
    pub architecture: Option<String>,
    /// Labels that the node must have.
    pub labels: BTreeMap<String, String>,
}

/// What a node would do with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Seconds of one inference.
    pub latency: Prediction,
    pub memory: Prediction,
    /// Threads that both are for.
    pub threads: u32,
    /// The passport that it comes from; `None` where its cores and instruction set are all that is known.
    pub passport: Option<PassportUse>,
}

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PlacementStanding")]
pub enum Standing {
    /// It was chosen.
    Chosen,
    /// It could take it, and others are faster.
    Possible,
    /// It cannot, or it is not known what it would do.
    LeftOut,
}

/// A node that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PlacementCandidate")]
pub struct Candidate {
    /// Its name.
    pub device: String,
    /// What became of it.
    pub status: Standing,
    /// Why.
    pub because: String,
    /// Seconds of one inference there.
    pub prediction: Option<Prediction>,
    /// Bytes of memory there.
    pub memory: Option<Prediction>,
    /// Threads that both are for.
    pub threads: Option<u32>,
    /// The passport that this comes from.
    pub passport: Option<PassportUse>,
    /// Its architecture.
    pub architecture: String,
    /// Cores that nobody has asked for.
    pub free_cores: Option<f64>,
    /// Memory that nobody has asked for.
    pub free_memory_bytes: Option<Bytes>,
    #[serde(skip)]
    hostname: Option<String>,
}

/// A workload on a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Assignment {
    /// Which workload.
    pub workload: String,
    /// Which device.
    pub device: String,
    /// How many of it.
    pub replicas: u32,
    /// Seconds of one inference there.
    pub prediction: Prediction,
    /// Bytes of memory there.
    pub memory: Prediction,
}

/// A workload that has no device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unplaced {
    /// Which workload.
    pub workload: String,
    /// Why.
    pub because: String,
}

/// What was written to the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Applied {
    /// The namespace.
    pub namespace: String,
    /// The Deployment's name.
    pub name: String,
    /// `created`, `replaced`, `restored` or `removed`.
    pub action: &'static str,
    /// Whether all of it is available.
    pub is_available: bool,
    /// Why it is not.
    pub because: Option<String>,
}

/// Where it goes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Placement {
    /// `metier.placement/1`.
    pub schema: &'static str,
    /// `optimal`: all candidates were compared; `infeasible`: none can take it.
    pub status: &'static str,
    /// The predicted time of the chosen one, in seconds.
    pub objective: Option<f64>,
    /// No choice is better than this, as far as the predictor knows.
    pub bound: Option<f64>,
    /// How far the objective may be from the best.
    pub gap_ratio: Option<f64>,
    /// How long choosing took.
    pub seconds: f64,
    /// What goes where.
    pub assignments: Vec<Assignment>,
    /// What goes nowhere.
    pub unplaced: Vec<Unplaced>,
    /// Every node: those that can take it by time, then the others by name.
    pub candidates: Vec<Candidate>,
    /// What could not be looked at.
    pub notes: Vec<String>,
    /// What was written, where something was.
    pub applied: Option<Applied>,
}

impl Placement {
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|one| one.status == Standing::Chosen)
    }
}

/// Chooses the node with the lowest predicted time among those that have room; of equals the first by name.
pub fn choose(
    survey: &Survey,
    demand: &Demand,
    ask: &dyn Fn(&NodeFacts) -> Result<Predicted, String>,
) -> Placement {
    let began = Instant::now();
    let (mut able, mut others) = (Vec::new(), Vec::new());
    for node in &survey.nodes {
        let mut one = Candidate {
            device: node.name.clone(),
            status: Standing::LeftOut,
            because: String::new(),
            prediction: None,
            memory: None,
            threads: None,
            passport: None,
            architecture: node.architecture.clone(),
            free_cores: node.free_cores,
            free_memory_bytes: node.free_memory,
            hostname: node.hostname().map(str::to_string),
        };
        let unfit = unfit(node, demand);
        let asked = if unfit.is_some() { None } else { Some(ask(node)) };
        match (unfit, asked) {
            (Some(why), _) | (None, Some(Err(why))) => one.because = why,
            (None, Some(Ok(predicted))) => {
                let full = no_memory(node, demand, &predicted.memory);
                one.prediction = Some(predicted.latency);
                one.memory = Some(predicted.memory);
                one.threads = Some(predicted.threads);
                one.passport = predicted.passport;
                match full {
                    Some(why) => one.because = why,
                    None => one.status = Standing::Possible,
                }
            }
            (None, None) => {}
        }
        match one.status {
            Standing::Possible => able.push(one),
            _ => others.push(one),
        }
    }
    let time = |one: &Candidate| one.prediction.as_ref().map_or(f64::INFINITY, Prediction::value);
    able.sort_by(|a, b| time(a).total_cmp(&time(b)).then_with(|| a.device.cmp(&b.device)));
    explain(&mut able);
    let best = able.first().map(time);
    let assignments: Vec<Assignment> = able
        .first()
        .and_then(|one| {
            Some(Assignment {
                workload: demand.workload.clone(),
                device: one.device.clone(),
                replicas: demand.replicas,
                prediction: one.prediction.clone()?,
                memory: one.memory.clone()?,
            })
        })
        .into_iter()
        .collect();
    let mut unplaced = Vec::new();
    if assignments.is_empty() {
        let why: Vec<String> =
            others.iter().take(5).map(|one| format!("{}: {}", one.device, one.because)).collect();
        let because = match others.len() {
            0 => "the cluster has no nodes".to_string(),
            count => format!("none of {count} nodes can take it ({})", why.join("; ")),
        };
        unplaced.push(Unplaced { workload: demand.workload.clone(), because });
    }
    Placement {
        schema: "metier.placement/1",
        status: if best.is_some() { "optimal" } else { "infeasible" },
        objective: best,
        bound: best,
        gap_ratio: best.map(|_| 0.0),
        seconds: began.elapsed().as_secs_f64(),
        assignments,
        unplaced,
        candidates: able.into_iter().chain(others).collect(),
        notes: survey.notes.clone(),
        applied: None,
    }
}

/// Says of each that can take it how it compares.
fn explain(able: &mut [Candidate]) {
    let values: Vec<(f64, f64)> = able
        .iter()
        .filter_map(|one| one.prediction.as_ref())
        .map(|told| (told.value(), told.interval().low()))
        .collect();
    let Some((first, rest)) = able.split_first_mut() else { return };
    let high = first.prediction.as_ref().map_or(0.0, |told| told.interval().high());
    let close = values.iter().skip(1).filter(|(_, low)| *low <= high).count();
    first.status = Standing::Chosen;
    first.because = match (rest.len(), close) {
        (0, _) => "the only node that can take it".into(),
        (_, 0) => "the lowest predicted time, and no other interval reaches it".into(),
        (_, 1) => {
            "the lowest predicted time; the interval of one other reaches it, which may be as fast".into()
        }
        (_, close) => format!(
            "the lowest predicted time; the intervals of {close} others reach it, so one of them may be as fast"
        ),
    };
    for (one, (value, _)) in rest.iter_mut().zip(values.iter().skip(1)) {
        one.because = match values[0].0 {
            best if best > 0.0 && *value > best => {
                format!("{:.2} times as long as on {}", value / best, first.device)
            }
            _ => format!("the same time as on {}, which comes first by name", first.device),
        };
    }
}

/// Why a node does not come into question, whatever is predicted.
fn unfit(node: &NodeFacts, demand: &Demand) -> Option<String> {
    if let Some(why) = &node.obstacle {
        return Some(why.clone());
    }
    if !node.system.is_empty() && node.system != "linux" {
        return Some(format!("it runs {}; want linux", node.system));
    }
    if let Some(wanted) = demand.architecture.as_ref().filter(|wanted| **wanted != node.architecture) {
        return Some(format!("it is {}; want {wanted}", node.architecture));
    }
    for (key, value) in &demand.labels {
        if node.labels.get(key) != Some(value) {
            return Some(format!("it does not have the label {key}={value}"));
        }
    }
    let cores = f64::from(demand.threads) * f64::from(demand.replicas);
    match node.free_cores {
        Some(free) if free < cores => Some(format!(
            "{cores} cores are wanted and {free:.2} of {:.2} are free",
            node.cores.unwrap_or(free)
        )),
        _ => None,
    }
}

fn no_memory(node: &NodeFacts, demand: &Demand, memory: &Prediction) -> Option<String> {
    let needed = Bytes(request(memory).get().saturating_mul(u64::from(demand.replicas)));
    let free = node.free_memory?;
    (needed > free).then(|| format!("it may need {needed} of memory and {free} are free"))
}

/// What is asked for so that it fits also where the prediction is as low as its interval allows.
fn request(memory: &Prediction) -> Bytes {
    let bytes = memory.interval().high().clamp(1.0, 1e18) as u64;
    Bytes(bytes.div_ceil(MEBI) * MEBI)
}

/// How busy a node of the cluster is, as a Prometheus sees it. The error says why that is not known.
pub fn load_of(snapshot: &Snapshot, node: &NodeFacts) -> Result<Ratio, String> {
    let known = snapshot
        .node(&node.name, node.hostname())
        .ok_or("Prometheus knows no node of this name, so its load is not known")?;
    known.cpu_busy.map(|busy| busy.value).ok_or_else(|| {
        let why = known.why_missing("cpu").unwrap_or("no series tells it");
        format!("its load is not known: {why}")
    })
}

/// The usual answer: from passports, and what was learned.
pub struct Oracle<'a> {
    pub graph: &'a Analysis,
    pub latency: &'a Latency,
    pub conditions: Conditions,
    /// Where passports are kept.
    pub store: Option<&'a Store>,
    /// This machine and its boot, in case that it is one of the nodes.
    pub own: Option<(&'a Device, String)>,
}

impl Oracle<'_> {
    /// What a node would do with the graph. The error says why that is not known.
    pub fn ask(&self, node: &NodeFacts) -> Result<Predicted, String> {
        self.ask_beside(node, None)
    }

    /// The same beside the load that this node has now; `None` for the one of the conditions.
    pub fn ask_beside(&self, node: &NodeFacts, load: Option<Ratio>) -> Result<Predicted, String> {
        let conditions =
            Conditions { cpu_load: load.or(self.conditions.cpu_load), ..self.conditions.clone() };
        let known = self.passport(node);
        // Cores and instruction set allow a first answer with a wide interval.
        let usual = || generic::passport(&node.architecture, node.cores.unwrap_or(1.0).ceil() as u32);
        let passport = known.clone().or_else(usual).ok_or_else(|| {
            format!(
                "no passport is known for it, and nothing of processors of {:?}; `metier device bench` there makes one, or the label {DEVICE_LABEL} says which board it is",
                node.architecture
            )
        })?;
        let latency = self.latency.graph(self.graph, &passport, &conditions);
        let memory = self.latency.memory(self.graph, &conditions);
        Ok(Predicted {
            latency: latency.map_err(|error| error.to_string())?,
            memory: memory.map_err(|error| error.to_string())?,
            threads: conditions.on(&passport).threads,
            passport: known.as_ref().map(PassportUse::of),
        })
    }

    /// Its own passport by its name, else that of the device that its labels name; this machine's where it is this one.
    fn passport(&self, node: &NodeFacts) -> Option<Passport> {
        let find = |name: &str| passport::find(self.store, name);
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        if let Some(found) = label(DEVICE_LABEL).and_then(find) {
            return Some(found);
        }
        if let Some((device, boot)) = &self.own
            && !boot.is_empty()
            && node.boot == *boot
            && let Some(found) = passport::of_device(self.store, device)
        {
            return Some(found);
        }
        let names = [Some(node.name.as_str()), node.hostname()].into_iter().chain(ALSO.map(label));
        names.flatten().find_map(find)
    }
}

/// The way to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The cluster's file; else as `kubectl` finds it.
    pub kubeconfig: Option<PathBuf>,
    /// The context in that file.
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// The image that serves a graph, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    pub name: String,
    pub image: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Ports that it listens at.
    pub ports: Vec<u16>,
}

impl Serving {
    /// What is wrong with it, if anything: the field, what was given and what would be right.
    pub fn defect(&self) -> Option<(&'static str, String, &'static str)> {
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_name = (1..=63).contains(&self.name.len())
            && self.name.chars().all(|c| is_letter(c) || c == '-')
            && self.name.starts_with(is_letter)
            && self.name.ends_with(is_letter);
        if !is_name {
            let want = "1 to 63 small letters, digits and hyphens, with a letter or digit at both ends";
            return Some(("name", format!("{:?}", self.name), want));
        }
        if self.image.is_empty() || self.image.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Some(("image", format!("{:?}", self.image), "the name of an image, such as `serve:1.2`"));
        }
        if self.ports.contains(&0) {
            return Some(("port", "0".into(), "1 to 65535"));
        }
        if self.arguments.len() > 1000 || self.environment.len() > 1000 || self.ports.len() > 100 {
            return Some(("arg", "more".into(), "at most 1000 arguments and variables, and 100 ports"));
        }
        None
    }
}

/// The name of a graph as the name of an object.
pub fn name_of(graph: &str) -> String {
    let letters = graph.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let name: String = letters.take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "graph".into() } else { name.into() }
}

/// A placement as the service that it becomes; `None` where nothing was chosen. `graph` is the digest of its file, where there is one.
pub fn service(
    placement: &Placement,
    demand: &Demand,
    serving: &Serving,
    graph: Option<&Digest>,
) -> Option<Service> {
    let chosen = placement.chosen()?;
    let (latency, memory) = (chosen.prediction.as_ref()?, chosen.memory.as_ref()?);
    let told =
        json!({"latency": latency, "memory": memory, "threads": chosen.threads, "passport": chosen.passport});
    let annotations = [
        (deployment::PREDICTION, Some(told.to_string())),
        (deployment::PREDICTOR, Some(latency.predictor().to_string())),
        (deployment::GRAPH, graph.map(Digest::to_string)),
    ];
    let annotations = annotations.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    Some(Service {
        name: serving.name.clone(),
        image: serving.image.clone(),
        arguments: serving.arguments.clone(),
        environment: serving.environment.clone(),
        ports: serving.ports.clone(),
        replicas: demand.replicas,
        cores: f64::from(demand.threads),
        memory: request(memory),
        node: chosen.device.clone(),
        hostname: chosen.hostname.clone(),
        annotations: annotations.collect(),
    })
}

/// The object that would be written.
pub fn manifest(service: &Service, namespace: &str) -> Value {
    let mut object = deployment::object(service);
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// Looks at a cluster, and acts in it.
pub struct Hands {
    runtime: tokio::runtime::Runtime,
    cluster: Cluster,
}

impl Hands {
    pub fn reach(access: &Access) -> Result<Self, metier_cluster::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| metier_cluster::Error::Cluster { reason: error.to_string() })?;
        let usual = PodSpec {
            kubeconfig: access.kubeconfig.clone(),
            context: access.context.clone(),
            namespace: access.namespace.clone(),
            ..PodSpec::default()
        };
        let cluster = runtime.block_on(within(LOOK_WITHIN, Cluster::connect(&usual)))?;
        Ok(Self { runtime, cluster })
    }

    /// The namespace that everything is written to.
    pub fn namespace(&self) -> &str {
        &self.cluster.namespace
    }

    /// The nodes. What a Deployment of this name has asked for counts as free, since it would be replaced.
    pub fn survey(&self, name: Option<&str>) -> Result<Survey, metier_cluster::Error> {
        self.runtime.block_on(within(LOOK_WITHIN, async {
            let replaced = match name {
                Some(name) => deployment::pods_of(&self.cluster, name).await?,
                None => None,
            };
            space::survey(&self.cluster, replaced.as_ref()).await
        }))
    }

    /// Writes it, after a dry run, and waits until it is available, for so long.
    pub fn apply(&self, service: &Service, patience: Duration) -> Result<Applied, metier_cluster::Error> {
        self.runtime.block_on(async {
            let done = within(LOOK_WITHIN, deployment::apply(&self.cluster, service)).await?;
            let standing = deployment::until_available(&self.cluster, &service.name, patience).await;
            Ok(self.applied(&service.name, done, standing))
        })
    }

    /// Brings back what was there before, and waits until that is available, for so long.
    pub fn rollback(&self, name: &str, patience: Duration) -> Result<Applied, metier_cluster::Error> {
        self.runtime.block_on(async {
            let done = deployment::rollback(&self.cluster, name).await?;
            let standing = match done {
                deployment::Done::Removed => Ok(()),
                _ => deployment::until_available(&self.cluster, name, patience).await,
            };
            Ok(self.applied(name, done, standing))
        })
    }

    fn applied(&self, name: &str, done: deployment::Done, standing: Result<(), String>) -> Applied {
        Applied {
            namespace: self.cluster.namespace.clone(),
            name: name.to_string(),
            action: done.word(),
            is_available: standing.is_ok() && done != deployment::Done::Removed,
            because: standing.err(),
        }
    }
}

async fn within<T>(
    time: Duration,
    asked: impl Future<Output = Result<T, metier_cluster::Error>>,
) -> Result<T, metier_cluster::Error> {
    tokio::time::timeout(time, asked).await.unwrap_or_else(|_| {
        Err(metier_cluster::Error::Cluster { reason: format!("no answer within {} s", time.as_secs()) })
    })
}

#[cfg(test)]
mod tests;
