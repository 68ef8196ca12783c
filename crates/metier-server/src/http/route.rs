//! What one entry of the list says: how it is asked, what it answers, who does the work.

use std::sync::Arc;

use axum::routing::MethodFilter;
use schemars::SchemaGenerator;

use super::blocking_lanes::LaneKind;
use super::{HandlerRequest, HandlerResponse};
use crate::http::parameter::RouteParameter;
use crate::http::problem::ProblemDetails;

pub type RouteHandler<S> = fn(&Arc<S>, &HandlerRequest) -> Result<HandlerResponse, ProblemDetails>;

/// Where a handler runs.
pub enum RouteWork<S> {
    /// On the serving thread: it neither blocks nor computes for long.
    Quick(RouteHandler<S>),
    /// On the bounded pool for what blocks.
    Blocking(LaneKind, RouteHandler<S>),
    /// The same, and what takes long has its own lane afterwards.
    Stages(LaneKind, StagedHandler<S>),
}

/// A handler that may leave the rest for later.
pub type StagedHandler<S> = fn(&Arc<S>, &HandlerRequest) -> Result<HandlerStage<S>, ProblemDetails>;

/// How far a handler has come.
pub enum HandlerStage<S> {
    Done(HandlerResponse),
    /// This is left, for that lane.
    Then(LaneKind, DeferredWork<S>),
}

/// What is left of a handler.
pub type DeferredWork<S> = Box<dyn FnOnce(&Arc<S>) -> Result<HandlerResponse, ProblemDetails> + Send>;

/// What the body of a good answer is.
#[derive(Debug, Clone, Copy)]
pub enum ResponseContent {
    /// JSON of that schema.
    Json(fn(&mut SchemaGenerator) -> schemars::Schema),
    /// Text of that media type.
    Text(&'static str),
}

/// What a route is asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteMethod {
    /// GET and HEAD: it only reads.
    Get,
    /// POST: it starts or ends runs, or has us work for a moment.
    Post,
    /// POST: it asks with a document, and changes nothing.
    PostQuery,
    /// DELETE: it ends runs.
    Delete,
}

impl RouteMethod {
    /// Its name in the OpenAPI document.
    pub const fn openapi_name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post | Self::PostQuery => "post",
            Self::Delete => "delete",
        }
    }

    /// Which methods lead to it.
    pub(super) const fn method_filter(self) -> MethodFilter {
        match self {
            // HEAD comes with it.
            Self::Get => MethodFilter::GET,
            Self::Post | Self::PostQuery => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// What may be sent with a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestContent {
    Nothing,
    /// A document of that schema, in one of these media types.
    Document(&'static [&'static str], fn(&mut SchemaGenerator) -> schemars::Schema),
    /// A file of that media type.
    Bytes(&'static str),
}

/// One entry of a route table, for handlers over the state `S`.
pub struct ApiRoute<S: 'static> {
    /// What it is asked with.
    pub verb: RouteMethod,
    /// Path with `{name}` for its parameters.
    pub path: &'static str,
    /// Name of the operation for generated clients.
    pub operation: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    pub parameters: &'static [RouteParameter],
    /// What may be sent to it.
    pub sent: RequestContent,
    /// The status of a good answer.
    pub good: u16,
    pub answer: ResponseContent,
    /// Statuses beside the good one that are its own; those of every route (400, 401, 405 …) are not repeated.
    pub also: &'static [u16],
    pub work: RouteWork<S>,
}
