//! Joins the series of many targets into nodes.

use std::collections::{BTreeMap, BTreeSet};

use metier_place::{AgedValue, MissingFact, PrometheusNode};
use metier_prom::query::{InstantSample, MetricLabels};
use metier_types::{Bytes, Ratio, Seconds, UtcTimestamp};

use super::node_naming::{NodeNaming, SeriesOwner};
use super::queries::{KIND_LABEL, NodeQueryAnswers};
use super::{MAX_NODES, PrometheusSnapshot, SampleAgeLimits};

/// Raw samples of one node, before the age check.
#[derive(Default)]
struct GatheredNode {
    device: Option<MetricLabels>,
    models: BTreeSet<String>,
    cores: Option<f64>,
    counted_cores: Option<f64>,
    memory: Option<f64>,
    available: Option<f64>,
    /// Size and free bytes by file system.
    disks: BTreeMap<MetricLabels, (Option<f64>, Option<f64>)>,
    loads: Vec<NodeLoad>,
    /// Age of the newest sample by kind, in seconds.
    ages: BTreeMap<&'static str, f64>,
    brand: Option<String>,
    architecture: Option<String>,
}

struct NodeLoad {
    value: f64,
    instance: String,
    by_address: bool,
}

/// Labels that differ between two series of the same file system.
const NAME_LABEL: &str = "__name__";

/// Joins the query results into a snapshot.
pub(super) fn join_nodes(answers: NodeQueryAnswers, limits: SampleAgeLimits) -> PrometheusSnapshot {
    let naming = NodeNaming::from_readings(&answers.values);
    let at = answers.values.first().or(answers.times.first()).or(answers.loads.first());
    let at = at.map_or_else(UtcTimestamp::now, |reading| reading.point.at);
    let mut warnings = answers.warnings;
    let mut nodes: BTreeMap<String, GatheredNode> = BTreeMap::new();
    let mut beyond = 0_usize;
    let all = [
        (AnswerPart::Time, &answers.times),
        (AnswerPart::Load, &answers.loads),
        (AnswerPart::Value, &answers.values),
    ];
    for (part, readings) in all {
        for reading in readings {
            let Some(whose) = naming.owner_of(&reading.metric) else { continue };
            if nodes.len() >= MAX_NODES && !nodes.contains_key(&whose.name) {
                beyond += 1;
                continue;
            }
            // A host name alone is not a node: it may be that of a container.
            if is_only_a_name(reading) && !nodes.contains_key(&whose.name) {
                continue;
            }
            let node = nodes.entry(whose.name.clone()).or_default();
            match part {
                AnswerPart::Value => node.take_value(reading),
                AnswerPart::Time => node.take_time(reading),
                AnswerPart::Load => node.take_load(reading, &whose),
            }
        }
    }
    if beyond > 0 {
        warnings.push(format!("{beyond} series of nodes beyond the first {MAX_NODES} were left out"));
    }
    let nodes = nodes.into_iter().map(|(name, gathered)| gathered.into_node(name, limits)).collect();
    PrometheusSnapshot { at, nodes, warnings }
}

fn is_only_a_name(reading: &InstantSample) -> bool {
    reading.metric.name() == Some("node_uname_info")
}

#[derive(Clone, Copy)]
enum AnswerPart {
    Value,
    Time,
    Load,
}

impl GatheredNode {
    fn take_value(&mut self, reading: &InstantSample) {
        let (metric, value) = (&reading.metric, reading.point.finite_value());
        let text = |label: &str| metric.label(label).filter(|text| *text != "unknown").map(str::to_string);
        match metric.name().unwrap_or_default() {
            "char_node_device_model" => {
                // 0 means that the model is unknown.
                self.models.extend(text("char_node_device_model_name").filter(|_| value != Some(0.0)));
                // Two agents on one node: the identifier distinguishes metier's agent.
                let is_better = |uuid: Option<&str>| uuid.is_some_and(|uuid| uuid.starts_with("device-"));
                if self.device.is_none() || is_better(metric.label("char_node_uuid")) {
                    self.device = Some(metric.clone());
                }
            }
            "char_node_cpu_total_cores" => {
                self.cores = value.or(self.cores);
                self.brand = text("char_node_brand").or(self.brand.take());
                self.architecture = text("char_node_arch").or(self.architecture.take());
            }
            "node_uname_info" if self.architecture.is_none() => self.architecture = text("machine"),
            "char_node_ram_total_bytes" | "node_memory_MemTotal_bytes" => self.memory = self.memory.or(value),
            "node_memory_MemAvailable_bytes" | "metier_device_memory_available_bytes" => {
                self.available = self.available.or(value);
            }
            name @ ("node_filesystem_size_bytes" | "metier_device_disk_size_bytes") => {
                self.disks.entry(without_name(metric, name)).or_default().0 = value;
            }
            name @ ("node_filesystem_avail_bytes" | "metier_device_disk_available_bytes") => {
                self.disks.entry(without_name(metric, name)).or_default().1 = value;
            }
            _ => {}
        }
    }

    fn take_time(&mut self, reading: &InstantSample) {
        let Some(taken) = reading.point.finite_value() else { return };
        let kind = match reading.metric.label(KIND_LABEL) {
            Some("device") => "device",
            Some("cpu" | "cpu-agent") => "cpu",
            Some("disk" | "disk-agent") => "disk",
            Some("memory" | "memory-agent") => "memory",
            _ => return,
        };
        let age = (reading.point.at.as_millisecond() as f64 / 1000.0 - taken).max(0.0);
        let freshest = self.ages.entry(kind).or_insert(age);
        *freshest = freshest.min(age);
    }

    fn take_load(&mut self, reading: &InstantSample, whose: &SeriesOwner) {
        let Some(value) = reading.point.finite_value() else { return };
        match reading.metric.label(KIND_LABEL) {
            Some("cores") => self.counted_cores = Some(value),
            Some("cpu" | "cpu-agent") => self.loads.push(NodeLoad {
                value,
                instance: reading.metric.label("instance").unwrap_or_default().to_string(),
                by_address: whose.by_address,
            }),
            _ => {}
        }
    }

    fn into_node(self, name: String, limits: SampleAgeLimits) -> PrometheusNode {
        let mut missing = Vec::new();
        let model = self.model(&mut missing, limits);
        let cpu_busy = self.cpu_busy();
        let cpu_busy = self.check_age("cpu", cpu_busy, limits, &mut missing);
        let disk_used = self.check_age("disk", self.disk_used(), limits, &mut missing);
        let available =
            self.available.ok_or_else(|| "no series tells how much memory is available".to_string());
        let memory_available = self.check_age("memory", available, limits, &mut missing);
        let label =
            |name: &str| self.device.as_ref().and_then(|device| device.label(name)).map(str::to_string);
        let whole = |value: f64| (value >= 1.0 && value <= f64::from(u32::MAX)).then_some(value as u32);
        let bytes = |value: f64| (value >= 0.0).then_some(Bytes(value as u64));
        PrometheusNode {
            name,
            class: label("char_node_class"),
            uuid: label("char_node_uuid"),
            model,
            brand: self.brand,
            architecture: self.architecture,
            cores: self.cores.or(self.counted_cores).and_then(whole),
            memory: self.memory.and_then(bytes),
            cpu_busy: cpu_busy.map(|aged| AgedValue { value: Ratio(aged.value), age: aged.age }),
            disk_used: disk_used.map(|aged| AgedValue { value: Ratio(aged.value), age: aged.age }),
            memory_available: memory_available
                .map(|aged| AgedValue { value: Bytes(aged.value.max(0.0) as u64), age: aged.age }),
            missing,
        }
    }

    /// The device's model; missing if no series has it, two models differ, or the sample is too
    /// old.
    fn model(&self, missing: &mut Vec<MissingFact>, limits: SampleAgeLimits) -> Option<String> {
        let age = self.ages.get("device").copied();
        let mut models = self.models.iter();
        let why = match (&self.device, models.next(), models.next()) {
            (None, ..) => "no series char_node_device_model of this node".to_string(),
            (Some(_), None, _) => "its device model is not known".to_string(),
            (Some(_), Some(text), Some(other)) => format!("it says to be {text:?} and {other:?}"),
            (Some(_), Some(model), None) => match age {
                Some(age) if age > limits.device.as_secs_f64() => {
                    too_old_reason("char_node_device_model", age, limits.device)
                }
                _ => return Some(model.clone()),
            },
        };
        missing.push(MissingFact { what: "device", why });
        None
    }

    fn cpu_busy(&self) -> Result<f64, String> {
        let instances: BTreeSet<&str> = self.loads.iter().map(|load| load.instance.as_str()).collect();
        if instances.len() > 1 && self.loads.iter().any(|load| load.by_address) {
            let named: Vec<&str> = instances.into_iter().take(4).collect();
            return Err(format!("more than one target at its address reports a load: {}", named.join(", ")));
        }
        // With two exporters on one node the higher load is used.
        let highest = self.loads.iter().map(|load| load.value).max_by(f64::total_cmp);
        highest.map(|load| load.clamp(0.0, 1.0)).ok_or_else(|| match self.ages.contains_key("cpu") {
            true => "too few samples of node_cpu_seconds_total for a rate yet".to_string(),
            false => "no series tells the load (node_cpu_seconds_total with mode=\"idle\")".to_string(),
        })
    }

    /// The largest of several file systems at "/" (bind mounts, containers) is the root file
    /// system.
    fn disk_used(&self) -> Result<f64, String> {
        let whole = |(size, free): &(Option<f64>, Option<f64>)| Some(((*size)?, (*free)?));
        let sized = self.disks.values().filter_map(whole).filter(|(size, free)| *size > 0.0 && *free >= 0.0);
        let largest = sized.max_by(|left, right| left.0.total_cmp(&right.0));
        largest
            .map(|(size, free)| (1.0 - free / size).clamp(0.0, 1.0))
            .ok_or_else(|| "no series tells size and free bytes of \"/\"".to_string())
    }

    fn check_age(
        &self,
        what: &'static str,
        value: Result<f64, String>,
        limits: SampleAgeLimits,
        missing: &mut Vec<MissingFact>,
    ) -> Option<AgedValue<f64>> {
        let why = match (value, self.ages.get(what)) {
            (Ok(value), Some(age)) if *age <= limits.load.as_secs_f64() => {
                return Some(AgedValue { value, age: Seconds(*age) });
            }
            (Ok(_), Some(age)) => too_old_reason("it", *age, limits.load),
            (Ok(_), None) => "Prometheus has no sample of now: its target is silent or gone".to_string(),
            (Err(why), _) => why,
        };
        missing.push(MissingFact { what, why });
        None
    }
}

fn too_old_reason(what: &str, age: f64, most: std::time::Duration) -> String {
    format!("{what} was last told {age:.0} s ago, more than {} s", most.as_secs())
}

/// The labels of a file system, without the metric name.
fn without_name(metric: &MetricLabels, name: &str) -> MetricLabels {
    debug_assert_eq!(metric.name(), Some(name));
    metric
        .labels()
        .filter(|(label, _)| *label != NAME_LABEL)
        .map(|(label, value)| (label.to_string(), value.to_string()))
        .collect()
}
