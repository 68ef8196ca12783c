//! Names of code generated at run time: `/tmp/perf-PID.map`, with the path and the PID as the
//! process sees them. The folder is opened while the process runs; the file is read at the end,
//! when it is complete.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use metier_linux::KernelRoots;

use super::code_modules::open_regular;
use super::elf_symbols::demangle;

/// Maximum number of tracked processes.
const MAX_PROCESSES: usize = 256;
/// Maximum size of a map file.
const MAX_MAP_BYTES: u64 = 64 << 20;

/// Open folders of the map files.
#[derive(Default)]
pub(super) struct JitMapFolders(HashMap<u32, Option<(File, u32)>>);

impl JitMapFolders {
    /// Opens the folder of a process.
    pub(super) fn track_process(&mut self, roots: &KernelRoots, pid: u32) {
        if self.0.len() < MAX_PROCESSES {
            self.0.entry(pid).or_insert_with(|| open_map_folder(roots, pid));
        }
    }

    pub(super) fn read_symbols(self, roots: &KernelRoots) -> JitSymbols {
        let read = |(pid, found): (u32, Option<(File, u32)>)| {
            let (folder, inside) = found?;
            let place = roots.proc.join(format!("self/fd/{}/perf-{inside}.map", folder.as_raw_fd()));
            let mut text = Vec::new();
            open_regular(&place)?.take(MAX_MAP_BYTES).read_to_end(&mut text).ok()?;
            Some((pid, parse_perf_map(&String::from_utf8_lossy(&text))))
        };
        JitSymbols(self.0.into_iter().filter_map(read).collect())
    }
}

/// The folder, and the PID in the process's own namespace.
fn open_map_folder(roots: &KernelRoots, pid: u32) -> Option<(File, u32)> {
    let process = roots.proc.join(pid.to_string());
    let folder = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_PATH)
        .open(process.join("root/tmp"))
        .ok()?;
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let inside =
        status.lines().find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().last()?.parse().ok());
    Some((folder, inside.unwrap_or(pid)))
}

/// Names by process: start, end, name, sorted by start.
#[derive(Default)]
pub(super) struct JitSymbols(HashMap<u32, Vec<(u64, u64, Box<str>)>>);

impl JitSymbols {
    /// The function at an address of a process.
    pub(super) fn name_at(&self, pid: u32, address: u64) -> Option<String> {
        let list = self.0.get(&pid)?;
        let next = list.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = list.get(next.checked_sub(1)?)?;
        (address < *end).then(|| demangle(name))
    }
}

/// Parses lines `START SIZE name`, both numbers hexadecimal. The last line for an address wins,
/// because code may be regenerated.
fn parse_perf_map(text: &str) -> Vec<(u64, u64, Box<str>)> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let mut list: Vec<(u64, u64, Box<str>)> = text
        .lines()
        .filter_map(|line| {
            let (start, rest) = line.split_once(' ')?;
            let (size, name) = rest.split_once(' ')?;
            let start = hex(start)?;
            Some((start, start.checked_add(hex(size)?)?, name.trim().into()))
        })
        .collect();
    list.reverse();
    list.sort_by_key(|(start, ..)| *start);
    list.dedup_by_key(|(start, ..)| *start);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_place_holds_and_nonsense_is_left_out() {
        let list = parse_perf_map(
            "7f00 10 old\nnonsense\n7f00 20 py::work:/app.py\n0x8000 8 b c\nzz 1 x\nffffffffffffffff 2 y\n",
        );
        assert_eq!(list, [(0x7f00, 0x7f20, "py::work:/app.py".into()), (0x8000, 0x8008, "b c".into())]);
        let symbols = JitSymbols(HashMap::from([(5, list)]));
        assert_eq!(symbols.name_at(5, 0x7f1f).as_deref(), Some("py::work:/app.py"));
        assert_eq!((symbols.name_at(5, 0x7f20), symbols.name_at(6, 0x7f00)), (None, None));
    }
}
