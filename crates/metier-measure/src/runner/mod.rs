//! What runs, as one family.
//!
//! [`command`] is a program of this host below our launcher, [`container`] one of an engine, [`foreign_run`] a
//! control group that somebody else made and looks after (a kubelet), [`from_socket`] a container of somebody else's with our
//! launcher in it. Adding one is a file here and a line in
//! [`crate::session`].

pub mod command;
pub mod container;
pub mod foreign_run;
pub mod joined_container;
