//! Prometheus: the text formats, read and written.
//!
//! This crate does no input or output and depends on no other room than the types.
