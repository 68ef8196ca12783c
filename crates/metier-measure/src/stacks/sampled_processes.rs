//! Sampled processes: the names of their threads, and the executable mappings of their memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::code_modules::{CodeModules, ModuleId};
use super::fold::UnresolvedFrame;
use super::perf_record::ExecutableMapping;

/// Maximum number of tracked processes; ended ones are removed first.
const MAX_PROCESSES: usize = 20_000;
/// Maximum number of mappings per process.
const MAX_MAPPINGS: usize = 10_000;

/// Executable mappings of one process.
#[derive(Debug, Clone, Default)]
struct ProcessMappings {
    /// Executable regions by start: end, offset in the file, and the file if there is one.
    regions: BTreeMap<u64, (u64, u64, Option<ModuleId>)>,
    has_ended: bool,
}

/// Names and mappings of all processes.
#[derive(Default)]
pub(super) struct SampledProcesses {
    names: HashMap<u32, Arc<str>>,
    spaces: HashMap<u32, ProcessMappings>,
}

impl SampledProcesses {
    pub(super) fn set_thread_name(&mut self, pid: u32, tid: u32, name: &str, exec: bool) {
        if exec {
            self.spaces.remove(&pid);
        }
        self.names.insert(tid, Arc::from(name));
        self.names.entry(pid).or_insert_with(|| Arc::from(name));
    }

    pub(super) fn add_fork(&mut self, pid: u32, parent: u32, tid: u32, parent_tid: u32) {
        if pid != parent
            && let Some(space) = self.spaces.get(&parent)
        {
            let space = ProcessMappings { has_ended: false, ..space.clone() };
            self.spaces.insert(pid, space);
            self.evict_ended();
        }
        if let Some(name) = self.names.get(&parent_tid).or_else(|| self.names.get(&parent)).cloned() {
            self.names.insert(tid, name);
        }
    }

    pub(super) fn mark_ended(&mut self, pid: u32, tid: u32) {
        if pid == tid
            && let Some(space) = self.spaces.get_mut(&pid)
        {
            space.has_ended = true;
        }
    }

    pub(super) fn add_mapping(&mut self, mapping: &ExecutableMapping, modules: &mut CodeModules) {
        let module = modules.module_of(mapping);
        let space = self.spaces.entry(mapping.pid).or_default();
        let end = mapping.start.saturating_add(mapping.length);
        if space.regions.len() < MAX_MAPPINGS {
            // A new mapping replaces the regions below it.
            space.regions.retain(|start, (last, ..)| *last <= mapping.start || *start >= end);
            space.regions.insert(mapping.start, (end, mapping.offset, module));
        }
        self.evict_ended();
    }

    /// The name of a thread; `None` if unknown.
    pub(super) fn thread_name(&self, pid: u32, tid: u32) -> Option<Arc<str>> {
        self.names.get(&tid).or_else(|| self.names.get(&pid)).cloned()
    }

    /// The code location of a process's address.
    pub(super) fn frame_at(&self, pid: u32, address: u64) -> UnresolvedFrame {
        let found = self.spaces.get(&pid).and_then(|space| space.regions.range(..=address).next_back());
        match found {
            Some((start, (end, offset, Some(module)))) if address < *end => {
                UnresolvedFrame::Code(*module, address - start + offset)
            }
            Some((_, (end, _, None))) if address < *end => UnresolvedFrame::Anonymous(pid, address),
            _ => UnresolvedFrame::Unmapped,
        }
    }

    fn evict_ended(&mut self) {
        if self.spaces.len() > MAX_PROCESSES {
            self.spaces.retain(|_, space| !space.has_ended);
            let living = &self.spaces;
            self.names.retain(|tid, _| living.contains_key(tid));
        }
        if self.spaces.len() > MAX_PROCESSES {
            self.spaces.clear();
        }
    }
}
