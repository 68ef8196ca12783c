//! Permission to start or end a run: the credentials of the server's user
//! ([`crate::http::credentials`]), from no foreign web page.
//!
//! A foreign web page must not start runs through a local browser. A request that comes from
//! another site is refused, whatever its credentials. Browsers report the site in `Origin` and
//! `Sec-Fetch-Site`, which pages cannot change.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use crate::http::config::HttpConfig;
use crate::http::credentials::{self, KnownCaller};
use crate::http::peer_user::ConnectionEnds;
use crate::http::problem::{FieldError, ProblemDetails};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks whether a caller may start or end a run.
pub fn authorise_start(
    config: &HttpConfig,
    path: &str,
    headers: &HeaderMap,
    line: Option<&ConnectionEnds>,
) -> Result<KnownCaller, ProblemDetails> {
    check_same_site(headers)?;
    credentials::identify_owner(config, path, headers, line)
}

/// Refuses requests that a page of another site caused.
fn check_same_site(headers: &HeaderMap) -> Result<(), ProblemDetails> {
    let refused = |field: &str, got: &str| {
        let errors = vec![FieldError::new(field, got, "a request of this server's own page, or of no page")];
        Err(ProblemDetails::fields(StatusCode::FORBIDDEN, errors))
    };
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    for site in headers.get_all(FETCH_SITE).iter().map(text) {
        if !matches!(site.as_str(), "same-origin" | "none") {
            return refused("Sec-Fetch-Site", &site);
        }
    }
    let host = headers.get(header::HOST).map(text).unwrap_or_default();
    for origin in headers.get_all(header::ORIGIN).iter().map(text) {
        let named = origin.split_once("://").map_or("", |(_, rest)| rest);
        if named.is_empty() || !named.eq_ignore_ascii_case(&host) {
            return refused("Origin", &origin);
        }
    }
    Ok(())
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

    #[test]
    fn a_page_of_another_site_is_refused_even_with_the_token() {
        let config =
            HttpConfig { start_token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() };
        let bearer = format!("Bearer {TOKEN}");
        let own = [("authorization", bearer.as_str()), ("host", "localhost:7001")];
        for (name, value, want) in [
            ("origin", "http://localhost:7001", 200),
            ("origin", "http://LOCALHOST:7001", 200),
            ("origin", "http://evil.example", 403),
            ("origin", "http://localhost:7002", 403),
            ("origin", "null", 403),
            ("sec-fetch-site", "same-origin", 200),
            ("sec-fetch-site", "none", 200),
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "same-site", 403),
        ] {
            let lines: Vec<_> = own.iter().copied().chain([(name, value)]).collect();
            assert_eq!(status(&config, "/api/v1/sessions", &lines), want, "{name}: {value}");
        }
    }
}
