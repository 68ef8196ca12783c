//! On which node of a cluster a graph takes least, and putting it there.

pub mod choose;
pub mod nodes;
pub mod placing;
