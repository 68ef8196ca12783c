//! The only node of the lab's cluster, for tests that put something on it: one at a time, since
//! there is not room for two.
//!
//! Tests of other crates take this file in by its path. The lock of a file says whose turn it is;
//! it holds between threads of a test program and between programs, and ends with its holder.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::File;
use std::time::{Duration, Instant};

use metier_cluster::deployer::{ClusterAccess, ClusterDeployer};

/// How long others may take with the node.
const TURN: Duration = Duration::from_secs(600);
/// How long what they removed may take to be gone; half a minute is usual.
const EMPTY: Duration = Duration::from_secs(180);

/// The node, for as long as this lives, and a name in its cluster of which nothing is left,
/// whatever happens.
pub struct LabNode {
    pub cluster: ClusterDeployer,
    pub access: ClusterAccess,
    pub name: String,
    _turn: File,
}

impl LabNode {
    /// Waits for its turn, and until the node is empty. Without a lab a test says so and passes.
    pub fn take(name: &str) -> Option<Self> {
        let Some(kubeconfig) = std::env::var_os("METIER_LAB_KUBECONFIG") else {
            eprintln!("SKIP: no cluster, because METIER_LAB_KUBECONFIG is not set (lab/lab up)");
            return None;
        };
        let access = ClusterAccess { kubeconfig: Some(kubeconfig.into()), ..ClusterAccess::default() };
        let name = format!("metier-test-{name}-{}", std::process::id());
        let turn = File::create(std::env::temp_dir().join("metier-test-lab-node.lock")).unwrap();
        until("other tests have done with the lab's node", TURN, || turn.try_lock().is_ok());
        let node = Self { cluster: ClusterDeployer::connect(&access).unwrap(), access, name, _turn: turn };
        until("the lab's node is empty", EMPTY, || {
            let nodes = node.cluster.survey(None).unwrap().nodes;
            nodes.iter().all(|node| node.name != "localhost" || node.free_cores == node.cores)
        });
        Some(node)
    }
}

impl Drop for LabNode {
    fn drop(&mut self) {
        for _ in 0..3 {
            if self.cluster.rollback(&self.name, Duration::from_secs(1)).is_err() {
                return;
            }
        }
    }
}

fn until(what: &str, limit: Duration, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < limit, "waited {} s in vain until {what}", limit.as_secs());
        std::thread::sleep(Duration::from_millis(500));
    }
}
