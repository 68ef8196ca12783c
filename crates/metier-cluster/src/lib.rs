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
//! Where things are: [`cluster_client`] talks to the API server, [`node_choice`] chooses where, [`job`] is the object,
//! [`pod_state`] says what a pod's status means, [`follow_run`] watches a pod and its log, [`leftovers`] removes what a killed
//! predecessor left, [`without_launcher`] measures without the launcher, [`launcher_mount`] brings the launcher to another machine and
//! [`launcher_report`] is what it says there, [`dataset_upload`] takes a dataset there and [`artefact_download`] takes back what the run left, both by a [`exec_channel`], [`transfer`] is what of both is asked for, [`remote_app`] is what the application there says of itself, `end` tells the record how it ended, [`pod_run`] puts them
//! together. [`pod_names`] is for those who see only identifiers on a node.
//!
//! Beside runs: [`inventory`] says what nodes are, what of them is free and how busy they are, from Kubernetes and
//! Prometheus; [`deployment`] puts a graph's service on one of them, and [`deployer`] does both for a placement.

mod artefact_download;
pub mod cluster_client;
mod dataset_upload;
pub mod deployer;
pub mod deployment;
mod error;
mod exec_channel;
pub mod inventory;
pub mod job;
mod launcher_mount;
mod launcher_report;
pub mod leftovers;
pub mod node_choice;
mod pod_end;
pub mod pod_names;
mod pod_run;
pub mod pod_state;
pub mod pod_watch;
mod remote_app;
mod transfer;
mod without_launcher;

pub use error::Error;
pub use pod_end::LOG_ARTEFACT;
pub use pod_run::{run_pod, run_pod_with};
