//! What the meters say of the node as a whole.
//!
//! A host may show several meters of different reach: of the whole machine, of the processor and its memory, of a graphics card. Power over time
//! wants one of them and wants to say of what it is. The whole machine comes first, then the processor; meters of other parts alone
//! are no power of a node.

use std::time::Instant;

use metier_types::{Joules, Missing};

use super::{Account, Meters};

/// What a figure of power is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    /// The whole machine or board.
    Platform,
    Package,
    /// The processor and its memory.
    PackageAndMemory,
}

/// The node's meter at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is of.
    pub covers: Covers,
    /// Energy since [`Meters::start`].
    pub energy: Joules,
    /// When it was read.
    pub at: Instant,
}

/// Meters of the whole machine, the best first.
const WHOLE: [fn(&Account) -> bool; 4] = [
    |account| account.source == "rapl" && account.name.starts_with("psys"),
    |account| account.source == "ina3221",
    |account| account.source == "tegrastats",
    Account::is_of_machine,
];

fn is_package(account: &Account) -> bool {
    (account.source == "rapl" && account.name.starts_with("package"))
        || (account.source == "hwmon" && account.name.starts_with("amd_energy"))
}

fn is_memory(account: &Account) -> bool {
    account.source == "rapl" && account.name.starts_with("dram")
}

impl Meters {
    /// The meters that make up the node, and what they are of.
    fn of_node(&self) -> Option<(Covers, Vec<&Account>)> {
        // Over a longer time the machine's own meter is the best, although counters are better for a run.
        let counts = |account: &&Account| account.counted || account.is_of_machine();
        let counted = || self.found.accounts.iter().filter(counts);
        for is_whole in WHOLE {
            let whole: Vec<&Account> = counted().filter(|account| is_whole(account)).collect();
            if !whole.is_empty() {
                return Some((Covers::Platform, whole));
            }
        }
        let parts: Vec<&Account> =
            counted().filter(|account| is_package(account) || is_memory(account)).collect();
        let has = |is: fn(&Account) -> bool| parts.iter().any(|account| is(account));
        match (has(is_package), has(is_memory)) {
            (true, true) => Some((Covers::PackageAndMemory, parts)),
            (true, false) => Some((Covers::Package, parts)),
            // Memory alone is no node.
            (false, _) => None,
        }
    }

    /// Names of the meters that make up the node, and what they are of together.
    pub fn node_meters(&self) -> Option<(Covers, Vec<String>)> {
        let (covers, accounts) = self.of_node()?;
        let names = accounts.iter().map(|account| format!("{}:{}", account.source, account.name));
        Some((covers, names.collect()))
    }

    /// Why there is no power of the node.
    pub fn missing_node(&self) -> Option<Missing> {
        if self.of_node().is_some() {
            return None;
        }
        self.missing().or_else(|| {
            let names = self.names().join(", ");
            Some(Missing::because(format!(
                "the meters of this host ({names}) are of parts of it, none of the processor or the whole"
            )))
        })
    }

    /// Energy of the node as of the last [`Meters::tick`]; `None` where there is no meter, or one of them could not be read then.
    pub fn node(&self) -> Option<Node> {
        let (covers, accounts) = self.of_node()?;
        let is_read = |account: &&Account| account.last.is_some_and(|(_, at)| at == self.ticked);
        let energy = accounts.iter().map(|account| account.joules).sum();
        accounts.iter().all(is_read).then_some(Node { covers, energy: Joules(energy), at: self.ticked })
    }
}
