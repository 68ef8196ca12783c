//! Finds the passport of a cluster's node.
//!
//! The order is: the label `metier.device`; this machine's own passport if the node is this machine
//! (by boot id); the node's name and host name; board or machine type labels of other tools; the
//! exported identifier; the passport measured on the only host of that name; the exported model and
//! brand. Otherwise the node's cores and instruction set are used ([`generic_device`]).
//!
//! Passports are read once and results are cached per node, so that a lookup needs no store access.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use metier_device::passport::PassportCatalog;
use metier_place::{NodeFacts, ResolvedPassport};
use metier_store::RecordStore;
use metier_types::{Device, LockUnpoisoned, Passport, PassportOrigin};

use crate::latency::generic_device;

/// Node label with the device's name.
pub const DEVICE_LABEL: &str = "metier.device";
/// Node labels of other tools that identify boards and machine types.
const BOARD_LABELS: [&str; 6] = [
    "device",
    "board",
    "nvidia.com/gpu.machine",
    "feature.node.kubernetes.io/system-os_release.ID_MODEL",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];
/// Largest number of cached nodes.
const MAX_CACHED_NODES: usize = 2000;

/// This machine, which may be a node of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalNode {
    pub device: Device,
    /// Boot id, as Kubernetes reports it for its nodes.
    pub boot: String,
}

/// Finds passports of nodes.
#[derive(Debug, Default)]
pub struct PassportResolver {
    catalog: PassportCatalog,
    local: Option<LocalNode>,
    remembered: Mutex<HashMap<String, Option<ResolvedPassport>>>,
}

impl PassportResolver {
    /// Reads the current passports of a store; blocks. Without a store only shipped passports are
    /// used.
    pub fn read(store: Option<&RecordStore>, local: Option<LocalNode>) -> Self {
        Self::with(PassportCatalog::read(store), local)
    }

    pub fn with(catalog: PassportCatalog, local: Option<LocalNode>) -> Self {
        Self { catalog, local, remembered: Mutex::default() }
    }

    /// The passport of a node. The error is the reason why there is none.
    pub fn resolve(&self, node: &NodeFacts) -> Result<ResolvedPassport, String> {
        let mut remembered = self.remembered.lock_unpoisoned();
        let key = identity(node);
        let found = match remembered.get(&key) {
            Some(found) => found.clone(),
            None => {
                let found = self.search(node);
                if remembered.len() >= MAX_CACHED_NODES {
                    remembered.clear();
                }
                remembered.insert(key, found.clone());
                found
            }
        };
        found.ok_or_else(|| missing_reason(node))
    }

    /// The passport of a device with that name.
    pub fn named(&self, name: &str) -> Option<ResolvedPassport> {
        self.catalog.find_passport(name).map(measured_passport)
    }

    fn search(&self, node: &NodeFacts) -> Option<ResolvedPassport> {
        let shown = node.prometheus.as_ref();
        let find = |name: &str| self.catalog.find_passport(name);
        let cluster = [Some(node.name.as_str()), node.hostname()].into_iter();
        let cluster = cluster.chain(BOARD_LABELS.map(|label| node.label(label)));
        let found = node
            .label(DEVICE_LABEL)
            .and_then(find)
            .or_else(|| self.own_passport(node))
            .or_else(|| cluster.flatten().find_map(find))
            .or_else(|| shown?.uuid.as_deref().and_then(find))
            .or_else(|| self.measured_on(node))
            .or_else(|| shown?.model.as_deref().and_then(find))
            .or_else(|| shown?.brand.as_deref().and_then(find));
        if let Some(passport) = found {
            return Some(measured_passport(passport));
        }
        let passport = generic_device::passport(node.architecture()?, node.cores()?)?;
        Some(ResolvedPassport { passport: Arc::new(passport), is_generic: true })
    }

    /// This machine's passport, if the node is this machine.
    fn own_passport(&self, node: &NodeFacts) -> Option<&Passport> {
        let (local, kubernetes) = (self.local.as_ref()?, node.kubernetes.as_ref()?);
        let is_here = !local.boot.is_empty() && kubernetes.boot == local.boot;
        is_here.then(|| self.catalog.find_for_device(&local.device)).flatten()
    }

    /// The passport measured on the host of this name, if there is exactly one and its number of
    /// cores matches; node_exporter exports no better identity.
    fn measured_on(&self, node: &NodeFacts) -> Option<&Passport> {
        let is_of = |passport: &&Passport| {
            passport.origin == PassportOrigin::Measured
                && passport.device.name.eq_ignore_ascii_case(&node.name)
        };
        let mut found = self.catalog.list_passports().filter(is_of);
        let first = found.next()?;
        let is_alone = found.all(|other| other.device.id == first.device.id);
        let fits = node.cores().is_none_or(|cores| cores == first.device.cpu.threads);
        (is_alone && fits).then_some(first)
    }
}

fn measured_passport(passport: &Passport) -> ResolvedPassport {
    ResolvedPassport { passport: Arc::new(passport.clone()), is_generic: false }
}

/// All identifying facts of a node as one cache key.
fn identity(node: &NodeFacts) -> String {
    let mut key = String::with_capacity(160);
    let mut add = |part: Option<&str>| {
        key.push_str(part.unwrap_or_default());
        key.push('\u{1f}');
    };
    add(Some(&node.name));
    if let Some(kubernetes) = &node.kubernetes {
        add(Some(&kubernetes.boot));
        add(node.hostname());
        add(node.label(DEVICE_LABEL));
        BOARD_LABELS.iter().for_each(|label| add(node.label(label)));
    }
    if let Some(shown) = &node.prometheus {
        [&shown.uuid, &shown.model, &shown.brand].into_iter().for_each(|part| add(part.as_deref()));
    }
    add(node.architecture());
    if let Some(cores) = node.cores() {
        key.push_str(&cores.to_string());
    }
    key
}

/// The reason why a node has no passport, with the remedy.
fn missing_reason(node: &NodeFacts) -> String {
    let shown = node.prometheus.as_ref();
    let passport = match shown.and_then(|shown| shown.model.as_deref()) {
        Some(model) => format!("no passport of {model:?} is known"),
        None => match shown.and_then(|shown| shown.why_missing("device")) {
            Some(why) => format!("no passport is known for it ({why})"),
            None => "no passport is known for it".to_string(),
        },
    };
    let cores = match (node.cores(), node.architecture()) {
        (None, None) => "neither its cores nor its instruction set are known".to_string(),
        (Some(cores), None) => format!("of its {cores} cores the instruction set is not known"),
        (None, Some(kind)) => format!("how many {kind} cores it has is not known"),
        (Some(cores), Some(kind)) => format!("nothing is known of {kind}, which its {cores} cores are"),
    };
    format!(
        "{passport}, and {cores}; `metier device bench` there makes one, or the label {DEVICE_LABEL} names its board"
    )
}

#[cfg(test)]
mod tests;
