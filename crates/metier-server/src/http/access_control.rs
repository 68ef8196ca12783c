//! Access control: the `Host` header on a loopback address, the access rule of each path, and the
//! size of bodies.

use std::net::SocketAddr;

use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::http::config::HttpConfig;
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
        _ if path == "/api" || path.starts_with("/api/") => RouteAccess::Api,
        _ if api_dialect(path) == ApiDialect::Jenkins => RouteAccess::Api,
        _ => RouteAccess::Open,
    }
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
                problem.detail.push_str(&format!(", or start the server with `--open {door}`"));
                problem
            })
        }
        RouteAccess::Api => credentials::identify_reader(config, path, headers, line).map(drop),
    }
}

/// On a loopback address, refuses host names that do not mean this machine.
///
/// A foreign web page can resolve its own name to 127.0.0.1 and then read responses as its own
/// ("DNS rebinding"); its requests still carry that name. On other addresses the token protects,
/// and a host may have many names.
pub fn check_host(
    config: &HttpConfig,
    listen: SocketAddr,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), ProblemDetails> {
    if !config.is_loopback() {
        return Ok(());
    }
    let mut named = headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
        (None, _) => {
            let errors = vec![FieldError::absent("Host", expected_host(listen))];
            return Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, errors));
        }
        (Some(_), Some(_)) => return Err(ProblemDetails::bad_field("Host", "several", "one Host header")),
    };
    let known = |name: &str| is_known_host(config, listen, name);
    if known(&host) && uri.authority().is_none_or(|authority| known(authority.as_str())) {
        return Ok(());
    }
    let errors = vec![FieldError::new("Host", &host, expected_host(listen))];
    Err(ProblemDetails::fields(StatusCode::MISDIRECTED_REQUEST, errors))
}

fn expected_host(listen: SocketAddr) -> String {
    format!("localhost, 127.0.0.1, [::1] or {} with any port", listen.ip())
}

fn is_known_host(config: &HttpConfig, listen: SocketAddr, host: &str) -> bool {
    let (name, port) = match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
        Some(at) => (&host[..at], Some(&host[at + 1..])),
        None => (host, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    let address = match listen {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    ["localhost", "127.0.0.1", "[::1]", &address]
        .into_iter()
        .chain(config.hosts.iter().map(String::as_str))
        .any(|known| known.eq_ignore_ascii_case(name))
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

    fn host(value: &str) -> Result<(), ProblemDetails> {
        let config = HttpConfig { hosts: vec!["lab.example".into()], ..HttpConfig::default() };
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(value).unwrap())]);
        check_host(&config, "127.0.0.2:7001".parse().unwrap(), &Uri::from_static("/"), &headers)
    }

    #[test]
    fn only_names_of_this_machine_are_answered_on_loopback() {
        for good in [
            "localhost",
            "LocalHost:9",
            "127.0.0.1:7001",
            "[::1]",
            "[::1]:80",
            "127.0.0.2:7001",
            "lab.example",
        ] {
            assert!(host(good).is_ok(), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7001",
            "127.0.0.3",
            "::1",
            "",
            "localhost:evil",
            "localhost:99999",
            "[::1].evil",
            "[::1",
            "user@localhost",
        ] {
            assert_eq!(host(bad).unwrap_err().status, 421, "{bad}");
        }
    }

    #[test]
    fn a_foreign_name_in_the_request_line_is_refused_too() {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        let uri = Uri::from_static("http://evil.example/api/v1/runs");
        let listen = "127.0.0.1:7001".parse().unwrap();
        assert!(check_host(&HttpConfig::default(), listen, &uri, &headers).is_err());
    }

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

    proptest::proptest! {
        #[test]
        fn no_name_beside_ours_is_taken_for_ours(name in "[a-z0-9.:@\\[\\]%-]{0,30}") {
            let ours = ["localhost", "127.0.0.1", "127.0.0.2", "[::1]", "lab.example"];
            let is_ours = ours.iter().any(|known| {
                name.strip_prefix(known).is_some_and(|rest| {
                    rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
                })
            });
            assert_eq!(host(&name).is_ok(), is_ours, "{name}");
        }
    }
}
