//! Node types: a machine's five attributes ([`MachineSpec`]), the node types of a pipeline
//! ([`NodeTypeIndex`]), and the lookup of the most similar node type with its uncertainty.
//! [`discover`] detects this machine.

pub mod discover;
mod index;
mod spec;

pub use index::{NodeTypeEntry, NodeTypeIndex, NodeTypeMatch};
pub use spec::{MachineAttribute, MachineSpec};
