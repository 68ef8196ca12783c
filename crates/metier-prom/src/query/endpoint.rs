//! Address, credentials and limits of a Prometheus endpoint.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;

use super::error::QueryError;

#[derive(Clone, Default)]
pub enum PromCredentials {
    #[default]
    None,
    /// A bearer token.
    Bearer(String),
    /// User and password of basic authentication.
    Basic(String, String),
}

impl fmt::Debug for PromCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer(…)",
            Self::Basic(..) => "Basic(…)",
        })
    }
}

/// Limits of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryLimits {
    /// Maximum time of a query, with all attempts.
    pub time: Duration,
    /// Maximum number of attempts.
    pub tries: u32,
    /// Delay before the second attempt; it doubles each time.
    pub pause: Duration,
    /// Maximum size of a response in bytes.
    pub body_bytes: u64,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            tries: 4,
            pause: Duration::from_millis(100),
            body_bytes: 64 << 20,
        }
    }
}

/// A Prometheus endpoint, parsed from its address: `https://host:port/prefix`, or `host:port` for
/// plain HTTP.
///
/// A user and a password in the address become [`PromCredentials::Basic`]; the displayed address
/// has neither.
#[derive(Clone)]
pub struct PromEndpoint {
    base: Url,
    /// Credentials for the endpoint.
    pub credentials: PromCredentials,
    /// Extra request headers, such as a tenant id (`X-Scope-OrgID`); their values are never shown.
    pub headers: Vec<(String, String)>,
    /// PEM file of the only accepted root certificates; by default, the roots of this host are
    /// used.
    pub authority: Option<PathBuf>,
    /// Accept any certificate. An attacker on the network can then read and change all traffic.
    pub accept_any_certificate: bool,
    /// Limits of a query.
    pub bounds: QueryLimits,
}

const WANTED_ADDRESS: &str = "http://HOST:PORT or https://HOST:PORT, with or without a path, or HOST:PORT";
const MAX_ADDRESS_BYTES: usize = 2048;

impl FromStr for PromEndpoint {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let text = text.trim();
        let bad = || QueryError::BadAddress { got: redact_secrets(text), want: WANTED_ADDRESS };
        if text.is_empty() || text.len() > MAX_ADDRESS_BYTES {
            return Err(bad());
        }
        let parsed = match text.contains("://") {
            true => Url::parse(text),
            false => Url::parse(&format!("http://{text}")),
        };
        let mut base = parsed.map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() || base.fragment().is_some() {
            return Err(bad());
        }
        let credentials = match (base.username(), base.password()) {
            ("", None) => PromCredentials::None,
            (user, password) => {
                PromCredentials::Basic(percent_decode(user), percent_decode(password.unwrap_or_default()))
            }
        };
        base.set_username("").and_then(|()| base.set_password(None)).map_err(|()| bad())?;
        // A path is a prefix of the API paths.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Ok(Self {
            base,
            credentials,
            headers: Vec::new(),
            authority: None,
            accept_any_certificate: false,
            bounds: QueryLimits::default(),
        })
    }
}

impl PromEndpoint {
    /// URL of an API method, such as `query`.
    pub(super) fn api_url(&self, name: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}api/v1/{name}", self.base.path()));
        url
    }
}

impl fmt::Display for PromEndpoint {
    /// The address without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for PromEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("base", &self.base.as_str())
            .field("credentials", &self.credentials)
            .field("headers", &names)
            .field("authority", &self.authority)
            .field("accept_any_certificate", &self.accept_any_certificate)
            .field("bounds", &self.bounds)
            .finish()
    }
}

/// Removes everything before `@` and after `?` from a text that may be an address.
fn redact_secrets(text: &str) -> String {
    let shown: String = text.chars().take(200).collect();
    let shown = shown.split('?').next().unwrap_or_default();
    match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        _ => shown.to_string(),
    }
}

/// Decodes percent escapes of a user or password.
fn percent_decode(text: &str) -> String {
    // A plus sign is literal here, unlike in a form.
    let text = text.replace('+', "%2B");
    form_urlencoded::parse(text.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_url_with_a_prefix_or_host_and_port() {
        for (text, part) in [
            ("127.0.0.1:9090", "http://127.0.0.1:9090/api/v1/query"),
            ("prometheus.monitoring.svc:9090", "http://prometheus.monitoring.svc:9090/api/v1/query"),
            ("localhost", "http://localhost/api/v1/query"),
            ("https://example.org/prom/", "https://example.org/prom/api/v1/query"),
            ("http://[::1]:9090/a/b", "http://[::1]:9090/a/b/api/v1/query"),
        ] {
            assert_eq!(text.parse::<PromEndpoint>().unwrap().api_url("query").as_str(), part);
        }
        let too_long = format!("http://{}", "x".repeat(3000));
        for wrong in ["", "ftp://host", "http://", "host:99999", "http://h/?a=b", &too_long] {
            let error = wrong.parse::<PromEndpoint>().unwrap_err().to_string();
            assert!(error.contains("want http://HOST:PORT"), "{wrong}: {error}");
        }
    }

    #[test]
    fn secrets_of_an_address_are_used_and_never_shown() {
        let endpoint: PromEndpoint = "https://me:hunt%3A%2Ber+2@host:1/x".parse().unwrap();
        assert!(
            matches!(&endpoint.credentials, PromCredentials::Basic(user, word) if user == "me" && word == "hunt:+er+2")
        );
        let mut endpoint = endpoint;
        endpoint.headers.push(("X-Key".into(), "hunter3".into()));
        let shown = format!("{endpoint} {endpoint:?}");
        assert!(shown.starts_with("https://host:1/x ") && !shown.contains("hunt"), "{shown}");
        for wrong in ["ftp://me:hunter2@host", "me:hunter2@host:99999", "http://h/?token=hunter2"] {
            let error = wrong.parse::<PromEndpoint>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
