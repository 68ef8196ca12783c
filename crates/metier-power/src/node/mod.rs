//! Which machine is like which: a machine's five attributes ([`MachineSpec`]), the node types of a pipeline ([`NodeTypeIndex`]) and the look-up of
//! the one that a machine is most like, with how unsure that is. [`discover`] says who this machine is.

pub mod discover;
mod index;
mod spec;

pub use index::{NodeTypeEntry, NodeTypeIndex, NodeTypeMatch};
pub use spec::{MachineAttribute, MachineSpec};
