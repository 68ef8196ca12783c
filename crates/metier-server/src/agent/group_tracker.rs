//! The monitored cgroups of this host: containers, pods, metier's runs, systemd units.
//!
//! Each scrape walks the hierarchies. A folder without subfolders, by its link count, is not
//! opened. A path is identified only once. So a walk costs about a microsecond a group. A container
//! that was restarted under its old path is detected by its inode.
//!
//! Bounded: folders of a walk, groups of each kind. Groups that are left out are counted.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metier_linux::KernelRoots;
use metier_linux::cgroup::CgroupMembership;
use metier_linux::cgroup::group_identity::{self, CgroupIdentity, CgroupKind};
use metier_prom::RenderedLabels;
use metier_types::words;

use super::cgroup_usage::{CgroupFolders, CgroupReader, CgroupUsage, OpenFileBudget};
use super::config::AgentLimits;
use super::group_network::{self, GroupNetwork, NetworkTraffic};
use super::parallel::for_each_parallel;

/// Deepest nesting of groups that is searched.
const MAX_WALK_DEPTH: usize = 24;

words! { (word, from_word)
    /// Kinds of groups, in the order of the page. The word is that in metric names.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum GroupKind {
        Container = "container",
        Pod = "pod",
        Run = "run",
        Unit = "unit",
    }
}

impl GroupKind {
    fn from_cgroup_kind(kind: &CgroupKind) -> Self {
        match kind {
            CgroupKind::Container(_) => Self::Container,
            CgroupKind::Pod(_) => Self::Pod,
            CgroupKind::Run(_) => Self::Run,
            CgroupKind::Unit(_) => Self::Unit,
        }
    }
}

#[derive(Debug)]
pub struct MonitoredGroup {
    pub named: CgroupIdentity,
    pub usage: CgroupUsage,
    /// Traffic of its network namespace.
    pub traffic: Option<NetworkTraffic>,
    /// `None` until its names are settled; it is on no page before.
    pub labels: Option<RenderedLabels>,
    /// Its path when it was first found.
    pub path: String,
    folders: CgroupFolders,
    meter: Option<CgroupReader>,
    network: GroupNetwork,
    walk: u64,
}

impl MonitoredGroup {
    /// Whether it is a container outside of any pod.
    fn is_standalone_container(&self) -> bool {
        matches!(self.named.kind, CgroupKind::Container(_)) && self.named.pod.is_none()
    }
}

/// The key of a group: a letter for its kind and its identifier.
pub type GroupKey = Arc<str>;

#[derive(Debug)]
struct VisitedFolder {
    inode: u64,
    walk: u64,
    key: Option<GroupKey>,
}

#[derive(Debug)]
struct CgroupHierarchy {
    controllers: Vec<String>,
    point: PathBuf,
    /// Whether it is walked; other hierarchies are read at the paths found there.
    is_walked: bool,
    known: HashMap<String, VisitedFolder>,
}

/// All monitored groups.
#[derive(Debug)]
pub struct GroupTracker {
    hierarchies: Vec<CgroupHierarchy>,
    proc: PathBuf,
    host_network: Option<PathBuf>,
    bounds: AgentLimits,
    budget: OpenFileBudget,
    walk: u64,
    counts: HashMap<GroupKind, usize>,
    left_out: BTreeMap<&'static str, u64>,
    found: BTreeMap<GroupKey, MonitoredGroup>,
}

impl GroupTracker {
    /// Tracks the groups below these roots.
    pub fn new(roots: &KernelRoots, bounds: AgentLimits, files: usize) -> Self {
        let top = CgroupMembership::hierarchy_roots(&roots.proc, &roots.sys);
        let accounts = ["memory", "cpuacct"];
        let mut hierarchies: Vec<CgroupHierarchy> = Vec::new();
        for (controller, point) in &top.v1 {
            let is_walked = accounts.contains(&controller.as_str());
            match hierarchies.iter_mut().find(|known| known.point == *point) {
                Some(known) => {
                    known.controllers.push(controller.clone());
                    known.is_walked |= is_walked;
                }
                None => hierarchies.push(CgroupHierarchy {
                    controllers: vec![controller.clone()],
                    point: point.clone(),
                    is_walked,
                    known: HashMap::new(),
                }),
            }
        }
        if let Some(point) = top.v2_mount {
            let controllers = vec!["v2".to_string()];
            hierarchies.push(CgroupHierarchy { controllers, point, is_walked: true, known: HashMap::new() });
        }
        Self {
            hierarchies,
            proc: roots.proc.clone(),
            host_network: group_network::host_network_namespace(&roots.proc),
            bounds,
            budget: OpenFileBudget::new(files),
            walk: 0,
            counts: HashMap::new(),
            left_out: BTreeMap::new(),
            found: BTreeMap::new(),
        }
    }

    /// Whether any hierarchy is mounted.
    pub fn is_any_mounted(&self) -> bool {
        !self.hierarchies.is_empty()
    }

    /// The groups of the last walk.
    pub fn iter(&self) -> impl Iterator<Item = &MonitoredGroup> {
        self.found.values()
    }

    /// The groups of one sort, as they are on the page.
    pub fn groups_of_kind(&self, sort: GroupKind) -> impl Iterator<Item = &MonitoredGroup> {
        self.iter().filter(move |group| GroupKind::from_cgroup_kind(&group.named.kind) == sort)
    }

    /// The groups, mutable for writing their labels.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut MonitoredGroup> {
        self.found.values_mut()
    }

    /// Groups that the last walk left out, by kind.
    pub fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }

    /// Closes every file; the next reading opens them again.
    pub fn close_files(&mut self) {
        for group in self.found.values_mut() {
            if let Some(meter) = group.meter.take() {
                meter.close(&mut self.budget);
            }
        }
    }

    /// Walks the hierarchies and reads every group. Most of the time goes into kernel files whose
    /// memory is cold since the last page, so a few threads read them in parallel.
    pub fn read_usage(&mut self) {
        self.walk_hierarchies();
        for group in self.found.values_mut().filter(|group| group.meter.is_none()) {
            let is_pod = matches!(group.named.kind, CgroupKind::Pod(_));
            group.meter = Some(CgroupReader::open(&group.folders, !is_pod, &mut self.budget));
        }
        let (proc, host) = (self.proc.as_path(), self.host_network.as_deref());
        for_each_parallel(self.found.values_mut().collect(), |group, buffer| {
            group.usage = group.meter.as_mut().map(|meter| meter.read_usage(buffer)).unwrap_or_default();
            // The containers of a pod share its network, so it is shown once, with the pod.
            let process = group.usage.first_process.filter(|_| group.is_standalone_container());
            group.traffic =
                process.and_then(|process| group.network.read_traffic(proc, process, host, buffer));
        });
        let mut pods: HashMap<String, u32> = HashMap::new();
        for group in self.found.values() {
            if let (CgroupKind::Container(_), Some(pod)) = (&group.named.kind, &group.named.pod)
                && let Some(process) = group.usage.first_process
            {
                pods.entry(pod.clone()).or_insert(process);
            }
        }
        let members: Vec<(&mut MonitoredGroup, u32)> = self
            .found
            .values_mut()
            .filter_map(|group| match &group.named.kind {
                CgroupKind::Pod(uid) => pods.get(uid).map(|process| (group, *process)),
                _ => None,
            })
            .collect();
        for_each_parallel(members, |(group, process), buffer| {
            group.traffic = group.network.read_traffic(proc, process, host, buffer);
        });
    }

    fn walk_hierarchies(&mut self) {
        self.walk += 1;
        self.left_out.clear();
        for at in 0..self.hierarchies.len() {
            if self.hierarchies[at].is_walked {
                self.walk_hierarchy(at);
            }
        }
        let walk = self.walk;
        for hierarchy in &mut self.hierarchies {
            hierarchy.known.retain(|_, known| known.walk == walk);
        }
        let gone: Vec<GroupKey> =
            self.found.iter().filter(|(_, group)| group.walk != walk).map(|(key, _)| key.clone()).collect();
        for key in gone {
            if let Some(group) = self.found.remove(&key) {
                if let Some(meter) = group.meter {
                    meter.close(&mut self.budget);
                }
                let sort = GroupKind::from_cgroup_kind(&group.named.kind);
                self.counts.entry(sort).and_modify(|count| *count = count.saturating_sub(1));
            }
        }
    }

    fn walk_hierarchy(&mut self, at: usize) {
        let mut folders = 0;
        let mut stack = vec![(String::new(), 0)];
        while let Some((path, depth)) = stack.pop() {
            let folder = join_cgroup_path(&self.hierarchies[at].point, &path);
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let name = entry.file_name();
                let (Some(name), Ok(about)) = (name.to_str(), entry.metadata()) else { continue };
                folders += 1;
                if folders > self.bounds.folders {
                    *self.left_out.entry("folder").or_default() += 1;
                    continue;
                }
                let child = format!("{path}/{name}");
                self.visit_folder(at, &child, about.ino());
                // Two links are the folder itself and its name above, so it has no subfolders. File
                // systems that do not count links report 1.
                if about.nlink() != 2 && depth + 1 < MAX_WALK_DEPTH {
                    stack.push((child, depth + 1));
                }
            }
        }
    }

    /// Handles a folder of a hierarchy.
    fn visit_folder(&mut self, at: usize, path: &str, inode: u64) {
        let walk = self.walk;
        if self.is_stale_pod_folder(at, path) {
            return;
        }
        if let Some(known) = self.hierarchies[at].known.get_mut(path) {
            let is_same = known.inode == inode;
            known.walk = walk;
            known.inode = inode;
            let Some(key) = &known.key else { return };
            if let Some(group) = self.found.get_mut(key) {
                group.walk = walk;
                if !is_same && let Some(meter) = group.meter.take() {
                    meter.close(&mut self.budget);
                }
                return;
            }
            // It was left out before, or vanished from another hierarchy meanwhile. Treat it as
            // new.
        }
        let key = group_identity::identify_group(path).and_then(|named| self.add_group(at, path, named));
        self.hierarchies[at].known.insert(path.to_string(), VisitedFolder { inode, walk, key });
    }

    /// Whether it is a leftover of a removed pod. On a host with both versions, a kubelet on v1
    /// removes its v1 folders but not the v2 folder that the container runtime created.
    fn is_stale_pod_folder(&self, at: usize, path: &str) -> bool {
        let is_v2 = |hierarchy: &CgroupHierarchy| hierarchy.controllers.iter().any(|name| name == "v2");
        let has_v1 = self.hierarchies.iter().any(|other| other.is_walked && !is_v2(other));
        if !has_v1 || !is_v2(&self.hierarchies[at]) {
            return false;
        }
        let key = match self.hierarchies[at].known.get(path) {
            Some(known) => known.key.clone(),
            None => group_identity::identify_group(path).and_then(|named| match named.kind {
                CgroupKind::Pod(uid) => Some(format!("p {uid}").into()),
                _ => None,
            }),
        };
        let Some(key) = key.filter(|key| key.starts_with("p ")) else { return false };
        // Version 1 is walked first, so its groups are already found.
        let is_met = self.found.get(&key).is_some_and(|group| group.walk == self.walk);
        let events = join_cgroup_path(&self.hierarchies[at].point, path).join("cgroup.events");
        !is_met && std::fs::read_to_string(events).is_ok_and(|text| text.contains("populated 0"))
    }

    fn add_group(&mut self, at: usize, path: &str, named: CgroupIdentity) -> Option<GroupKey> {
        let sort = GroupKind::from_cgroup_kind(&named.kind);
        let key: GroupKey = match &named.kind {
            CgroupKind::Container(id) => format!("c {id}"),
            CgroupKind::Pod(uid) => format!("p {uid}"),
            CgroupKind::Run(run) => format!("r {run}"),
            CgroupKind::Unit(_) => format!("u {path}"),
        }
        .into();
        if !self.found.contains_key(&key) {
            let count = self.counts.entry(sort).or_default();
            if *count >= self.bounds.max_groups(sort) {
                // Count it once, although several hierarchies have it.
                if self.hierarchies.iter().position(|h| h.is_walked) == Some(at) {
                    *self.left_out.entry(sort.word()).or_default() += 1;
                }
                return Some(key);
            }
            *count += 1;
            let group = MonitoredGroup {
                named,
                usage: CgroupUsage::default(),
                traffic: None,
                labels: None,
                path: path.to_string(),
                folders: CgroupFolders::default(),
                meter: None,
                network: GroupNetwork::default(),
                walk: self.walk,
            };
            self.found.insert(key.clone(), group);
        }
        let group = self.found.get_mut(&key)?;
        group.walk = self.walk;
        let before = group.folders.clone();
        for (other, hierarchy) in self.hierarchies.iter().enumerate() {
            let folder = join_cgroup_path(&hierarchy.point, path);
            if other != at && (hierarchy.is_walked || !folder.is_dir()) {
                continue;
            }
            for controller in &hierarchy.controllers {
                if let Some(place) = group.folders.folder_mut(controller) {
                    // A container in a pod's own tree takes precedence over one in a tree that
                    // copies the path.
                    place.get_or_insert_with(|| folder.clone());
                }
            }
        }
        if before != group.folders
            && let Some(meter) = group.meter.take()
        {
            meter.close(&mut self.budget);
        }
        Some(key)
    }
}

fn join_cgroup_path(point: &Path, path: &str) -> PathBuf {
    point.join(path.trim_start_matches('/'))
}
