//! Short forms of run-file fields, for the published schema. The types have no values; only their
//! schemas are used.
#![allow(dead_code, reason = "only the schemas of these are used")]

use schemars::JsonSchema;

use super::file::Listen;

/// A text; numbers, true and false keep their original text.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ScalarSchema {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
}

/// A text alone, or a list.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum OneOrMoreSchema {
    /// A single value.
    One(String),
    /// A list.
    More(Vec<ScalarSchema>),
}

/// A short form as a text, or the whole map.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ShortForm<T> {
    /// The text.
    Text(String),
    /// The map.
    Whole(T),
}

/// A source of application messages.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListenWay {
    /// The Waggle live socket.
    Socket,
    /// pywaggle's log folder.
    Pywaggle,
    /// Lines on a file descriptor.
    Lines,
}

/// One source of messages, a list, or a map.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ListenForm {
    /// A single value.
    One(ListenWay),
    /// A list.
    Some(Vec<ListenWay>),
    /// A map.
    Whole(Listen),
}

/// Whether stacks are sampled, or how often a second.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum StacksForm {
    /// At the default rate, or not at all.
    Usual(bool),
    /// Samples per second.
    Rate(u32),
}
