//! Maps a series to its node.
//!
//! One node has several names. char_agent and `metier agent` set `char_node_name`. Kubernetes'
//! relabelling puts the node's name in `node` or `instance`. A plain node_exporter has
//! `instance="10.0.0.5:9100"` and the host name in `node_uname_info`. Explicit names come first,
//! then `instance` with and without its port, then the host name, then the scrape address of a
//! known node. An address shared by several nodes identifies none of them.

use std::collections::HashMap;
use std::net::IpAddr;

use metier_prom::query::{InstantSample, MetricLabels};

/// Labels with a node's name, best first.
const NAME_LABELS: [&str; 4] = ["char_node_name", "node", "kubernetes_node", "node_name"];
/// char_agent's name of a node without a configured name.
const DEFAULT_NAME: &str = "node_name";

/// Known node names, and the lookups that lead to them.
#[derive(Default)]
pub(super) struct NodeNaming {
    /// Names of nodes with a device, by folded name, and short ones where they are unique.
    known: HashMap<String, Option<String>>,
    /// Instance (with port) to host name.
    hosts: HashMap<String, String>,
    /// Address (without port) to the only node scraped there.
    addresses: HashMap<String, Option<String>>,
}

/// A node's name, and whether it was found by address only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeriesOwner {
    pub name: String,
    pub by_address: bool,
}

impl NodeNaming {
    /// Collects names from series that contain them.
    pub fn from_readings(readings: &[InstantSample]) -> Self {
        let mut naming = Self::default();
        for InstantSample { metric, .. } in readings {
            match metric.name() {
                Some("char_node_device_model") => naming.learn_device(metric),
                Some("node_uname_info") => {
                    if let (Some(instance), Some(host)) = (metric.label("instance"), metric.label("nodename"))
                    {
                        naming.hosts.insert(instance.to_string(), host.to_string());
                    }
                }
                _ => {}
            }
        }
        naming
    }

    fn learn_device(&mut self, metric: &MetricLabels) {
        let Some(name) = device_name(metric) else { return };
        insert_unique(&mut self.known, fold_case(&name), &name);
        if let Some((short, _)) = name.split_once('.').filter(|_| !is_address(&name)) {
            insert_unique(&mut self.known, fold_case(short), &name);
        }
        if let Some(instance) = metric.label("instance") {
            insert_unique(&mut self.addresses, without_port(instance).to_string(), &name);
        }
    }

    /// The node of a series; `None` if no label identifies one.
    pub fn owner_of(&self, metric: &MetricLabels) -> Option<SeriesOwner> {
        let sure = |name: &str| Some(SeriesOwner { name: name.to_string(), by_address: false });
        let mut explicit =
            NAME_LABELS.iter().filter_map(|label| metric.label(label)).filter(|name| *name != DEFAULT_NAME);
        if let Some(name) = explicit.clone().find_map(|name| self.known_name(name)) {
            return sure(name);
        }
        let instance = metric.label("instance");
        let host = metric.label("nodename").or_else(|| self.hosts.get(instance?).map(String::as_str));
        let by_name = [instance, instance.map(without_port), host];
        if let Some(name) = by_name.into_iter().flatten().find_map(|name| self.known_name(name)) {
            return sure(name);
        }
        if let Some(Some(name)) = instance.and_then(|instance| self.addresses.get(without_port(instance))) {
            return Some(SeriesOwner { name: name.clone(), by_address: true });
        }
        // A node without a known device.
        if let Some(name) = explicit.next() {
            return sure(name);
        }
        let instance = instance?;
        match (is_address(without_port(instance)), host) {
            (true, Some(host)) => sure(host),
            (true, None) => sure(instance),
            (false, _) => sure(without_port(instance)),
        }
    }

    fn known_name(&self, name: &str) -> Option<&str> {
        let exact = self.known.get(&fold_case(name)).and_then(Option::as_deref);
        let short = || name.split_once('.').filter(|_| !is_address(name)).map(|(short, _)| fold_case(short));
        exact.or_else(|| self.known.get(&short()?).and_then(Option::as_deref))
    }
}

/// The configured name of a device, else its scrape address without the port.
pub(super) fn device_name(metric: &MetricLabels) -> Option<String> {
    let mut explicit =
        NAME_LABELS.iter().filter_map(|label| metric.label(label)).filter(|name| *name != DEFAULT_NAME);
    explicit.next().or_else(|| metric.label("instance").map(without_port)).map(str::to_string)
}

/// Inserts a value; two different values under one key become `None`.
fn insert_unique(into: &mut HashMap<String, Option<String>>, key: String, name: &str) {
    let text = into.entry(key).or_insert_with(|| Some(name.to_string()));
    if text.as_deref() != Some(name) {
        *text = None;
    }
}

fn fold_case(name: &str) -> String {
    name.to_lowercase()
}

fn is_address(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Strips the port of `host:9100` and `[::1]:9100`; `10.0.0.1` is unchanged.
pub(super) fn without_port(instance: &str) -> &str {
    match instance.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => instance,
        Some((host, port)) if !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => instance,
    }
}
