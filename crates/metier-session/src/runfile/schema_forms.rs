//! Short forms of run-file fields, for the published schema. The types have no values; only their
//! schemas are used.
#![allow(dead_code, reason = "only the schemas of these are used")]

use schemars::JsonSchema;

use super::file::Listen;

/// A text; numbers, true and false are taken as they are written.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ScalarForm {
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
pub enum OneOrMoreForm {
    /// One.
    One(String),
    /// A list.
    More(Vec<ScalarForm>),
}

/// One text that says it all, or the whole map.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ShortForm<T> {
    /// The text.
    Text(String),
    /// The map.
    Whole(T),
}

/// A way to listen.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListenWay {
    /// On the Waggle live socket.
    Socket,
    /// To pywaggle's log folder.
    Pywaggle,
    /// To lines on a file descriptor.
    Lines,
}

/// One way to listen, some, or a map of them.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ListenForm {
    /// One.
    One(ListenWay),
    /// Some.
    Some(Vec<ListenWay>),
    /// A map.
    Whole(Listen),
}

/// Whether stacks are sampled, or how often a second.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum StacksForm {
    /// As often as is usual, or not.
    Usual(bool),
    /// So often.
    Rate(u32),
}
