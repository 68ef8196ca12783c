//! Kubernetes: a run as a Job on a chosen node; its logs, exit, use and files come back into the run's record.
//!
//! Every object that is made carries labels that say whose it is, has an owner that takes it along, and is removed.
