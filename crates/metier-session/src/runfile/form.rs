//! The short forms of a run file, for its published schema: what the reader takes where the file itself has one shape. Nothing is
//! ever one of these; only their schemas are used.
#![allow(dead_code, reason = "only the schemas of these are used")]

use schemars::JsonSchema;

use super::file::Listen;

/// A text; numbers, true and false are taken as they are written.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum Word {
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
pub enum OneOrMore {
    /// One.
    One(String),
    /// A list.
    More(Vec<Word>),
}

/// One text that says it all, or the whole map.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum Short<T> {
    /// The text.
    Text(String),
    /// The map.
    Whole(T),
}

/// A way to listen.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Way {
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
pub enum Listening {
    /// One.
    One(Way),
    /// Some.
    Some(Vec<Way>),
    /// A map.
    Whole(Listen),
}

/// Whether stacks are sampled, or how often a second.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum Stacks {
    /// As often as is usual, or not.
    Usual(bool),
    /// So often.
    Rate(u32),
}
