//! Access control: what a path needs, the token, and the size of bodies.

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;

use crate::http::config::HttpConfig;
use crate::http::problem::{FieldError, ProblemDetails};

/// Access rule of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    Open,
    /// Open to all on a loopback address; elsewhere needs the token, unless the interface was
    /// opened by name.
    Interface(&'static str),
    /// Open to all without a token; else needs the token.
    Api,
}

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

/// The access rule of a path. It depends on the path alone, so that no new route can omit it.
pub fn route_access(path: &str) -> RouteAccess {
    match path {
        "/healthz" | "/readyz" => RouteAccess::Open,
        "/metrics" => RouteAccess::Interface("metrics"),
        "/api/profiling" => RouteAccess::Interface("soprano"),
        "/upload" => RouteAccess::Api,
        "/model" | "/best-models" | "/models" | "/reload" => RouteAccess::Interface("models"),
        // Never opened by name: off loopback a trainer needs the token.
        "/train" | "/jobs" => RouteAccess::Interface("trainer"),
        _ if path.starts_with("/jobs/") => RouteAccess::Interface("trainer"),
        _ if path == "/api" || path.starts_with("/api/") => RouteAccess::Api,
        _ if api_dialect(path) == ApiDialect::Jenkins => RouteAccess::Api,
        _ => RouteAccess::Interface("page"),
    }
}

/// Checks a caller's access; `Ok(true)` if it may also see details of this machine.
pub fn authorise(config: &HttpConfig, path: &str, headers: &HeaderMap) -> Result<bool, ProblemDetails> {
    let is_trusted = match &config.token {
        None => true,
        Some(token) => {
            presented_token(api_dialect(path), headers).is_some_and(|shown| token.matches(&shown.token))
        }
    };
    let is_let_in = match route_access(path) {
        RouteAccess::Open => true,
        RouteAccess::Interface(door) => is_trusted || config.is_open(door),
        RouteAccess::Api => is_trusted,
    };
    if is_let_in {
        return Ok(is_trusted);
    }
    let detail = match route_access(path) {
        RouteAccess::Interface(door) => format!(
            "this needs the server's token; send it as `Authorization: Bearer TOKEN`, or start the server with `--open {door}`"
        ),
        _ if api_dialect(path) == ApiDialect::Jenkins => {
            "this needs the server's token; send it as the password of basic authentication, with any user"
                .to_string()
        }
        _ => "this needs the server's token; send it as `Authorization: Bearer TOKEN`".to_string(),
    };
    let got = headers.contains_key(header::AUTHORIZATION).then(|| "another value".to_string());
    let error = FieldError {
        field: "Authorization".into(),
        got,
        want: match api_dialect(path) {
            ApiDialect::Own => "Bearer and the server's token".into(),
            ApiDialect::Jenkins => "Basic, with any user and the server's token as password".into(),
        },
        line: None,
    };
    let problem = ProblemDetails::new(StatusCode::UNAUTHORIZED, detail).with_errors(vec![error]);
    Err(problem.with_header(
        header::WWW_AUTHENTICATE,
        match api_dialect(path) {
            ApiDialect::Own => "Bearer",
            ApiDialect::Jenkins => "Basic realm=\"metier\"",
        },
    ))
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

/// Refuses a body whose declared length exceeds the limit; without a length, reading stops at the
/// limit.
pub fn check_length(most: u64, headers: &HeaderMap) -> Result<(), ProblemDetails> {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > most => {
            let want = format!("at most {most} bytes");
            let errors = vec![FieldError::new("Content-Length", &length.to_string(), want)];
            Err(ProblemDetails::fields(StatusCode::PAYLOAD_TOO_LARGE, errors))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::http::config::AccessToken;

    #[test]
    fn the_token_is_needed_where_the_rules_say() {
        let token = Some(AccessToken::new("0123456789abcdef").unwrap());
        let none = HeaderMap::new();
        let authorization = |value: &'static str| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))])
        };
        let right = authorization("Bearer 0123456789abcdef");
        let wrong = authorization("Bearer 0123456789abcdeX");
        let near = HttpConfig { token: token.clone(), ..HttpConfig::default() };
        let far = HttpConfig { listen: "0.0.0.0:1".parse().unwrap(), ..near.clone() };
        let opened = HttpConfig { open: vec!["metrics".into()], ..far.clone() };
        for (config, path, headers, want) in [
            (&HttpConfig::default(), "/api/v1/runs", &none, Some(true)),
            (&near, "/api/v1/runs", &none, None),
            (&near, "/api/v1/runs", &wrong, None),
            (&near, "/api/v1/runs", &right, Some(true)),
            (&near, "/api/unknown", &none, None),
            (&near, "/", &none, Some(false)),
            (&near, "/metrics", &none, Some(false)),
            (&far, "/healthz", &none, Some(false)),
            (&far, "/readyz", &wrong, Some(false)),
            (&far, "/", &none, None),
            (&far, "/assets/index.js", &none, None),
            (&far, "/openapi.json", &none, None),
            (&far, "/metrics", &none, None),
            (&far, "/metrics", &right, Some(true)),
            (&near, "/api/profiling", &none, Some(false)),
            (&far, "/api/profiling", &none, None),
            (&far, "/api/profiling", &right, Some(true)),
            (&near, "/upload", &none, None),
            (&opened, "/metrics", &none, Some(false)),
            (&opened, "/", &none, None),
            (&opened, "/api/v1/runs", &none, None),
        ] {
            assert_eq!(authorise(config, path, headers).ok(), want, "{} {path}", config.listen);
        }
        assert!(authorise(&near, "/api/", &authorization("bearer 0123456789abcdef")).is_ok());
        for odd in
            ["Bearer", "Basic 0123456789abcdef", "Bearer  ", "0123456789abcdef", "Bearer0123456789abcdef"]
        {
            assert!(authorise(&near, "/api/", &authorization(odd)).is_err(), "{odd}");
        }
    }
}
