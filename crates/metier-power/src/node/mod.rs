//! Which machine is like which: a machine's five attributes ([`MachineSpec`]), the node types of a pipeline ([`Index`]) and the look-up of
//! the one that a machine is most like, with how unsure that is. [`discover`] says who this machine is.

pub mod discover;
mod index;
mod spec;

pub use index::{Entry, Found, Index};
pub use spec::{Attribute, MachineSpec};
