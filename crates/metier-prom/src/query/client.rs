//! The asynchronous query client.

use std::time::Duration;

use metier_fetch::{BodyError, failure_reason, read_beginning, read_body};
use metier_types::UtcTimestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::endpoint::{PromCredentials, PromEndpoint};
use super::error::{QueryError, QueryFailure, is_retryable_status};
use super::response::{MetricLabels, QueryResponse, parse_envelope};

/// Maximum URL length of a GET request; longer queries use a POST form. GET is the default, because
/// some proxies allow only GET.
const MAX_GET_URL_BYTES: usize = 2000;
/// Maximum number of steps that Prometheus allows in a range query.
const MAX_STEPS: u64 = 11_000;
/// Bytes of a refusal that are read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// Maximum length of remote text in an error, in characters.
const MAX_SHOWN_CHARS: usize = 300;
/// Maximum size of a certificate file.
const MAX_AUTHORITY_BYTES: u64 = 4 << 20;

/// Time range and resolution of a range query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryRange {
    pub start: UtcTimestamp,
    /// Inclusive end of the range.
    pub end: UtcTimestamp,
    /// Time between two values.
    pub step: Duration,
}

impl QueryRange {
    fn validate(&self) -> Result<(), QueryError> {
        let span = self.end.duration_since(self.start);
        let is_right = !span.is_negative()
            && !self.step.is_zero()
            && span.unsigned_abs().as_nanos() / self.step.as_nanos() < u128::from(MAX_STEPS);
        match is_right {
            true => Ok(()),
            false => {
                let Self { start, end, step } = *self;
                Err(QueryError::BadRange { start, end, step, most: MAX_STEPS })
            }
        }
    }
}

/// A client of one Prometheus. Clones are cheap and share a connection pool.
#[derive(Debug, Clone)]
pub struct PromClient {
    endpoint: PromEndpoint,
    http: reqwest::Client,
}

impl PromClient {
    /// Makes a client for an endpoint; does not connect yet.
    pub fn new(endpoint: PromEndpoint) -> Result<Self, QueryError> {
        let bad = |reason: String| QueryError::BadEndpoint { url: endpoint.to_string(), reason };
        let mut builder = metier_fetch::client_builder()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(4)
            .default_headers(request_headers(&endpoint)?);
        if let Some(path) = &endpoint.authority {
            let bad = |reason: String| QueryError::BadAuthority { path: path.clone(), reason };
            let mut pem = Vec::new();
            let read = std::fs::File::open(path).and_then(|file| {
                std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_AUTHORITY_BYTES), &mut pem)
            });
            read.map_err(|error| bad(error.to_string()))?;
            let certificates =
                Certificate::from_pem_bundle(&pem).map_err(|error| bad(innermost_cause(&error)))?;
            if certificates.is_empty() {
                return Err(bad("there is no certificate in it".to_string()));
            }
            builder = builder.tls_certs_only(certificates);
        }
        if endpoint.accept_any_certificate {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        let http = builder.build().map_err(|error| bad(innermost_cause(&error)))?;
        Ok(Self { endpoint, http })
    }

    pub const fn endpoint(&self) -> &PromEndpoint {
        &self.endpoint
    }

    /// Evaluates an expression at one time, by default now.
    pub async fn query_instant(
        &self,
        expression: &str,
        at: Option<UtcTimestamp>,
    ) -> Result<QueryResponse, QueryError> {
        let mut pairs = vec![("query", expression.to_string())];
        pairs.extend(at.map(|at| ("time", format_seconds(at))));
        let asked = format!("the query {:?}", truncate_text(expression));
        self.query_response("query", pairs, asked).await
    }

    /// Evaluates an expression over a time range.
    pub async fn query_range(
        &self,
        expression: &str,
        range: QueryRange,
    ) -> Result<QueryResponse, QueryError> {
        range.validate()?;
        let pairs = vec![
            ("query", expression.to_string()),
            ("start", format_seconds(range.start)),
            ("end", format_seconds(range.end)),
            ("step", format!("{}", range.step.as_secs_f64())),
        ];
        let asked = format!("the range query {:?}", truncate_text(expression));
        self.query_response("query_range", pairs, asked).await
    }

    /// The series that match a selector between two times.
    pub async fn find_series(
        &self,
        selector: &str,
        start: UtcTimestamp,
        end: UtcTimestamp,
    ) -> Result<Vec<MetricLabels>, QueryError> {
        let pairs = vec![
            ("match[]", selector.to_string()),
            ("start", format_seconds(start)),
            ("end", format_seconds(end)),
        ];
        self.query_list("series", pairs, format!("the series of {:?}", truncate_text(selector))).await
    }

    /// All values of a label; `__name__` gives all metric names.
    pub async fn label_values(&self, label: &str) -> Result<Vec<String>, QueryError> {
        let asked = format!("the values of label {:?}", truncate_text(label));
        if !crate::is_label_name(label) {
            let what = "not a label name; want letters, digits and underscores".to_string();
            return Err(self.query_error(&asked, QueryFailure::Malformed { what }));
        }
        self.query_list(&format!("label/{label}/values"), Vec::new(), asked).await
    }

    async fn query_response(
        &self,
        part: &str,
        pairs: QueryPairs,
        asked: String,
    ) -> Result<QueryResponse, QueryError> {
        let body = self.fetch_body(part, &pairs, &asked).await?;
        QueryResponse::parse(body).map_err(|what| self.malformed(&asked, &what))
    }

    async fn query_list<T: DeserializeOwned>(
        &self,
        part: &str,
        pairs: QueryPairs,
        asked: String,
    ) -> Result<T, QueryError> {
        let body = self.fetch_body(part, &pairs, &asked).await?;
        let envelope = parse_envelope(&body).map_err(|what| self.malformed(&asked, &what))?;
        Ok(envelope.data)
    }

    fn malformed(&self, asked: &str, what: &serde_json::Error) -> QueryError {
        self.query_error(asked, QueryFailure::Malformed { what: truncate_text(&what.to_string()) })
    }

    fn query_error(&self, asked: &str, trouble: QueryFailure) -> QueryError {
        QueryError::NoAnswer { url: self.endpoint.to_string(), asked: asked.to_string(), trouble }
    }

    /// Fetches a response body, with retries until the limits are reached.
    async fn fetch_body(&self, part: &str, pairs: &QueryPairs, asked: &str) -> Result<Vec<u8>, QueryError> {
        let bounds = &self.endpoint.bounds;
        let end = Instant::now() + bounds.time;
        let mut tries = 0;
        let trouble = loop {
            tries += 1;
            let late = QueryFailure::TimedOut { after: bounds.time };
            let Ok(tried) = timeout_at(end, self.try_fetch(part, pairs, tries)).await else { break late };
            let (trouble, wish) = match tried {
                Ok(body) => return Ok(body),
                Err(failure) => failure,
            };
            if !trouble.is_retryable() || tries >= bounds.tries {
                break trouble;
            }
            let pause = bounds.pause.saturating_mul(1 << (tries - 1).min(10));
            let next = Instant::now() + wish.unwrap_or(pause).max(pause);
            // If there is no time for a retry, report this error: it says more than a timeout
            // would.
            if next >= end {
                break trouble;
            }
            sleep_until(next).await;
        };
        Err(self.query_error(asked, trouble))
    }

    /// One attempt. A failure includes the delay that the server requested.
    async fn try_fetch(
        &self,
        part: &str,
        pairs: &QueryPairs,
        tries: u32,
    ) -> Result<Vec<u8>, (QueryFailure, Option<Duration>)> {
        let mut url = self.endpoint.api_url(part);
        let written: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let request = if written.len() + url.as_str().len() < MAX_GET_URL_BYTES {
            url.set_query((!written.is_empty()).then_some(written.as_str()));
            self.http.get(url)
        } else {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            self.http.post(url).header(CONTENT_TYPE, form).body(written)
        };
        let response =
            request.send().await.map_err(|error| (unreached(innermost_cause(&error), tries), None))?;
        let status = response.status();
        if status.is_success() {
            let most = self.endpoint.bounds.body_bytes;
            return read_body(response, most).await.map_err(|error| match error {
                BodyError::Broken { reason, .. } => (unreached(truncate_text(&reason), tries), None),
                _ => (QueryFailure::TooLarge { most }, None),
            });
        }
        let code = status.as_u16();
        let wish =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let to = response.headers().get(reqwest::header::LOCATION).and_then(|to| to.to_str().ok());
        let text = match to.filter(|_| status.is_redirection()) {
            Some(to) => {
                format!("it redirects to {}; use that address if it is the right one", redact_address(to))
            }
            None => refusal_text(&read_beginning(response, MAX_REFUSAL_BYTES).await),
        };
        let wish = wish.filter(|_| is_retryable_status(code)).map(Duration::from_secs);
        Err((QueryFailure::Refused { status: code, answer: text, tries }, wish))
    }
}

/// Names and values of query parameters.
type QueryPairs = Vec<(&'static str, String)>;

fn request_headers(endpoint: &PromEndpoint) -> Result<HeaderMap, QueryError> {
    let mut headers = HeaderMap::new();
    let bad = |reason: String| QueryError::BadEndpoint { url: endpoint.to_string(), reason };
    for (name, value) in &endpoint.headers {
        let known = HeaderName::try_from(name.as_str())
            .map_err(|_| bad(format!("{:?} is not a header name", truncate_text(name))))?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            bad(format!("the value of header {known} has characters that a header cannot carry"))
        })?;
        value.set_sensitive(true);
        headers.append(known, value);
    }
    let shown = match &endpoint.credentials {
        PromCredentials::None => return Ok(headers),
        PromCredentials::Bearer(token) => format!("Bearer {}", token.trim()),
        PromCredentials::Basic(user, password) => {
            use base64::Engine as _;
            let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            format!("Basic {both}")
        }
    };
    let mut shown = HeaderValue::try_from(shown)
        .map_err(|_| bad("the token has characters that a header cannot carry".to_string()))?;
    shown.set_sensitive(true);
    headers.insert(AUTHORIZATION, shown);
    Ok(headers)
}

/// The message of a refusal: Prometheus' own, or the first line of any other body.
fn refusal_text(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct RefusalBody {
        #[serde(rename = "errorType")]
        sort: Option<String>,
        error: String,
    }
    if let Ok(refusal) = serde_json::from_slice::<RefusalBody>(body) {
        return match refusal.sort {
            Some(sort) => truncate_text(&format!("{sort}: {}", refusal.error)),
            None => truncate_text(&refusal.error),
        };
    }
    let text = String::from_utf8_lossy(body);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    truncate_text(first)
}

fn unreached(reason: String, tries: u32) -> QueryFailure {
    match reason.contains("certificate") {
        // A certificate error will not disappear on a retry.
        true => QueryFailure::Untrusted { reason },
        false => QueryFailure::Unreachable { reason, tries },
    }
}

fn innermost_cause(error: &reqwest::Error) -> String {
    truncate_text(&failure_reason(error))
}

/// A remote address without parts that may be secret.
fn redact_address(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) => {
            truncate_text(&format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path()))
        }
        Err(_) => truncate_text(address.split('?').next().unwrap_or_default()),
    }
}

fn format_seconds(at: UtcTimestamp) -> String {
    let millis = at.as_millisecond();
    format!(
        "{}{}.{:03}",
        if millis < 0 { "-" } else { "" },
        millis.unsigned_abs() / 1000,
        millis.unsigned_abs() % 1000
    )
}

/// Remote text, truncated and on one line.
fn truncate_text(text: &str) -> String {
    let flat = |c: char| if c.is_control() { ' ' } else { c };
    let mut cut: String = text.chars().take(MAX_SHOWN_CHARS).map(flat).collect();
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
        cut.push('…');
    }
    cut
}
