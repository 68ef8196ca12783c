//! Input and output of a handler.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::http::parameter::RequestArguments;
use crate::http::peer_user::ConnectionEnds;
use crate::http::problem::ProblemDetails;

/// Input of a handler.
#[derive(Debug)]
pub struct HandlerRequest {
    pub arguments: RequestArguments,
    pub headers: HeaderMap,
    /// The user, if the route starts or ends runs and the user is known.
    pub user: Option<String>,
    /// Both ends of the connection.
    pub line: Option<ConnectionEnds>,
    pub body: Bytes,
}

impl HandlerRequest {
    /// The media type of the body, without its parameters.
    pub fn media_type(&self) -> String {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// This server's address as the caller sees it, with a trailing slash.
    pub fn base_url(&self) -> String {
        let host = self.headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_encrypted = self.line.is_some_and(|line| line.is_encrypted);
        format!("{}://{host}/", if is_encrypted { "https" } else { "http" })
    }
}

/// Output of a handler.
#[derive(Debug)]
pub struct HandlerResponse {
    pub status: StatusCode,
    /// The headers that describe the body.
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl HandlerResponse {
    /// A body of this media type.
    pub fn new(media_type: &'static str, body: impl Into<Bytes>) -> Self {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))]);
        Self { status: StatusCode::OK, headers, body: body.into() }
    }

    /// A record as JSON.
    pub fn json(record: &impl Serialize) -> Result<Self, ProblemDetails> {
        let body = serde_json::to_vec(record).map_err(|error| {
            ProblemDetails::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("the answer cannot be written: {error}"),
            )
        })?;
        Ok(Self::new("application/json", body))
    }

    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds a header.
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Result<Self, ProblemDetails> {
        let value = HeaderValue::from_str(value).map_err(|_| {
            ProblemDetails::new(
                StatusCode::BAD_REQUEST,
                format!("{name} of the answer cannot carry what was sent"),
            )
        })?;
        self.headers.insert(name, value);
        Ok(self)
    }
}

impl IntoResponse for HandlerResponse {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
