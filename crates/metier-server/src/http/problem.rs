//! Errors to clients: RFC 9457 problem details, with the fields at fault.
//!
//! ```json
//! {"type":"about:blank","title":"Bad Request","status":400,"detail":"limit: got \"0\", want …",
//!  "errors":[{"field":"limit","got":"0","want":"a whole number from 1 to 1000"}]}
//! ```
//!
//! `type` is always `about:blank`: `status` gives the kind, `errors` the fields. Client input is
//! repeated in shortened form. This module adds no paths or passwords of the server.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Longest part of a client's own words that is repeated.
const MAX_GOT_CHARS: usize = 120;

/// A wrong field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldError {
    /// The parameter, header or field.
    pub field: String,
    /// The given value; `null` if it was absent.
    pub got: Option<String>,
    /// The expected value.
    pub want: String,
    /// Its line in the document, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Why a request failed (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProblemDetails {
    /// Always `about:blank`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The status in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The error, for people.
    pub detail: String,
    /// The fields at fault.
    pub errors: Vec<FieldError>,
    /// Whether `detail` is repeated as `error`, where clients of another system look for it.
    #[serde(skip)]
    says_error: bool,
    #[serde(skip)]
    headers: Vec<(HeaderName, &'static str)>,
}

impl FieldError {
    /// A field with a wrong value.
    pub fn new(field: impl Into<String>, got: &str, want: impl Into<String>) -> Self {
        Self { field: field.into(), got: Some(shorten_text(got)), want: want.into(), line: None }
    }

    /// A missing field.
    pub fn absent(field: impl Into<String>, want: impl Into<String>) -> Self {
        Self { field: field.into(), got: None, want: want.into(), line: None }
    }

    /// Adds the line of the document.
    pub fn with_line(mut self, line: Option<u64>) -> Self {
        self.line = line;
        self
    }
}

impl ProblemDetails {
    /// A problem without fields.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            says_error: false,
            headers: Vec::new(),
        }
    }

    /// A request with wrong fields; `errors` is not empty.
    pub fn fields(status: StatusCode, errors: Vec<FieldError>) -> Self {
        let sentence = |error: &FieldError| match &error.got {
            Some(got) => format!("{}: got {got:?}, want {}", error.field, error.want),
            None => format!("{}: absent, want {}", error.field, error.want),
        };
        let detail = errors.iter().map(sentence).collect::<Vec<_>>().join("; ");
        Self::new(status, detail).with_errors(errors)
    }

    /// A bad request with one wrong field.
    pub fn bad_field(field: &str, got: &str, want: impl Into<String>) -> Self {
        Self::fields(StatusCode::BAD_REQUEST, vec![FieldError::new(field, got, want)])
    }

    /// The thing does not exist.
    pub fn not_found(what: &str, got: &str) -> Self {
        let errors = vec![FieldError::new("id", got, format!("the id of a {what} that is in the store"))];
        let detail = format!("there is no {what} {} in this store", shorten_text(got));
        Self::new(StatusCode::NOT_FOUND, detail).with_errors(errors)
    }

    /// A temporary failure.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with_header(header::RETRY_AFTER, "2")
    }

    /// Adds the fields at fault; the detail stays.
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }

    /// Repeats the detail as `error`.
    pub fn with_error_field(mut self) -> Self {
        self.says_error = true;
        self
    }

    /// Adds a header to the response.
    pub fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        // Serialising strings and numbers cannot fail; the fallback avoids a panic.
        let written = serde_json::to_value(&self).and_then(|mut body| {
            if self.says_error {
                body["error"] = self.detail.clone().into();
            }
            serde_json::to_vec(&body)
        });
        let body = written.unwrap_or_else(|_| b"{}".to_vec());
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        for (name, value) in self.headers {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// Shortens client input so that an error can repeat it.
pub fn shorten_text(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_GOT_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_each_field_and_what_would_be_right() {
        let problem = ProblemDetails::fields(
            StatusCode::BAD_REQUEST,
            vec![FieldError::new("limit", "0", "1 to 1000"), FieldError::absent("a", "a run id")],
        );
        assert_eq!(problem.detail, "limit: got \"0\", want 1 to 1000; a: absent, want a run id");
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["type"], "about:blank");
        assert_eq!(json["title"], "Bad Request");
        assert_eq!(json["errors"][1]["got"], serde_json::Value::Null);
    }

    #[test]
    fn long_input_is_repeated_shortened() {
        let problem = ProblemDetails::bad_field("text", &"é".repeat(5000), "less");
        assert!(problem.detail.chars().count() < 200);
    }
}
