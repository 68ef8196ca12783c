//! Names of the kernel's functions, from `/proc/kallsyms` if it is readable.

use std::io::{BufRead, BufReader};

use metier_linux::KernelRoots;

/// Maximum number of lines.
const MAX_LINES: usize = 2_000_000;

#[derive(Default)]
pub(super) struct KernelSymbols(Vec<(u64, Box<str>)>);

impl KernelSymbols {
    /// Reads the list; it is empty if addresses are hidden (`kernel.kptr_restrict`).
    pub(super) fn read(roots: &KernelRoots) -> Self {
        let Ok(file) = std::fs::File::open(roots.proc.join("kallsyms")) else { return Self::default() };
        let mut list: Vec<(u64, Box<str>)> = Vec::new();
        for line in BufReader::new(file).lines().map_while(Result::ok).take(MAX_LINES) {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if matches!(kind, "t" | "T" | "w" | "W")
                && let Ok(address) = u64::from_str_radix(address, 16)
                && address > 0
            {
                list.push((address, name.into()));
            }
        }
        list.sort();
        list.dedup_by_key(|(address, _)| *address);
        Self(list)
    }

    /// The function at an address.
    pub(super) fn name_at(&self, address: u64) -> Option<&str> {
        let next = self.0.partition_point(|(start, _)| *start <= address);
        self.0.get(next.checked_sub(1)?).map(|(_, name)| &**name)
    }
}
