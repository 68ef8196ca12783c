//! The names by which this server may be addressed, in `Host` and `Origin`.
//!
//! A foreign web page can resolve its own name to an address of this server and then read
//! responses as its own ("DNS rebinding"); its requests still carry that name. On a loopback
//! address only names of this machine pass, on other addresses also IP addresses, which no page can
//! have without being served from there, this machine's names in its DNS domain, and the names that
//! a cluster's DNS gives to a service: `NAME`, `NAME.NAMESPACE`, `NAME.NAMESPACE.svc` and
//! `NAME.NAMESPACE.svc.cluster.local`. `NAME.NAMESPACE` passes with this pod's own namespace, since
//! `evil.example` looks the same. The namespace and the cluster's domain are those of
//! `/etc/resolv.conf`.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

use crate::http::config::HttpConfig;
use crate::http::problem::{FieldError, ProblemDetails};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Suffixes that only a cluster's DNS answers.
const CLUSTER_SUFFIXES: [&str; 2] = [".svc", ".svc.cluster.local"];

/// The names by which a server may be addressed.
#[derive(Debug, Clone)]
pub struct HostNames {
    listen: SocketAddr,
    is_loopback: bool,
    /// Names of the settings.
    named: Vec<String>,
    /// Names of this machine and in its cluster that pass on reachable addresses.
    own: Vec<String>,
    /// What names of services may end in, with the dot before it.
    suffixes: Vec<String>,
}

/// How a request names this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostVerdict {
    Known,
    /// A name that may be a foreign page's. It passes only where no browser can be misled.
    Unknown,
}

impl HostNames {
    /// The names for these settings on this machine.
    pub fn discover(config: &HttpConfig, listen: SocketAddr) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::new(config, listen, &read("/etc/resolv.conf"), read("/proc/sys/kernel/hostname").trim())
    }

    fn new(config: &HttpConfig, listen: SocketAddr, resolver: &str, hostname: &str) -> Self {
        let domains: Vec<&str> = resolver
            .lines()
            .filter_map(|line| line.strip_prefix("search ").or_else(|| line.strip_prefix("domain ")))
            .flat_map(str::split_ascii_whitespace)
            .map(|domain| domain.trim_end_matches('.'))
            .collect();
        let mut own: Vec<String> = domains.iter().map(|domain| format!("{hostname}.{domain}")).collect();
        own.extend([hostname.to_string(), format!("{hostname}.local")]);
        let mut suffixes: Vec<String> = CLUSTER_SUFFIXES.map(str::to_string).into();
        for domain in &domains {
            // A pod's first search domain is NAMESPACE.svc.DOMAIN.
            if let Some((namespace, rest)) = domain.split_once(".svc.")
                && !namespace.contains('.')
            {
                suffixes.extend([format!(".{namespace}"), format!(".svc.{rest}")]);
            }
        }
        Self { listen, is_loopback: config.is_loopback(), named: config.hosts.clone(), own, suffixes }
    }

    /// Checks the name in `Host` and in the request line.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<HostVerdict, ProblemDetails> {
        let mut named = headers.get_all(header::HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => header_text(host),
            (None, _) if self.is_loopback => {
                let errors = vec![FieldError::absent("Host", self.expected())];
                return Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, errors));
            }
            // Every browser sends one.
            (None, _) => return Ok(HostVerdict::Known),
            (Some(_), Some(_)) => {
                return Err(ProblemDetails::bad_field("Host", "several", "one Host header"));
            }
        };
        let is_known =
            self.is_known(&host) && uri.authority().is_none_or(|authority| self.is_known(authority.as_str()));
        match is_known {
            true => Ok(HostVerdict::Known),
            false if self.is_loopback => Err(self.refuse_host(&host)),
            false => Ok(HostVerdict::Unknown),
        }
    }

    /// The refusal of a request that names this server by an unknown name.
    pub fn refuse_host(&self, host: &str) -> ProblemDetails {
        let errors = vec![FieldError::new("Host", host, self.expected())];
        ProblemDetails::fields(StatusCode::MISDIRECTED_REQUEST, errors)
    }

    fn expected(&self) -> String {
        match self.is_loopback {
            true => {
                format!("localhost, 127.0.0.1, [::1] or {} with any port, or a --host NAME", self.listen.ip())
            }
            false => "an IP address, this machine's name, a cluster's name of this service, or a --host NAME"
                .to_string(),
        }
    }

    fn is_known(&self, host: &str) -> bool {
        let (name, port) = match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
            Some(at) => (&host[..at], Some(&host[at + 1..])),
            None => (host, None),
        };
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return false;
        }
        let address = match self.listen {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        let mut always = ["localhost", "127.0.0.1", "[::1]", &address]
            .into_iter()
            .chain(self.named.iter().map(String::as_str));
        always.any(|known| known.eq_ignore_ascii_case(name))
            || (!self.is_loopback && self.is_reachable_name(name))
    }

    /// Whether that is a name on an address that other machines reach.
    fn is_reachable_name(&self, name: &str) -> bool {
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if bare.parse::<IpAddr>().is_ok() {
            return true;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        name.split('.').all(is_label)
            && (!name.contains('.')
                || self.own.iter().any(|own| own.eq_ignore_ascii_case(&name))
                || self.suffixes.iter().any(|suffix| {
                    let before = name.strip_suffix(suffix.as_str());
                    // `.NAMESPACE` has one name before it; a service of it has further labels in
                    // `.svc`.
                    before.is_some_and(|before| suffix.starts_with(".svc") || !before.contains('.'))
                }))
    }

    /// Refuses changes that a page of another site caused. Browsers report the site in `Origin` and
    /// `Sec-Fetch-Site`, which pages cannot change.
    pub fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), ProblemDetails> {
        // The response to a mere read is withheld from the page by its browser.
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let refused = |field: &str, got: &str| {
            let errors =
                vec![FieldError::new(field, got, "a request of this server's own page, or of no page")];
            Err(ProblemDetails::fields(StatusCode::FORBIDDEN, errors))
        };
        for site in headers.get_all(FETCH_SITE).iter().map(header_text) {
            if !matches!(site.as_str(), "same-origin" | "none") {
                return refused("Sec-Fetch-Site", &site);
            }
        }
        let host = headers.get(header::HOST).map(header_text).unwrap_or_default();
        for origin in headers.get_all(header::ORIGIN).iter().map(header_text) {
            let named = origin.split_once("://").map_or("", |(_, rest)| rest);
            let name = named.rsplit_once(':').map_or(named, |(name, _)| name);
            let is_own = !named.is_empty()
                && (named.eq_ignore_ascii_case(&host)
                    || self.named.iter().any(|known| known.eq_ignore_ascii_case(name)));
            if !is_own {
                return refused("Origin", &origin);
            }
        }
        Ok(())
    }
}

fn header_text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "search kepler.svc.lab.internal svc.lab.internal lab.internal example.org\nnameserver 10.96.0.10\noptions ndots:5\n";

    fn names(listen: &str) -> HostNames {
        let listen = listen.parse().unwrap();
        let config = HttpConfig { listen, hosts: vec!["lab.example".into()], ..HttpConfig::default() };
        HostNames::new(&config, listen, POD, "node-1")
    }

    fn host(names: &HostNames, value: &str) -> Result<HostVerdict, ProblemDetails> {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(value).unwrap())]);
        names.check_host(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn only_names_of_this_machine_are_answered_on_loopback() {
        let names = names("127.0.0.2:7001");
        for good in [
            "localhost",
            "LocalHost:9",
            "127.0.0.1:7001",
            "[::1]",
            "[::1]:80",
            "127.0.0.2:7001",
            "lab.example",
        ] {
            assert!(host(&names, good).is_ok(), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7001",
            "127.0.0.3",
            "node-1",
            "models",
            "models.kepler.svc",
            "::1",
            "",
            "localhost:evil",
            "localhost:99999",
            "[::1].evil",
            "[::1",
            "user@localhost",
        ] {
            assert_eq!(host(&names, bad).unwrap_err().status, 421, "{bad}");
        }
    }

    #[test]
    fn names_of_a_cluster_are_answered_on_reachable_addresses() {
        let names = names("0.0.0.0:8100");
        for good in [
            "models:8100",
            "models.kepler",
            "models.other.svc:8100",
            "pod-0.models.kepler.svc",
            "kepler-model-server.kepler.svc.cluster.local:8100",
            "kepler-model-server.kepler.svc.cluster.local.",
            "models.kepler.svc.lab.internal",
            "10.1.2.3:8100",
            "[fd00::7]:8100",
            "NODE-1",
            "node-1.example.org:7003",
            "lab.example",
            "localhost",
        ] {
            assert_eq!(host(&names, good).unwrap(), HostVerdict::Known, "{good}");
        }
        for bad in [
            "evil.example",
            "models.other",
            "a.b.kepler",
            "evil.svc.example",
            "node-1.evil.example",
            "models.svc.evil",
            "ev il",
            ".svc",
            "",
        ] {
            assert_eq!(host(&names, bad).unwrap(), HostVerdict::Unknown, "{bad}");
        }
    }

    #[test]
    fn a_foreign_name_in_the_request_line_is_refused_too() {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        let uri = Uri::from_static("http://evil.example/api/v1/runs");
        assert!(names("127.0.0.1:7001").check_host(&uri, &headers).is_err());
        assert_eq!(names("0.0.0.0:1").check_host(&uri, &headers).unwrap(), HostVerdict::Unknown);
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let names = names("127.0.0.1:7001");
        for (name, value, want) in [
            ("origin", "http://localhost:7001", None),
            ("origin", "http://LOCALHOST:7001", None),
            ("origin", "https://lab.example", None),
            ("origin", "https://lab.example:8443", None),
            ("origin", "http://evil.example", Some(403)),
            ("origin", "http://localhost:7002", Some(403)),
            ("origin", "null", Some(403)),
            ("sec-fetch-site", "same-origin", None),
            ("sec-fetch-site", "none", None),
            ("sec-fetch-site", "cross-site", Some(403)),
            ("sec-fetch-site", "same-site", Some(403)),
        ] {
            let lines = [("host", "localhost:7001"), (name, value)];
            let headers: HeaderMap = lines
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            let got = names.check_origin(&Method::POST, &headers).err().map(|problem| problem.status);
            assert_eq!(got, want, "{name}: {value}");
            assert!(names.check_origin(&Method::GET, &headers).is_ok(), "a read: {value}");
        }
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
            assert_eq!(host(&names("127.0.0.2:7001"), &name).is_ok(), is_ours, "{name}");
        }
    }
}
