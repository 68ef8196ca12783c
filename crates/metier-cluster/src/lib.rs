//! Kubernetes: a run as a Job on a chosen node. Logs, exit status, resource use and files return to
//! the record of the run.
//!
//! Every created object has labels that identify it and an owner for garbage collection. It is
//! removed at the end.
//!
//! `metier-measure` does the measurement. The launcher is the first process of the container. It
//! delays the command until its cgroup is found and read, and keeps the container until the exact
//! counters have been read again. So a pod of 0.3 s is measured like any other, and the container
//! runtime's own use in the cgroup is not charged to the run. If the entrypoint of the image is
//! unknown, the launcher cannot be used: the pod's cgroup is measured from outside, and `quality`
//! notes it. In a pod on another machine the launcher reads the counters itself and reports them at
//! the end.
//!
//! - [`pod_run`] runs a pod from start to end. [`cluster_client`] is the connection to the API
//!   server, [`node_choice`] selects the node, and [`job`] builds the Job.
//! - [`pod_state`] interprets the status of a pod, [`pod_watch`] watches the pod and its log, and
//!   [`pod_end`] records its end. [`leftovers`] removes objects of a killed metier, [`job_ledger`]
//!   knows where they are, and [`job_lease`] lets the cluster end them.
//! - [`without_launcher`] measures without the launcher. [`launcher_mount`] carries the launcher to
//!   another machine, and [`launcher_report`] parses its report.
//! - [`dataset_upload`] and [`artefact_download`] transfer files through an [`exec_channel`], as
//!   [`transfer`] specifies. [`remote_app`] collects the messages of the application.
//! - [`pod_names`] maps identifiers on a node to names of pods.
//!
//! Besides runs, [`inventory`] lists nodes with their free capacity and load, from Kubernetes and
//! Prometheus. [`deployment`] deploys a graph's service on a node, and [`deployer`] combines both.

mod artefact_download;
pub mod cluster_client;
mod dataset_upload;
pub mod deployer;
pub mod deployment;
mod error;
mod exec_channel;
pub mod inventory;
pub mod job;
pub mod job_lease;
pub mod job_ledger;
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
