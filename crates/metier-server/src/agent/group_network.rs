//! Traffic of a group's network namespace.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cgroup_usage::read_file_text;

/// Traffic of a network namespace, without loopback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkTraffic {
    /// Received: bytes, packets, errors, dropped.
    pub received: [u64; 4],
    /// Sent: bytes, packets, errors, dropped.
    pub sent: [u64; 4],
}

/// How long a cached namespace of a process is used; it almost never changes.
const NAMESPACE_CACHE_TIME: Duration = Duration::from_secs(30);

/// Finds the network namespace of a group.
#[derive(Debug, Default)]
pub struct GroupNetwork {
    /// Its first process, whether that is in the host's namespace, and the time of the lookup.
    place: Option<(u32, bool, Instant)>,
}

impl GroupNetwork {
    /// The traffic of a process's namespace; `None` for the host's namespace, since its traffic is
    /// not the group's.
    pub fn read_traffic(
        &mut self,
        proc: &Path,
        process: u32,
        host: Option<&Path>,
        buffer: &mut Vec<u8>,
    ) -> Option<NetworkTraffic> {
        let folder = proc.join(process.to_string());
        let known =
            self.place.filter(|(whose, _, at)| *whose == process && at.elapsed() < NAMESPACE_CACHE_TIME);
        let is_host = match known {
            Some((_, is_host, _)) => is_host,
            None => {
                let namespace = std::fs::read_link(folder.join("ns/net")).ok()?;
                let is_host = host.is_some_and(|host| host == namespace);
                self.place = Some((process, is_host, Instant::now()));
                is_host
            }
        };
        if is_host {
            return None;
        }
        // Not held open: that would keep the namespace after its container is gone.
        let file = File::open(folder.join("net/dev")).ok()?;
        parse_net_dev(read_file_text(&file, buffer)?)
    }
}

fn parse_net_dev(text: &str) -> Option<NetworkTraffic> {
    let mut sum = NetworkTraffic::default();
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

/// The network namespace of the host: that of its first process, else the agent's own.
pub fn host_network_namespace(proc: &Path) -> Option<PathBuf> {
    let of = |process: &str| std::fs::read_link(proc.join(process).join("ns/net")).ok();
    of("1").or_else(|| of("self"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_the_sum_of_all_interfaces_but_loopback() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes\n    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n  eth0: 100 2 1 3 0 0 0 0 200 4 5 6 0 0 0 0\n eth1:1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\n";
        let want = NetworkTraffic { received: [101, 3, 2, 4], sent: [201, 5, 6, 7] };
        assert_eq!(parse_net_dev(text), Some(want));
        assert_eq!(parse_net_dev("a\nb\n    lo: 9 9\n"), None);
        assert_eq!(parse_net_dev(""), None);
    }

    #[test]
    fn another_process_is_looked_up_anew() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let host = Path::new("net:[1]");
        for (pid, namespace) in [("7", "net:[1]"), ("8", "net:[2]")] {
            std::fs::create_dir_all(proc.join(pid).join("ns")).unwrap();
            std::fs::create_dir_all(proc.join(pid).join("net")).unwrap();
            std::os::unix::fs::symlink(namespace, proc.join(pid).join("ns/net")).unwrap();
            std::fs::write(proc.join(pid).join("net/dev"), "a\nb\neth0: 5 1 0 0 0 0 0 0 6 1 0 0\n").unwrap();
        }
        let (mut network, mut buffer) = (GroupNetwork::default(), Vec::new());
        let mut bytes = |process| {
            network.read_traffic(proc, process, Some(host), &mut buffer).map(|traffic| traffic.received[0])
        };
        assert_eq!((bytes(7), bytes(7)), (None, None), "the host's traffic belongs to no group");
        assert_eq!((bytes(8), bytes(8)), (Some(5), Some(5)));
        assert_eq!(bytes(7), None);
    }
}
