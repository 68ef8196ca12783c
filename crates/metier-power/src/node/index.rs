//! The node types of a pipeline: number, attributes, and the machines that were measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spec::{MachineAttribute, MachineSpec};
use crate::Error;

/// Most node types of a pipeline.
const MAX_NODE_TYPES: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeTypeEntry {
    #[serde(rename = "attrs")]
    pub spec: MachineSpec,
    /// Ids of the machines that were measured.
    #[serde(default)]
    pub members: Vec<String>,
}

/// The node type most similar to a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeTypeMatch {
    pub node_type: u32,
    /// Uncertainty caused by unknown attributes, 0 to 1.
    pub uncertainty: f64,
    /// Dissimilarity to the machine, 0 to 1.
    pub looseness: f64,
}

/// All node types of a pipeline, by number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeTypeIndex(pub BTreeMap<u32, NodeTypeEntry>);

impl NodeTypeIndex {
    /// Reads `node_type_index.json`.
    pub fn read(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::table(format!("node type index: {why}"));
        let raw: BTreeMap<String, NodeTypeEntry> =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if raw.len() > MAX_NODE_TYPES {
            return Err(wrong(format!("{} node types; want at most {MAX_NODE_TYPES}", raw.len())));
        }
        let entries = raw.into_iter().map(|(number, entry)| match number.parse() {
            Ok(number) => Ok((number, entry)),
            Err(_) => Err(wrong(format!("{number:?} is no number of a node type"))),
        });
        Ok(Self(entries.collect::<Result<_, _>>()?))
    }

    /// Writes `node_type_index.json`.
    pub fn write(&self) -> Result<String, Error> {
        let object: BTreeMap<String, &NodeTypeEntry> =
            self.0.iter().map(|(number, entry)| (number.to_string(), entry)).collect();
        serde_json::to_string(&object).map_err(|error| Error::table(error.to_string()))
    }

    /// Adds a machine with known attributes to its node type, or to a new one. `None` if an
    /// attribute is unknown.
    pub fn join(&mut self, member: &str, spec: &MachineSpec) -> Option<u32> {
        if MachineAttribute::ALL.iter().any(|attribute| !spec.has(*attribute)) {
            return None;
        }
        if let Some((number, entry)) = self.0.iter_mut().find(|(_, entry)| entry.spec == *spec) {
            if !entry.members.iter().any(|known| known == member) {
                entry.members.push(member.to_string());
            }
            return Some(*number);
        }
        let number = self.0.keys().next_back().map_or(0, |last| last + 1);
        self.0.insert(number, NodeTypeEntry { spec: spec.clone(), members: vec![member.to_string()] });
        Some(number)
    }

    /// The node type of a machine; with `loose`, the most similar one. `None` if there is none.
    pub fn lookup(&self, spec: &MachineSpec, loose: bool) -> Option<NodeTypeMatch> {
        let is_whole = MachineAttribute::ALL.iter().all(|attribute| spec.has(*attribute));
        let mut best: Option<(f64, u32, &NodeTypeEntry)> = None;
        for (number, entry) in &self.0 {
            let similarity = spec.similarity(&entry.spec);
            let is_better = best.is_none_or(|(known, _, of)| {
                similarity > known || (similarity == known && entry.members.len() > of.members.len())
            });
            if is_better {
                best = Some((similarity, *number, entry));
            }
            if is_whole && entry.spec.covers(spec) {
                return Some(NodeTypeMatch { node_type: *number, uncertainty: 0.0, looseness: 0.0 });
            }
        }
        let (similarity, number, entry) = best?;
        if similarity >= 1.0 {
            return Some(NodeTypeMatch { node_type: number, uncertainty: 0.0, looseness: 0.0 });
        }
        let missing = MachineAttribute::ALL.iter().filter(|attribute| !spec.has(**attribute)).count();
        if let Some((node_type, share)) = self.share(spec) {
            // Each missing attribute scores the same share, so their number cancels out.
            return Some(NodeTypeMatch { node_type, uncertainty: 1.0 - share, looseness: 0.0 });
        }
        if !loose {
            return None;
        }
        // A differing attribute is treated as unknown; unknown attributes differ too and count
        // again.
        let differing: Vec<MachineAttribute> = MachineAttribute::ALL
            .into_iter()
            .filter(|attribute| !spec.agrees(&entry.spec, *attribute))
            .collect();
        let loosened = differing.iter().fold(spec.clone(), |spec, attribute| spec.without(*attribute));
        let members = entry.members.len() as f64;
        let tally: f64 = self.covering(&loosened).map(|(_, entry)| entry.members.len() as f64).sum();
        let score = if tally > 0.0 { differing.len() as f64 * members / tally } else { 0.0 };
        let count = (missing + differing.len()).max(1) as f64;
        Some(NodeTypeMatch {
            node_type: number,
            uncertainty: 1.0 - score / count,
            looseness: 1.0 - similarity,
        })
    }

    fn covering<'a>(&'a self, spec: &'a MachineSpec) -> impl Iterator<Item = (&'a u32, &'a NodeTypeEntry)> {
        self.0.iter().filter(|(_, entry)| entry.spec.covers(spec))
    }

    /// Among compatible node types, the one with most members, and its share of the members.
    fn share(&self, spec: &MachineSpec) -> Option<(u32, f64)> {
        let all: f64 = self.covering(spec).map(|(_, entry)| entry.members.len() as f64).sum();
        let mut best: Option<(u32, f64)> = None;
        for (number, entry) in self.covering(spec) {
            let share = if all > 0.0 { entry.members.len() as f64 / all } else { 0.0 };
            if best.is_none_or(|(_, known)| share > known) {
                best = Some((*number, share));
            }
        }
        best
    }

    /// The node types with the most cores.
    pub fn largest(&self) -> Vec<u32> {
        let cores = |entry: &NodeTypeEntry| entry.spec.cores.unwrap_or(0.0);
        let most = self.0.values().map(cores).fold(0.0, f64::max);
        self.0.iter().filter(|(_, entry)| cores(entry) == most).map(|(number, _)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(processor: &str, cores: f64) -> MachineSpec {
        MachineSpec {
            processor: Some(processor.into()),
            cores: Some(cores),
            chips: Some(1.0),
            memory: Some(8.0),
            frequency: Some(2000.0),
        }
    }

    #[test]
    fn a_machine_joins_its_like_or_founds_a_type() {
        let mut index = NodeTypeIndex::default();
        assert_eq!(index.join("a", &spec("x", 4.0)), Some(0));
        assert_eq!(index.join("b", &spec("y", 4.0)), Some(1));
        assert_eq!(index.join("c", &spec("x", 4.0)), Some(0));
        assert_eq!(index.join("c", &spec("x", 4.0)), Some(0));
        assert_eq!(index.0[&0].members, ["a", "c"]);
        assert_eq!(index.join("d", &spec("x", 4.0).without(MachineAttribute::Memory)), None);
        assert_eq!(NodeTypeIndex::read(&index.write().unwrap()).unwrap(), index);
    }

    #[test]
    fn what_is_in_no_index_is_found_only_loosely() {
        let mut index = NodeTypeIndex::default();
        assert_eq!(index.lookup(&spec("x", 4.0), true), None);
        index.join("a", &spec("x", 4.0));
        assert_eq!(index.lookup(&spec("z", 8.0), false), None);
        let found = index.lookup(&spec("z", 8.0), true).unwrap();
        assert!(found.node_type == 0 && found.looseness > 0.5, "{found:?}");
    }

    #[test]
    fn a_broken_index_is_refused() {
        for text in ["[]", r#"{"x":{"attrs":{}}}"#, r#"{"0":{"attrs":{"cores":"many"}}}"#, "{"] {
            assert!(NodeTypeIndex::read(text).is_err(), "{text}");
        }
    }
}
