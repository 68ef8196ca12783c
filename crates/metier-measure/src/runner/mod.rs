//! Targets of a measurement.
//!
//! [`command`] is a program of this host below metier's launcher, [`container`] a container of an
//! engine, [`foreign_run`] a control group that another component created and supervises (a
//! kubelet), [`joined_container`] a container of another component with metier's launcher in it. A
//! new target is a file here and a line in [`crate::session`].

pub mod command;
pub mod container;
pub mod foreign_run;
pub mod joined_container;
