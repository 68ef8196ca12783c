//! The asynchronous query client.

use std::time::Duration;

use metier_fetch::{BodyError, failure_reason, read_beginning, read_body};
use metier_types::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answer::{Answer, Metric, envelope};
use super::endpoint::{Credentials, Endpoint};
use super::error::{Error, Trouble, is_passing};

/// Maximum URL length of a GET request; longer queries use a POST form. GET is the default, because
/// some proxies allow only GET.
const LONGEST_ADDRESS: usize = 2000;
/// Maximum number of steps that Prometheus allows in a range query.
const MOST_STEPS: u64 = 11_000;
/// Bytes of a refusal that are looked at.
const MOST_SAID: usize = 64 << 10;
/// Characters of other people's text in an error.
const MOST_SHOWN: usize = 300;
/// Maximum size of a certificate file.
const AUTHORITY_BYTES: u64 = 4 << 20;

/// Time range and resolution of a range query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: Timestamp,
    /// Inclusive end of the range.
    pub end: Timestamp,
    /// Time between two values.
    pub step: Duration,
}

impl Range {
    fn check(&self) -> Result<(), Error> {
        let span = self.end.duration_since(self.start);
        let is_right = !span.is_negative()
            && !self.step.is_zero()
            && span.unsigned_abs().as_nanos() / self.step.as_nanos() < u128::from(MOST_STEPS);
        match is_right {
            true => Ok(()),
            false => {
                let Self { start, end, step } = *self;
                Err(Error::BadRange { start, end, step, most: MOST_STEPS })
            }
        }
    }
}

/// A client of one Prometheus. Clones are cheap and share a connection pool.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    http: reqwest::Client,
}

impl Client {
    /// Makes a client for an endpoint; does not connect yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, Error> {
        let bad = |reason: String| Error::BadEndpoint { url: endpoint.to_string(), reason };
        let mut builder = metier_fetch::client_builder()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(4)
            .default_headers(headers(&endpoint)?);
        if let Some(path) = &endpoint.authority {
            let bad = |reason: String| Error::BadAuthority { path: path.clone(), reason };
            let mut pem = Vec::new();
            let read = std::fs::File::open(path).and_then(|file| {
                std::io::Read::read_to_end(&mut std::io::Read::take(file, AUTHORITY_BYTES), &mut pem)
            });
            read.map_err(|error| bad(error.to_string()))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| bad(reason_of(&error)))?;
            if certificates.is_empty() {
                return Err(bad("there is no certificate in it".to_string()));
            }
            builder = builder.tls_certs_only(certificates);
        }
        if endpoint.accept_any_certificate {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        let http = builder.build().map_err(|error| bad(reason_of(&error)))?;
        Ok(Self { endpoint, http })
    }

    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Evaluates an expression at one time, by default now.
    pub async fn instant(&self, expression: &str, at: Option<Timestamp>) -> Result<Answer, Error> {
        let mut pairs = vec![("query", expression.to_string())];
        pairs.extend(at.map(|at| ("time", seconds(at))));
        let asked = format!("the query {:?}", cut(expression));
        self.answer("query", pairs, asked).await
    }

    /// Evaluates an expression over a time range.
    pub async fn range(&self, expression: &str, range: Range) -> Result<Answer, Error> {
        range.check()?;
        let pairs = vec![
            ("query", expression.to_string()),
            ("start", seconds(range.start)),
            ("end", seconds(range.end)),
            ("step", format!("{}", range.step.as_secs_f64())),
        ];
        let asked = format!("the range query {:?}", cut(expression));
        self.answer("query_range", pairs, asked).await
    }

    /// The series that match a selector between two times.
    pub async fn series(
        &self,
        selector: &str,
        start: Timestamp,
        end: Timestamp,
    ) -> Result<Vec<Metric>, Error> {
        let pairs = vec![("match[]", selector.to_string()), ("start", seconds(start)), ("end", seconds(end))];
        self.list("series", pairs, format!("the series of {:?}", cut(selector))).await
    }

    /// All values of a label; `__name__` gives all metric names.
    pub async fn label_values(&self, label: &str) -> Result<Vec<String>, Error> {
        let asked = format!("the values of label {:?}", cut(label));
        if !crate::is_label_name(label) {
            let what = "not a label name; want letters, digits and underscores".to_string();
            return Err(self.no_answer(&asked, Trouble::Malformed { what }));
        }
        self.list(&format!("label/{label}/values"), Vec::new(), asked).await
    }

    async fn answer(&self, part: &str, pairs: Pairs, asked: String) -> Result<Answer, Error> {
        let body = self.body(part, &pairs, &asked).await?;
        Answer::read(body).map_err(|what| self.malformed(&asked, &what))
    }

    async fn list<T: DeserializeOwned>(&self, part: &str, pairs: Pairs, asked: String) -> Result<T, Error> {
        let body = self.body(part, &pairs, &asked).await?;
        let envelope = envelope(&body).map_err(|what| self.malformed(&asked, &what))?;
        Ok(envelope.data)
    }

    fn malformed(&self, asked: &str, what: &serde_json::Error) -> Error {
        self.no_answer(asked, Trouble::Malformed { what: cut(&what.to_string()) })
    }

    fn no_answer(&self, asked: &str, trouble: Trouble) -> Error {
        Error::NoAnswer { url: self.endpoint.to_string(), asked: asked.to_string(), trouble }
    }

    /// Fetches a response body, with retries until the limits are reached.
    async fn body(&self, part: &str, pairs: &Pairs, asked: &str) -> Result<Vec<u8>, Error> {
        let bounds = &self.endpoint.bounds;
        let end = Instant::now() + bounds.time;
        let mut tries = 0;
        let trouble = loop {
            tries += 1;
            let late = Trouble::Late { after: bounds.time };
            let Ok(tried) = timeout_at(end, self.attempt(part, pairs, tries)).await else { break late };
            let (trouble, wish) = match tried {
                Ok(body) => return Ok(body),
                Err(failure) => failure,
            };
            if !trouble.may_pass() || tries >= bounds.tries {
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
        Err(self.no_answer(asked, trouble))
    }

    /// One attempt. A failure includes the delay that the server requested.
    async fn attempt(
        &self,
        part: &str,
        pairs: &Pairs,
        tries: u32,
    ) -> Result<Vec<u8>, (Trouble, Option<Duration>)> {
        let mut url = self.endpoint.part(part);
        let written: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let request = if written.len() + url.as_str().len() < LONGEST_ADDRESS {
            url.set_query((!written.is_empty()).then_some(written.as_str()));
            self.http.get(url)
        } else {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            self.http.post(url).header(CONTENT_TYPE, form).body(written)
        };
        let response = request.send().await.map_err(|error| (unreached(reason_of(&error), tries), None))?;
        let status = response.status();
        if status.is_success() {
            let most = self.endpoint.bounds.body_bytes;
            return read_body(response, most).await.map_err(|error| match error {
                BodyError::Broken { reason, .. } => (unreached(cut(&reason), tries), None),
                _ => (Trouble::TooLarge { most }, None),
            });
        }
        let code = status.as_u16();
        let wish =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let to = response.headers().get(reqwest::header::LOCATION).and_then(|to| to.to_str().ok());
        let said = match to.filter(|_| status.is_redirection()) {
            Some(to) => format!("it sends us to {}; name that address if it is meant", place(to)),
            None => said(&read_beginning(response, MOST_SAID).await),
        };
        let wish = wish.filter(|_| is_passing(code)).map(Duration::from_secs);
        Err((Trouble::Refused { status: code, said, tries }, wish))
    }
}

/// Names and values of query parameters.
type Pairs = Vec<(&'static str, String)>;

fn headers(endpoint: &Endpoint) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let bad = |reason: String| Error::BadEndpoint { url: endpoint.to_string(), reason };
    for (name, value) in &endpoint.headers {
        let known = HeaderName::try_from(name.as_str())
            .map_err(|_| bad(format!("{:?} is not a header name", cut(name))))?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            bad(format!("the value of header {known} has characters that a header cannot carry"))
        })?;
        value.set_sensitive(true);
        headers.append(known, value);
    }
    let shown = match &endpoint.credentials {
        Credentials::None => return Ok(headers),
        Credentials::Bearer(token) => format!("Bearer {}", token.trim()),
        Credentials::Basic(user, password) => {
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

/// What a refusal says: Prometheus' own words, or the first line of whatever it is.
fn said(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(rename = "errorType")]
        sort: Option<String>,
        error: String,
    }
    if let Ok(refusal) = serde_json::from_slice::<Refusal>(body) {
        return match refusal.sort {
            Some(sort) => cut(&format!("{sort}: {}", refusal.error)),
            None => cut(&refusal.error),
        };
    }
    let text = String::from_utf8_lossy(body);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    cut(first)
}

fn unreached(reason: String, tries: u32) -> Trouble {
    match reason.contains("certificate") {
        // A certificate error will not disappear on a retry.
        true => Trouble::Untrusted { reason },
        false => Trouble::Unreachable { reason, tries },
    }
}

fn reason_of(error: &reqwest::Error) -> String {
    cut(&failure_reason(error))
}

/// A remote address without parts that may be secret.
fn place(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) => cut(&format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())),
        Err(_) => cut(address.split('?').next().unwrap_or_default()),
    }
}

fn seconds(at: Timestamp) -> String {
    let millis = at.as_millisecond();
    format!(
        "{}{}.{:03}",
        if millis < 0 { "-" } else { "" },
        millis.unsigned_abs() / 1000,
        millis.unsigned_abs() % 1000
    )
}

/// Remote text, truncated and on one line.
fn cut(text: &str) -> String {
    let flat = |c: char| if c.is_control() { ' ' } else { c };
    let mut cut: String = text.chars().take(MOST_SHOWN).map(flat).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        cut.push('…');
    }
    cut
}
