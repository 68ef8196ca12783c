//! Memory as `tegrastats` counts it: used memory excludes free memory, buffers and cache.

use metier_types::Bytes;

use crate::boards::{BoardMemory, FreeBlocks};
use metier_linux::KernelRoots;
use metier_linux::kernel_file::{KernelFile, kib_field};

pub(super) struct MemoryFiles {
    meminfo: Option<KernelFile>,
    buddyinfo: Option<KernelFile>,
    page: u64,
}

impl MemoryFiles {
    pub(super) fn open(roots: &KernelRoots) -> Self {
        // SAFETY: sysconf takes and returns plain integers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            meminfo: KernelFile::open(roots.proc.join("meminfo")),
            buddyinfo: KernelFile::open(roots.proc.join("buddyinfo")),
            page: u64::try_from(page).unwrap_or(4096),
        }
    }

    pub(super) fn read_ram(&mut self) -> Option<BoardMemory> {
        let largest_free = self
            .buddyinfo
            .as_mut()
            .and_then(KernelFile::read_text)
            .and_then(|text| largest_free_blocks(text, self.page));
        let text = self.meminfo.as_mut().and_then(KernelFile::read_text)?;
        let total = kib_field(text, "MemTotal")?;
        let free: u64 = ["MemFree", "Buffers", "Cached"].iter().filter_map(|key| kib_field(text, key)).sum();
        Some(BoardMemory {
            used_bytes: Bytes(total.saturating_sub(free)),
            total_bytes: Bytes(total),
            largest_free,
            cached_bytes: None,
        })
    }

    pub(super) fn read_swap(&mut self) -> Option<BoardMemory> {
        let text = self.meminfo.as_mut().and_then(KernelFile::read_text)?;
        let total = kib_field(text, "SwapTotal").filter(|total| *total > 0)?;
        Some(BoardMemory {
            used_bytes: Bytes(total.saturating_sub(kib_field(text, "SwapFree")?)),
            total_bytes: Bytes(total),
            largest_free: None,
            cached_bytes: kib_field(text, "SwapCached").map(Bytes),
        })
    }
}

/// Parses the largest free blocks from lines `Node 0, zone Normal 4 7 …`, one number for each power
/// of two pages.
fn largest_free_blocks(text: &str, page: u64) -> Option<FreeBlocks> {
    let mut counts: Vec<u64> = Vec::new();
    for line in text.lines() {
        let numbers = line.split_once("zone")?.1.split_ascii_whitespace().skip(1).take(32);
        for (order, number) in numbers.enumerate() {
            if counts.len() <= order {
                counts.push(0);
            }
            counts[order] += number.parse::<u64>().ok()?;
        }
    }
    let order = counts.iter().rposition(|count| *count > 0)?;
    Some(FreeBlocks { count: Some(counts[order]), size_bytes: Bytes(page << order) })
}
