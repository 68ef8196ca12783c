//! Joins of series in the format of real exporters.

use std::time::Duration;

use metier_place::PrometheusNode;
use metier_prom::query::{InstantSample, MetricLabels, SeriesPoint};
use metier_types::UtcTimestamp;

use super::join::join_nodes;
use super::node_naming::without_port;
use super::queries::{KIND_LABEL, NodeQueryAnswers};
use super::{PrometheusSnapshot, SampleAgeLimits};

const NOW: i64 = 1_700_000_000;

fn at(seconds: i64) -> UtcTimestamp {
    UtcTimestamp::from_second(seconds).unwrap()
}

fn reading(labels: &[(&str, &str)], value: f64) -> InstantSample {
    InstantSample {
        metric: labels.iter().copied().collect::<MetricLabels>(),
        point: SeriesPoint { at: at(NOW), value },
    }
}

/// Builder of a test cluster.
struct Cluster(NodeQueryAnswers);

impl Cluster {
    fn new() -> Self {
        Self(NodeQueryAnswers {
            values: Vec::new(),
            times: Vec::new(),
            loads: Vec::new(),
            warnings: Vec::new(),
        })
    }

    fn timed(&mut self, kind: &str, labels: &[(&str, &str)], age: i64) {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([(KIND_LABEL, kind)]).collect();
        self.0.times.push(reading(&labels, (NOW - age) as f64));
    }

    fn device(&mut self, name: &str, instance: &str, model: &str, age: i64) -> &mut Self {
        let labels = [
            ("char_node_class", "Computer"),
            ("char_node_device_model_name", model),
            ("char_node_name", name),
            ("char_node_uuid", "4e849968-21fc-11ed-a346-204ef6b52cc7"),
            ("instance", instance),
            ("job", "char"),
        ];
        let named: Vec<_> = labels.iter().copied().chain([("__name__", "char_node_device_model")]).collect();
        self.0.values.push(reading(&named, 1.0));
        self.timed("device", &labels, age);
        self
    }

    /// node_exporter: its load, memory and disks (device, size, free).
    fn exporter(
        &mut self,
        more: &[(&str, &str)],
        load: f64,
        disks: &[(&str, f64, f64)],
        age: i64,
    ) -> &mut Self {
        let labels: Vec<(&str, &str)> = more.iter().copied().chain([("job", "node")]).collect();
        let with = |extra: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
            labels.iter().copied().chain(extra.iter().copied()).collect()
        };
        let load_labels: Vec<_> = labels.iter().copied().chain([(KIND_LABEL, "cpu")]).collect();
        self.0.loads.push(reading(&load_labels, load));
        self.0.values.push(reading(&with(&[("__name__", "node_memory_MemAvailable_bytes")]), 5e8));
        self.timed("cpu", &labels, age);
        self.timed("memory", &labels, age);
        for (device, size, free) in disks {
            let disk: Vec<_> =
                labels.iter().copied().chain([("device", *device), ("mountpoint", "/")]).collect();
            for (name, value) in
                [("node_filesystem_size_bytes", *size), ("node_filesystem_avail_bytes", *free)]
            {
                let named: Vec<_> = disk.iter().copied().chain([("__name__", name)]).collect();
                self.0.values.push(reading(&named, value));
            }
            self.timed("disk", &disk, age);
        }
        self
    }

    fn host(&mut self, instance: &str, nodename: &str) -> &mut Self {
        let labels = [
            ("__name__", "node_uname_info"),
            ("instance", instance),
            ("machine", "aarch64"),
            ("nodename", nodename),
        ];
        self.0.values.push(reading(&labels, 1.0));
        self
    }

    fn joined(&mut self) -> PrometheusSnapshot {
        let answers = std::mem::replace(&mut self.0, Self::new().0);
        join_nodes(
            answers,
            SampleAgeLimits { load: Duration::from_secs(60), device: Duration::from_secs(300) },
        )
    }
}

fn named<'a>(snapshot: &'a PrometheusSnapshot, name: &str) -> &'a PrometheusNode {
    let names: Vec<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    snapshot
        .nodes
        .iter()
        .find(|node| node.name == name)
        .unwrap_or_else(|| panic!("{name} is not in {names:?}"))
}

fn busy(node: &PrometheusNode) -> Option<f64> {
    node.cpu_busy.map(|aged| aged.value.get())
}

const DISK: &[(&str, f64, f64)] = &[("/dev/sda1", 100.0, 25.0)];

#[test]
fn nodes_are_joined_by_name_whatever_the_order_of_the_series() {
    // As the seed's own stack relabels it: `instance` of node_exporter is the node's name.
    let mut cluster = Cluster::new();
    cluster
        .exporter(&[("instance", "rpi-2")], 0.9, DISK, 5)
        .exporter(&[("instance", "jetson-1")], 0.05, &[("/dev/a", 10.0, 7.0)], 5)
        .device("jetson-1", "10.42.0.7:5001", "NVIDIA Jetson Nano", 100)
        .device("rpi-2", "10.42.1.3:5001", "Raspberry Pi 4 Model B", 100);
    let snapshot = cluster.joined();
    assert_eq!(snapshot.nodes.len(), 2);
    let (rpi, jetson) = (named(&snapshot, "rpi-2"), named(&snapshot, "jetson-1"));
    assert_eq!((busy(rpi), busy(jetson)), (Some(0.9), Some(0.05)));
    assert_eq!(rpi.disk_used.unwrap().value.get(), 0.75);
    assert!((jetson.disk_used.unwrap().value.get() - 0.3).abs() < 1e-12);
    assert_eq!(rpi.cpu_busy.unwrap().age.get(), 5.0);
    assert_eq!(jetson.model.as_deref(), Some("NVIDIA Jetson Nano"));
    assert!(rpi.missing.is_empty() && jetson.missing.is_empty(), "{:?}", rpi.missing);
}

#[test]
fn a_node_whose_agent_is_down_takes_nothing_from_another() {
    // The original gave node b the figures of node a here.
    let mut cluster = Cluster::new();
    cluster
        .exporter(&[("instance", "a")], 0.02, &[("/dev/a", 100.0, 70.0)], 5)
        .exporter(&[("instance", "b")], 0.90, &[("/dev/b", 100.0, 25.0)], 5)
        .device("b", "10.0.0.2:5001", "Raspberry Pi 4B", 10);
    let snapshot = cluster.joined();
    assert_eq!(busy(named(&snapshot, "b")), Some(0.9));
    assert_eq!(
        named(&snapshot, "a").why_missing("device"),
        Some("no series char_node_device_model of this node")
    );
}

#[test]
fn addresses_host_names_and_labels_lead_to_the_same_node() {
    for (labels, host) in [
        // One address with different ports.
        (vec![("instance", "192.0.2.4:9100")], None),
        // A host name of its own, with its domain.
        (vec![("instance", "192.0.2.99:9100")], Some("Edge-4.example.org")),
        // Kubernetes' labels.
        (vec![("instance", "10.1.1.1:9100"), ("node", "edge-4")], None),
        (vec![("instance", "10.1.1.1:9100"), ("kubernetes_node", "edge-4")], Some("node-exporter-x7f2q")),
    ] {
        let mut cluster = Cluster::new();
        if let Some(host) = host {
            cluster.host(labels[0].1, host);
        }
        cluster.device("edge-4", "192.0.2.4:5001", "Jetson Nano", 1).exporter(&labels, 0.5, DISK, 1);
        let snapshot = cluster.joined();
        assert_eq!(snapshot.nodes.len(), 1, "{labels:?} {:?}", snapshot.nodes);
        assert_eq!(busy(named(&snapshot, "edge-4")), Some(0.5), "{labels:?}");
    }
}

#[test]
fn an_address_that_several_nodes_share_proves_nothing() {
    let mut cluster = Cluster::new();
    cluster
        .device("a", "127.0.0.1:5001", "Jetson Nano", 1)
        .device("b", "127.0.0.1:5002", "Raspberry Pi 4B", 1)
        .exporter(&[("instance", "127.0.0.1:9101")], 0.1, DISK, 1)
        .exporter(&[("instance", "127.0.0.1:9102")], 0.9, DISK, 1);
    let snapshot = cluster.joined();
    assert_eq!((busy(named(&snapshot, "a")), busy(named(&snapshot, "b"))), (None, None));
    let mut cluster = Cluster::new();
    cluster
        .device("a", "127.0.0.1:5001", "Jetson Nano", 1)
        .exporter(&[("instance", "127.0.0.1:9101")], 0.1, DISK, 1)
        .exporter(&[("instance", "127.0.0.1:9102")], 0.9, DISK, 1);
    let snapshot = cluster.joined();
    let why = named(&snapshot, "a").why_missing("cpu").unwrap();
    assert!(why.contains("127.0.0.1:9101, 127.0.0.1:9102"), "{why}");
}

#[test]
fn what_is_old_or_absent_is_named_with_the_reason() {
    let mut cluster = Cluster::new();
    cluster.device("a", "a:5001", "Jetson Nano", 400).exporter(&[("instance", "a:9100")], 0.1, DISK, 90);
    let snapshot = cluster.joined();
    let node = named(&snapshot, "a");
    assert_eq!((busy(node), node.model.as_deref()), (None, None));
    assert_eq!(node.why_missing("cpu"), Some("it was last told 90 s ago, more than 60 s"));
    assert!(node.why_missing("device").unwrap().contains("400 s ago, more than 300 s"));
    let mut cluster = Cluster::new();
    cluster.device("b", "b:5001", "Jetson Nano", 1);
    let snapshot = cluster.joined();
    let node = named(&snapshot, "b");
    assert!(node.why_missing("cpu").unwrap().contains("mode=\"idle\""));
    assert!(node.why_missing("disk").is_some() && node.why_missing("memory").is_some());
}

#[test]
fn of_several_root_file_systems_the_largest_counts_and_shifts_nobody() {
    let mut cluster = Cluster::new();
    let many = [("/dev/root", 1000.0, 100.0), ("overlay", 50.0, 50.0), ("tmpfs", 10.0, 10.0)];
    cluster
        .device("a", "a:5001", "Jetson Nano", 1)
        .device("b", "b:5001", "Jetson Nano", 1)
        .exporter(&[("instance", "a:9100")], 0.1, &many, 1)
        .exporter(&[("instance", "b:9100")], 0.2, DISK, 1);
    let snapshot = cluster.joined();
    assert!((named(&snapshot, "a").disk_used.unwrap().value.get() - 0.9).abs() < 1e-12);
    assert_eq!(named(&snapshot, "b").disk_used.unwrap().value.get(), 0.75);
}

#[test]
fn agents_without_a_name_are_told_apart_by_where_they_were_asked() {
    let mut cluster = Cluster::new();
    cluster
        .device("node_name", "h1:5001", "Jetson Nano", 1)
        .device("node_name", "h2:5001", "Raspberry Pi 4B", 1)
        .exporter(&[("instance", "h2:9100")], 0.7, DISK, 1);
    let snapshot = cluster.joined();
    assert_eq!(named(&snapshot, "h1").model.as_deref(), Some("Jetson Nano"));
    assert_eq!(busy(named(&snapshot, "h2")), Some(0.7));
}

#[test]
fn two_devices_under_one_name_are_neither() {
    let mut cluster = Cluster::new();
    cluster.device("a", "h1:5001", "Jetson Nano", 1).device("a", "h2:5001", "Raspberry Pi 4B", 1);
    let snapshot = cluster.joined();
    let why = named(&snapshot, "a").why_missing("device").unwrap();
    assert_eq!(why, "it says to be \"Jetson Nano\" and \"Raspberry Pi 4B\"");
}

#[test]
fn ports_are_taken_off_and_addresses_of_version_6_stay_whole() {
    for (instance, host) in [
        ("rpi-1:9100", "rpi-1"),
        ("rpi-1", "rpi-1"),
        ("[2001:db8::1]:9100", "[2001:db8::1]"),
        ("2001:db8::1", "2001:db8::1"),
        ("http://x", "http://x"),
        (":9100", ":9100"),
    ] {
        assert_eq!(without_port(instance), host);
    }
}
