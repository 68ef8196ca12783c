//! Access control: the access rule of each path, and the size of bodies.

use axum::http::{HeaderMap, StatusCode, header};

use crate::http::config::{HttpConfig, OPEN_INTERFACES};
use crate::http::credentials::{self, ApiDialect, api_dialect};
use crate::http::peer_user::ConnectionEnds;
use crate::http::problem::{FieldError, ProblemDetails};

/// Access rule of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// Holds no data: health, and the page's own files, which ask for the token themselves.
    Open,
    /// Open to all on a loopback address; elsewhere needs the token, unless the interface was
    /// opened by name.
    Interface(&'static str),
    /// Belongs to the user of the server, and to the holder of the token.
    Api,
}

/// The access rule of a path. It depends on the path alone, so that no new route can omit it.
pub fn route_access(path: &str) -> RouteAccess {
    match path {
        "/metrics" => RouteAccess::Interface("metrics"),
        "/api/profiling" => RouteAccess::Interface("soprano"),
        "/upload" => RouteAccess::Api,
        "/model" | "/best-models" | "/models" | "/reload" => RouteAccess::Interface("models"),
        // Never opened by name: off loopback a trainer needs the token.
        "/train" | "/jobs" => RouteAccess::Interface("trainer"),
        _ if path.starts_with("/jobs/") => RouteAccess::Interface("trainer"),
        _ if path == "/api" || path.starts_with("/api/") => RouteAccess::Api,
        _ if api_dialect(path) == ApiDialect::Jenkins => RouteAccess::Api,
        _ => RouteAccess::Open,
    }
}

/// Whether a path says if the server lives; it responds also where requests have no place.
pub fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Checks a caller's access to a path.
pub fn authorise(
    config: &HttpConfig,
    path: &str,
    headers: &HeaderMap,
    line: Option<&ConnectionEnds>,
) -> Result<(), ProblemDetails> {
    match route_access(path) {
        RouteAccess::Open => Ok(()),
        RouteAccess::Interface(door) if config.is_open(door) => Ok(()),
        RouteAccess::Interface(door) => {
            credentials::identify_reader(config, path, headers, line).map(drop).map_err(|mut problem| {
                if OPEN_INTERFACES.contains(&door) {
                    problem.detail.push_str(&format!(", or start the server with `--open {door}`"));
                }
                problem
            })
        }
        RouteAccess::Api => credentials::identify_reader(config, path, headers, line).map(drop),
    }
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
    use crate::routes::ROUTES;

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
            (&HttpConfig::default(), "/api/v1/runs", &none, false),
            (&HttpConfig::default(), "/metrics", &none, true),
            (&near, "/api/v1/runs", &none, false),
            (&near, "/api/v1/runs", &wrong, false),
            (&near, "/api/v1/runs", &right, true),
            (&near, "/api/unknown", &none, false),
            (&near, "/", &none, true),
            (&near, "/metrics", &none, true),
            (&far, "/healthz", &none, true),
            (&far, "/readyz", &wrong, true),
            (&far, "/", &none, true),
            (&far, "/assets/index.js", &none, true),
            (&far, "/openapi.json", &none, true),
            (&far, "/metrics", &none, false),
            (&far, "/metrics", &right, true),
            (&near, "/api/profiling", &none, true),
            (&far, "/api/profiling", &none, false),
            (&far, "/api/profiling", &right, true),
            (&near, "/upload", &none, false),
            (&opened, "/metrics", &none, true),
            (&near, "/best-models", &none, true),
            (&far, "/best-models", &none, false),
            (&far, "/best-models", &right, true),
            (&near, "/jobs/1", &none, true),
            (&far, "/jobs/1", &none, false),
            (&far, "/train", &right, true),
            (&opened, "/api/v1/runs", &none, false),
        ] {
            assert_eq!(authorise(config, path, headers, None).is_ok(), want, "{} {path}", config.listen);
        }
        assert!(authorise(&near, "/api/", &authorization("bearer 0123456789abcdef"), None).is_ok());
        for odd in
            ["Bearer", "Basic 0123456789abcdef", "Bearer  ", "0123456789abcdef", "Bearer0123456789abcdef"]
        {
            assert!(authorise(&near, "/api/", &authorization(odd), None).is_err(), "{odd}");
        }
    }

    #[test]
    fn only_routes_without_data_are_open() {
        let open: Vec<&str> = ROUTES
            .iter()
            .map(|route| route.path)
            .filter(|path| route_access(path) == RouteAccess::Open)
            .collect();
        assert_eq!(open, ["/healthz", "/readyz", "/openapi.json", "/"]);
    }
}
