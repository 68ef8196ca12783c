//! Credentials of a request: the token, or a process of a permitted user on this machine.
//!
//! - The token is sent as `Authorization: Bearer TOKEN`; the Jenkins-compatible interface also
//!   accepts it as the password of basic authentication. It is never taken from a URL, since URLs
//!   are logged.
//! - Without a token, the peer must have a loopback address and be a process of the server's own
//!   user ([`crate::http::peer_user`]); root may read, too. No proxy may have forwarded the
//!   request: the proxy's user is not the user behind it.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use base64::Engine as _;

use crate::http::config::HttpConfig;
use crate::http::peer_user::{ConnectionEnds, peer_user};
use crate::http::problem::{FieldError, ProblemDetails};

/// Headers that a proxy adds.
const PROXY_HEADERS: [HeaderName; 5] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];
const ROOT: u32 = 0;

/// The authentication dialect of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiDialect {
    Own,
    Jenkins,
}

/// The authentication dialect of a path.
pub fn api_dialect(path: &str) -> ApiDialect {
    let first = path.split('/').nth(1).unwrap_or_default();
    if matches!(first, "job" | "queue" | "crumbIssuer") { ApiDialect::Jenkins } else { ApiDialect::Own }
}

/// Credentials of a request.
pub struct PresentedToken {
    /// The token, valid or not.
    pub token: Vec<u8>,
    /// The user name beside it, if any.
    pub user: Option<String>,
}

/// The token of a request: after `Bearer`, and in the Jenkins dialect as the password of basic
/// authentication.
pub fn presented_token(door: ApiDialect, headers: &HeaderMap) -> Option<PresentedToken> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = (&value[..at], value[at..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(PresentedToken { token: rest.to_vec(), user: None });
    }
    if door != ApiDialect::Jenkins || !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = base64::engine::general_purpose::STANDARD.decode(rest).ok()?;
    let at = pair.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8_lossy(&pair[..at]);
    let user: String = user.chars().filter(|c| !c.is_control()).take(100).collect();
    Some(PresentedToken { token: pair[at + 1..].to_vec(), user: (!user.is_empty()).then_some(user) })
}

/// A caller whose credentials were accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCaller {
    /// The user name in the credentials or of the process.
    pub user: Option<String>,
}

/// The caller, if it may read what belongs to the server's user.
pub fn identify_reader(
    config: &HttpConfig,
    path: &str,
    headers: &HeaderMap,
    line: Option<&ConnectionEnds>,
) -> Result<KnownCaller, ProblemDetails> {
    identify_caller(config, path, headers, line, |user| user == own_user() || user == ROOT)
}

/// The caller, if it may act for the server's user.
pub fn identify_owner(
    config: &HttpConfig,
    path: &str,
    headers: &HeaderMap,
    line: Option<&ConnectionEnds>,
) -> Result<KnownCaller, ProblemDetails> {
    identify_caller(config, path, headers, line, |user| user == own_user())
}

fn identify_caller(
    config: &HttpConfig,
    path: &str,
    headers: &HeaderMap,
    line: Option<&ConnectionEnds>,
    is_permitted: fn(u32) -> bool,
) -> Result<KnownCaller, ProblemDetails> {
    let dialect = api_dialect(path);
    let refuse = |why: &str| Err(refuse_caller(dialect, headers, why));
    let token = config.token.as_ref().or(config.start_token.as_ref());
    if headers.contains_key(header::AUTHORIZATION) {
        return match presented_token(dialect, headers) {
            Some(shown) if token.is_some_and(|token| token.matches(&shown.token)) => {
                Ok(KnownCaller { user: shown.user })
            }
            // A wrong token is always refused, even from this machine's own user.
            _ => refuse("the token that was shown is not the server's"),
        };
    }
    // If the server has a token, every caller needs it.
    if config.token.is_some() {
        return refuse("this needs the server's token");
    }
    if let Some(name) = PROXY_HEADERS.iter().find(|name| headers.contains_key(*name)) {
        return refuse(&format!("this came by way of a proxy ({name}) and needs the token"));
    }
    match line.and_then(peer_user) {
        Some(user) if is_permitted(user) => {
            Ok(KnownCaller { user: (user == own_user()).then(login_name).flatten() })
        }
        _ => refuse("this needs the token unless it comes over loopback from the user that runs the server"),
    }
}

fn refuse_caller(dialect: ApiDialect, headers: &HeaderMap, why: &str) -> ProblemDetails {
    let (want, challenge) = match dialect {
        ApiDialect::Jenkins => (
            "basic authentication with any user and the server's token as password",
            "Basic realm=\"metier\"",
        ),
        ApiDialect::Own => ("Bearer and the server's token", "Bearer"),
    };
    let got = headers.contains_key(header::AUTHORIZATION).then(|| "another value".to_string());
    let error = FieldError { field: "Authorization".into(), got, want: want.into(), line: None };
    let detail = format!(
        "{why}; send `Authorization`: {want}; `metier token` on the server's machine prints it, unless the server was started with another"
    );
    ProblemDetails::new(StatusCode::UNAUTHORIZED, detail)
        .with_errors(vec![error])
        .with_header(header::WWW_AUTHENTICATE, challenge)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of the user that runs the server.
fn login_name() -> Option<String> {
    ["LOGNAME", "USER"].into_iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
}
