//! Traffic of the network namespace that a group is in.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::usage::read;

/// Traffic of a network namespace, without loopback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Received: bytes, packets, errors, dropped.
    pub received: [u64; 4],
    /// Sent: bytes, packets, errors, dropped.
    pub sent: [u64; 4],
}

/// The traffic of the namespace that a process is in; `None` if that is the host's, whose traffic is not the group's.
pub fn traffic(proc: &Path, process: u32, host: Option<&Path>, buffer: &mut Vec<u8>) -> Option<Traffic> {
    let process = proc.join(process.to_string());
    let namespace = std::fs::read_link(process.join("ns/net")).ok()?;
    if host.is_some_and(|host| host == namespace) {
        return None;
    }
    // Not held open: that would keep the namespace after its container is gone.
    let file = File::open(process.join("net/dev")).ok()?;
    traffic_of(read(&file, buffer)?)
}

fn traffic_of(text: &str) -> Option<Traffic> {
    let mut sum = Traffic::default();
    let mut is_any = false;
    for line in text.lines().skip(2) {
        let Some((interface, figures)) = line.split_once(':') else { continue };
        if interface.trim() == "lo" {
            continue;
        }
        is_any = true;
        for (at, figure) in figures.split_ascii_whitespace().enumerate() {
            let figure: u64 = figure.parse().unwrap_or(0);
            match at {
                0..=3 => sum.received[at] = sum.received[at].saturating_add(figure),
                8..=11 => sum.sent[at - 8] = sum.sent[at - 8].saturating_add(figure),
                _ => {}
            }
        }
    }
    is_any.then_some(sum)
}

/// The network namespace of the host: that of its first process, else ours.
pub fn host(proc: &Path) -> Option<PathBuf> {
    let of = |process: &str| std::fs::read_link(proc.join(process).join("ns/net")).ok();
    of("1").or_else(|| of("self"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_the_sum_of_all_interfaces_but_loopback() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes\n    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n  eth0: 100 2 1 3 0 0 0 0 200 4 5 6 0 0 0 0\n eth1:1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\n";
        let want = Traffic { received: [101, 3, 2, 4], sent: [201, 5, 6, 7] };
        assert_eq!(traffic_of(text), Some(want));
        assert_eq!(traffic_of("a\nb\n    lo: 9 9\n"), None);
        assert_eq!(traffic_of(""), None);
    }
}
