//! Energy of the node as a whole.
//!
//! A host may have meters of different scope: the whole machine, the processor and its memory, or a
//! graphics card. A power time series needs one scope and has to name it. The whole machine is
//! preferred, then the processor. Meters of other parts alone do not give the power of a node.

use std::time::Instant;

use metier_types::{Joules, MissingReason};

use super::{EnergyMeters, MeterAccount};

/// Scope of a power figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterScope {
    /// The whole machine or board.
    Platform,
    Package,
    /// The processor and its memory.
    PackageAndMemory,
}

/// Energy of the node at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEnergy {
    /// Scope of the energy.
    pub covers: MeterScope,
    /// Energy since [`EnergyMeters::start`].
    pub energy: Joules,
    /// Time of the reading.
    pub at: Instant,
}

/// Meters of the whole machine, in order of preference.
const WHOLE_MACHINE_METERS: [fn(&MeterAccount) -> bool; 4] = [
    |account| account.source == "rapl" && account.name.starts_with("psys"),
    |account| account.source == "ina3221",
    |account| account.source == "tegrastats",
    MeterAccount::is_machine_meter,
];

fn is_package(account: &MeterAccount) -> bool {
    (account.source == "rapl" && account.name.starts_with("package"))
        || (account.source == "hwmon" && account.name.starts_with("amd_energy"))
}

fn is_memory(account: &MeterAccount) -> bool {
    account.source == "rapl" && account.name.starts_with("dram")
}

impl EnergyMeters {
    /// The meters that make up the node, with their scope.
    fn select_node_meters(&self) -> Option<(MeterScope, Vec<&MeterAccount>)> {
        // For a long time series the machine's own meter is the best, although a run prefers
        // counters.
        let counts = |account: &&MeterAccount| account.counted || account.is_machine_meter();
        let counted = || self.found.accounts.iter().filter(counts);
        for is_whole in WHOLE_MACHINE_METERS {
            let whole: Vec<&MeterAccount> = counted().filter(|account| is_whole(account)).collect();
            if !whole.is_empty() {
                return Some((MeterScope::Platform, whole));
            }
        }
        let parts: Vec<&MeterAccount> =
            counted().filter(|account| is_package(account) || is_memory(account)).collect();
        let has = |is: fn(&MeterAccount) -> bool| parts.iter().any(|account| is(account));
        match (has(is_package), has(is_memory)) {
            (true, true) => Some((MeterScope::PackageAndMemory, parts)),
            (true, false) => Some((MeterScope::Package, parts)),
            // Memory alone is not the node.
            (false, _) => None,
        }
    }

    /// Names of the meters that make up the node, with their combined scope.
    pub fn node_meters(&self) -> Option<(MeterScope, Vec<String>)> {
        let (covers, accounts) = self.select_node_meters()?;
        let names = accounts.iter().map(|account| format!("{}:{}", account.source, account.name));
        Some((covers, names.collect()))
    }

    /// Why there is no power of the node.
    pub fn missing_node(&self) -> Option<MissingReason> {
        if self.select_node_meters().is_some() {
            return None;
        }
        self.missing().or_else(|| {
            let names = self.names().join(", ");
            Some(MissingReason::without_fix(format!(
                "the meters of this host ({names}) measure parts of it; none measures the processor or the whole machine"
            )))
        })
    }

    /// Energy of the node at the last [`EnergyMeters::sample`]; `None` without a meter or if one
    /// could not be read.
    pub fn node_energy(&self) -> Option<NodeEnergy> {
        let (covers, accounts) = self.select_node_meters()?;
        let is_read = |account: &&MeterAccount| account.last.is_some_and(|(_, at)| at == self.ticked);
        let energy = accounts.iter().map(|account| account.joules).sum();
        accounts.iter().all(is_read).then_some(NodeEnergy { covers, energy: Joules(energy), at: self.ticked })
    }
}
