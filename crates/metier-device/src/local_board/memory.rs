//! Memory as `tegrastats` counts it: used memory excludes free memory, buffers and cache.

use metier_types::Bytes;

use crate::boards::{Blocks, Memory};
use metier_linux::Roots;
use metier_linux::file::{Held, kib_field};

pub(super) struct MemoryFiles {
    meminfo: Option<Held>,
    buddyinfo: Option<Held>,
    page: u64,
}

impl MemoryFiles {
    pub(super) fn open(roots: &Roots) -> Self {
        // SAFETY: sysconf takes and returns plain integers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            meminfo: Held::open(roots.proc.join("meminfo")),
            buddyinfo: Held::open(roots.proc.join("buddyinfo")),
            page: u64::try_from(page).unwrap_or(4096),
        }
    }

    pub(super) fn ram(&mut self) -> Option<Memory> {
        let largest_free =
            self.buddyinfo.as_mut().and_then(Held::text).and_then(|text| largest(text, self.page));
        let text = self.meminfo.as_mut().and_then(Held::text)?;
        let total = kib_field(text, "MemTotal")?;
        let free: u64 = ["MemFree", "Buffers", "Cached"].iter().filter_map(|key| kib_field(text, key)).sum();
        Some(Memory {
            used_bytes: Bytes(total.saturating_sub(free)),
            total_bytes: Bytes(total),
            largest_free,
            cached_bytes: None,
        })
    }

    pub(super) fn swap(&mut self) -> Option<Memory> {
        let text = self.meminfo.as_mut().and_then(Held::text)?;
        let total = kib_field(text, "SwapTotal").filter(|total| *total > 0)?;
        Some(Memory {
            used_bytes: Bytes(total.saturating_sub(kib_field(text, "SwapFree")?)),
            total_bytes: Bytes(total),
            largest_free: None,
            cached_bytes: kib_field(text, "SwapCached").map(Bytes),
        })
    }
}

/// Parses the largest free blocks from lines `Node 0, zone Normal 4 7 …`, one number for each power
/// of two pages.
fn largest(text: &str, page: u64) -> Option<Blocks> {
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
    Some(Blocks { count: Some(counts[order]), size_bytes: Bytes(page << order) })
}
