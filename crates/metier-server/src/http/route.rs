//! An entry of the route table: request, response and handler.

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
    /// In a lane for blocking work.
    Blocking(LaneKind, RouteHandler<S>),
    /// The same, but the long part runs in another lane afterwards.
    Stages(LaneKind, StagedHandler<S>),
}

/// A handler that may defer its long part.
pub type StagedHandler<S> = fn(&Arc<S>, &HandlerRequest) -> Result<HandlerStage<S>, ProblemDetails>;

/// Result of a staged handler.
pub enum HandlerStage<S> {
    Done(HandlerResponse),
    /// The rest of the work, for that lane.
    Then(LaneKind, DeferredWork<S>),
}

/// The deferred part of a handler.
pub type DeferredWork<S> = Box<dyn FnOnce(&Arc<S>) -> Result<HandlerResponse, ProblemDetails> + Send>;

/// Content of a successful response.
#[derive(Debug, Clone, Copy)]
pub enum ResponseContent {
    /// JSON with that schema.
    Json(fn(&mut SchemaGenerator) -> schemars::Schema),
    /// Text of that media type.
    Text(&'static str),
}

/// HTTP method of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteMethod {
    /// GET and HEAD: reads only.
    Get,
    /// POST: starts or ends runs, or causes a short computation.
    Post,
    /// POST: a query with a document; changes nothing.
    PostQuery,
    /// DELETE: ends runs.
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

    /// The methods that lead to it.
    pub(super) const fn method_filter(self) -> MethodFilter {
        match self {
            // HEAD is included.
            Self::Get => MethodFilter::GET,
            Self::Post | Self::PostQuery => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// Content of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestContent {
    Nothing,
    /// A document with that schema, in one of these media types.
    Document(&'static [&'static str], fn(&mut SchemaGenerator) -> schemars::Schema),
    /// A file of that media type.
    Bytes(&'static str),
}

/// One entry of a route table, for handlers over the state `S`.
pub struct ApiRoute<S: 'static> {
    /// Its method.
    pub verb: RouteMethod,
    /// Path with `{name}` for its parameters.
    pub path: &'static str,
    /// Name of the operation for generated clients.
    pub operation: &'static str,
    /// Its purpose, in a sentence.
    pub summary: &'static str,
    pub parameters: &'static [RouteParameter],
    /// Content of its request.
    pub sent: RequestContent,
    /// Status of a successful response.
    pub good: u16,
    pub answer: ResponseContent,
    /// Further statuses of this route; those of every route (400, 401, 405 …) are not repeated.
    pub also: &'static [u16],
    pub work: RouteWork<S>,
}
