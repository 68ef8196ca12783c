//! Permission to start or end a run: a token, or a process of the server's own user on this
//! machine.
//!
//! - The token is sent as `Authorization: Bearer TOKEN`; the Jenkins-compatible interface also
//!   accepts it as the password of basic authentication. It is never taken from a URL, since URLs
//!   are logged.
//! - Without a token, the peer must have a loopback address and be a process of the server's own
//!   user ([`crate::http::peer_user`]). No proxy may have forwarded the request.
//!
//! A foreign web page must not start runs through a local browser: the gate refuses its requests
//! before, whatever their credentials ([`crate::http::host_names`]).

use std::path::Path;

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use crate::http::access_control::{self, ApiDialect};
use crate::http::config::HttpConfig;
use crate::http::gate::ConnectionEnds;
use crate::http::peer_user;
use crate::http::problem::{FieldError, ProblemDetails};

/// Headers that a proxy adds.
const PROXY_HEADERS: [HeaderName; 5] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];

/// Permission to start a run, with the user's name if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPermission {
    /// The user name in the credentials or of the process.
    pub user: Option<String>,
}

/// Checks whether a caller may start or end a run.
pub fn authorise_start(
    config: &HttpConfig,
    path: &str,
    headers: &HeaderMap,
    line: Option<&ConnectionEnds>,
) -> Result<StartPermission, ProblemDetails> {
    let door = access_control::api_dialect(path);
    let token = config.token.as_ref().or(config.start_token.as_ref());
    if headers.contains_key(header::AUTHORIZATION) {
        return match access_control::presented_token(door, headers) {
            Some(shown) if token.is_some_and(|token| token.matches(&shown.token)) => {
                Ok(StartPermission { user: shown.user })
            }
            // A wrong token is always refused, even from this machine's own user.
            _ => Err(refuse_start(door, headers, "the token that was shown is not the server's")),
        };
    }
    // If the server has a token, every caller needs it.
    if config.token.is_some() {
        return Err(refuse_start(door, headers, "this needs the server's token"));
    }
    if let Some(name) = PROXY_HEADERS.iter().find(|name| headers.contains_key(*name)) {
        return Err(refuse_start(
            door,
            headers,
            &format!("this came by way of a proxy ({name}) and needs the token"),
        ));
    }
    let ours = rustix::process::geteuid().as_raw();
    let user = line.and_then(|line| peer_user::peer_user(Path::new("/proc"), line.peer, line.local));
    match user {
        Some(user) if user == ours => Ok(StartPermission { user: login_name() }),
        _ => Err(refuse_start(
            door,
            headers,
            "this needs the token unless it comes over loopback from the user that runs the server",
        )),
    }
}

/// Checks for the token where this machine's own user needs it too.
pub fn authorise_token(config: &HttpConfig, path: &str, headers: &HeaderMap) -> Result<(), ProblemDetails> {
    let door = access_control::api_dialect(path);
    let token = config.token.as_ref().or(config.start_token.as_ref());
    let shown = access_control::presented_token(door, headers);
    match (token, shown) {
        (Some(token), Some(shown)) if token.matches(&shown.token) => Ok(()),
        (Some(_), _) => Err(refuse_start(door, headers, "this needs the server's token")),
        (None, _) => {
            let why = "this server has no token, so changes are refused; start it with METIER_TOKEN or --token-file";
            Err(ProblemDetails::new(StatusCode::UNAUTHORIZED, why)
                .with_errors(vec![FieldError::absent("Authorization", "Bearer and the server's token")])
                .with_header(header::WWW_AUTHENTICATE, "Bearer"))
        }
    }
}

fn refuse_start(door: ApiDialect, headers: &HeaderMap, why: &str) -> ProblemDetails {
    let (want, challenge) = match door {
        ApiDialect::Jenkins => {
            ("basic authentication with the token as the password", "Basic realm=\"metier\"")
        }
        ApiDialect::Own => ("Bearer and the server's token", "Bearer"),
    };
    let got = headers.contains_key(header::AUTHORIZATION).then(|| "another value".to_string());
    let error = FieldError { field: "Authorization".into(), got, want: want.into(), line: None };
    let detail = format!("{why}; `metier token` on the server's machine prints it");
    ProblemDetails::new(StatusCode::UNAUTHORIZED, detail)
        .with_errors(vec![error])
        .with_header(header::WWW_AUTHENTICATE, challenge)
}

/// The name of the user that runs the server.
fn login_name() -> Option<String> {
    ["LOGNAME", "USER"].into_iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::config::AccessToken;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn status(config: &HttpConfig, path: &str, lines: &[(&'static str, &str)]) -> u16 {
        match authorise_start(config, path, &headers(lines), None) {
            Ok(_) => 200,
            Err(problem) => problem.status,
        }
    }

    #[test]
    fn the_token_opens_each_door_in_its_own_way() {
        let config =
            HttpConfig { start_token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() };
        let bearer = format!("Bearer {TOKEN}");
        // ci:0123456789abcdef
        let basic = "Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg==";
        for (path, value, want) in [
            ("/api/v1/sessions", bearer.as_str(), 200),
            ("/api/v1/sessions", "Bearer 0123456789abcdeX", 401),
            ("/api/v1/sessions", basic, 401),
            ("/job/x/buildWithParameters", basic, 200),
            ("/job/x/buildWithParameters", &bearer, 200),
            ("/job/x/buildWithParameters", "Basic Y2k6MDEyMzQ1Njc4OWFiY2RlWA==", 401),
            ("/job/x/buildWithParameters", "Basic ????", 401),
            ("/job/x/buildWithParameters", "Basic", 401),
        ] {
            assert_eq!(status(&config, path, &[("authorization", value)]), want, "{path} {value}");
        }
        let job = "/job/x/buildWithParameters";
        let permission = authorise_start(&config, job, &headers(&[("authorization", basic)]), None).unwrap();
        assert_eq!(permission.user.as_deref(), Some("ci"));
        assert_eq!(status(&config, "/api/v1/sessions", &[]), 401, "an unknown caller is refused");
    }
}
