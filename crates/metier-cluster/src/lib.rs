//! Kubernetes: a run as a Job on a chosen node; its logs, exit, use and files come back into the run's record.
//!
//! Every object that is made carries labels that say whose it is, has an owner that takes it along, and is removed.
//!
//! The measuring is that of `metier-measure`: the launcher is the first process of the container, holds the command
//! back until its control group is found and read, and holds the container until the exact counters have been read
//! again. So a pod that lives for 0.3 s is counted like any other, and what the container runtime itself spent in
//! the group is not charged to the run. Where the launcher cannot be put (the image's own entrypoint is not known),
//! the pod's group is measured from outside, and `quality` says so. In a pod on another machine the launcher counts by
//! itself and says it at the end.
//!
//! Where things are: [`cluster`] talks to the API server, [`node`] chooses where, [`job`] is the object,
//! [`state`] says what a pod's status means, [`follow`] watches a pod and its log, [`leftovers`] removes what a killed
//! predecessor left, [`outside`] measures without the launcher, [`carried`] brings the launcher to another machine and
//! [`report`] is what it says there, [`brought`] takes a dataset there and [`fetched`] takes back what the run left, both by a [`talk`], [`transfer`] is what of both is asked for, [`heard`] is what the application there says of itself, `end` tells the record how it ended, [`run`] puts them
//! together. [`names`] is for those who see only identifiers on a node.
//!
//! Beside runs: [`inventory`] says what nodes are, what of them is free and how busy they are, from Kubernetes and
//! Prometheus; [`deployment`] puts a graph's service on one of them, and [`deployer`] does both for a placement.

mod brought;
mod carried;
pub mod cluster;
pub mod deployer;
pub mod deployment;
mod end;
mod error;
mod fetched;
pub mod follow;
mod heard;
pub mod inventory;
pub mod job;
pub mod leftovers;
pub mod names;
pub mod node;
mod outside;
mod report;
mod run;
pub mod state;
mod talk;
mod transfer;

pub use end::LOG;
pub use error::Error;
pub use run::{run, run_with};
