//! What one entry of the list says: how it is asked, what it answers, who does the work.

use std::sync::Arc;

use axum::routing::MethodFilter;
use schemars::SchemaGenerator;

use super::lanes::Lane;
use super::{Call, Reply};
use crate::http::parameter::Parameter;
use crate::http::problem::Problem;

pub type Handler<S> = fn(&Arc<S>, &Call) -> Result<Reply, Problem>;

/// Where a handler runs.
pub enum Work<S> {
    /// On the serving thread: it neither blocks nor computes for long.
    Quick(Handler<S>),
    /// On the bounded pool for what blocks.
    Blocking(Lane, Handler<S>),
    /// The same, and what takes long has its own lane afterwards.
    Stages(Lane, Beginning<S>),
}

/// A handler that may leave the rest for later.
pub type Beginning<S> = fn(&Arc<S>, &Call) -> Result<Stage<S>, Problem>;

/// How far a handler has come.
pub enum Stage<S> {
    Done(Reply),
    /// This is left, for that lane.
    Then(Lane, Rest<S>),
}

/// What is left of a handler.
pub type Rest<S> = Box<dyn FnOnce(&Arc<S>) -> Result<Reply, Problem> + Send>;

/// What the body of a good answer is.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// JSON of that schema.
    Json(fn(&mut SchemaGenerator) -> schemars::Schema),
    /// Text of that media type.
    Text(&'static str),
}

/// What a route is asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// GET and HEAD: it only reads.
    Get,
    /// POST: it starts or ends runs, or has us work for a moment.
    Post,
    /// POST: it asks with a document, and changes nothing.
    Ask,
    /// DELETE: it ends runs.
    Delete,
}

impl Verb {
    /// Its name in the OpenAPI document.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post | Self::Ask => "post",
            Self::Delete => "delete",
        }
    }

    /// Which methods lead to it.
    pub(super) const fn filter(self) -> MethodFilter {
        match self {
            // HEAD comes with it.
            Self::Get => MethodFilter::GET,
            Self::Post | Self::Ask => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// What may be sent with a request.
#[derive(Debug, Clone, Copy)]
pub enum Sent {
    Nothing,
    /// A document of that schema, in one of these media types.
    Document(&'static [&'static str], fn(&mut SchemaGenerator) -> schemars::Schema),
    /// A file of that media type.
    Bytes(&'static str),
}

/// One entry of a route table, for handlers over the state `S`.
pub struct Route<S: 'static> {
    /// What it is asked with.
    pub verb: Verb,
    /// Path with `{name}` for its parameters.
    pub path: &'static str,
    /// Name of the operation for generated clients.
    pub operation: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
    /// What may be sent to it.
    pub sent: Sent,
    /// The status of a good answer.
    pub good: u16,
    pub answer: Answer,
    /// Statuses beside the good one that are its own; those of every route (400, 401, 405 …) are not repeated.
    pub also: &'static [u16],
    pub work: Work<S>,
}
