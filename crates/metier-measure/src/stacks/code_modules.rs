//! Files that contain code.
//!
//! A file is opened when it is first seen mapped, while its process probably still runs: later it
//! may be unreachable, like the mounts of a container. It is read only if a sample falls into it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::elf_symbols::ElfSymbols;
use super::perf_record::ExecutableMapping;
use metier_linux::KernelRoots;

/// Maximum number of open files.
const MAX_MODULES: usize = 2000;

/// Index of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ModuleId(u32);

struct CodeModule {
    /// The last component of its path.
    name: String,
    file: Option<File>,
    symbols: Option<ElfSymbols>,
}

/// All mapped files.
pub(super) struct CodeModules {
    roots: KernelRoots,
    list: Vec<CodeModule>,
    /// By device, inode and path.
    known: HashMap<((u32, u32, u64), String), ModuleId>,
}

impl CodeModules {
    pub(super) fn new(roots: &KernelRoots) -> Self {
        Self { roots: roots.clone(), list: Vec::new(), known: HashMap::new() }
    }

    /// The file of a mapping; `None` if there is none, as for code generated at run time.
    pub(super) fn module_of(&mut self, mapping: &ExecutableMapping) -> Option<ModuleId> {
        let path = mapping.path.as_str();
        if path.is_empty()
            || path.starts_with("//")
            || path.starts_with("[anon")
            || path == "[heap]"
            || path == "[stack]"
        {
            return None;
        }
        let key = (mapping.file, path.to_string());
        if let Some(id) = self.known.get(&key) {
            return Some(*id);
        }
        if self.list.len() >= MAX_MODULES {
            return None;
        }
        let id = ModuleId(self.list.len() as u32);
        let name = path.trim_end_matches(" (deleted)");
        let name = name.rsplit('/').next().unwrap_or(name).to_string();
        self.list.push(CodeModule { name, file: self.open_module_file(mapping), symbols: None });
        self.known.insert(key, id);
        Some(id)
    }

    /// Opens a file as its process sees it, else as this process does.
    fn open_module_file(&self, mapping: &ExecutableMapping) -> Option<File> {
        if !mapping.path.starts_with('/') {
            return None;
        }
        let process = self.roots.proc.join(mapping.pid.to_string());
        let end = mapping.start.saturating_add(mapping.length);
        let inside = mapping.path.trim_start_matches('/');
        let places: [PathBuf; 3] = [
            process.join(format!("map_files/{:x}-{end:x}", mapping.start)),
            process.join("root").join(inside),
            PathBuf::from(&mapping.path),
        ];
        places.iter().find_map(|place| open_regular(place))
    }

    /// The name of a position in a file: its function, or the file and the offset.
    pub(super) fn name_at(&mut self, id: ModuleId, offset: u64) -> (String, bool) {
        let proc = self.roots.proc.clone();
        let Some(module) = self.list.get_mut(id.0 as usize) else { return ("[unknown]".into(), false) };
        if module.symbols.is_none() {
            let read = module.file.take().and_then(|file| ElfSymbols::read(file, &proc));
            module.symbols = Some(read.unwrap_or_default());
        }
        match module.symbols.as_ref().and_then(|symbols| symbols.name_at(offset)) {
            Some(name) => (name, true),
            None if module.name.starts_with('[') => (module.name.clone(), true),
            None => (format!("[unknown {}+{offset:#x}]", module.name), false),
        }
    }
}

/// Opens a regular file for reading, without blocking.
pub(super) fn open_regular(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}
