//! Access control: tokens, host names, addresses; and the headers of every response.

use crate::common::*;
use metier_server::{AccessToken, Error, HttpConfig};

const TOKEN: &str = "a-token-that-nobody-guesses";

fn with_token(listen: &str, open: &[&str]) -> HttpConfig {
    HttpConfig {
        listen: listen.parse().unwrap(),
        token: Some(AccessToken::new(TOKEN).unwrap()),
        open: open.iter().map(|door| door.to_string()).collect(),
        ..HttpConfig::default()
    }
}

#[test]
fn a_reachable_address_without_a_token_is_refused() {
    let (_folder, store) = store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let config = HttpConfig { listen: listen.parse().unwrap(), ..HttpConfig::default() };
        let result = runtime.block_on(metier_server::serve(
            config.into(),
            store.clone(),
            |address| panic!("listens on {address}"),
            std::future::pending(),
        ));
        assert!(matches!(result, Err(Error::NoToken { .. })), "{result:?}");
    }
}

#[test]
fn a_taken_port_is_told_with_the_address_and_the_way_out() {
    let (_folder, store) = store();
    let first = Server::start(&store);
    let config = HttpConfig { listen: first.address, ..HttpConfig::default() };
    let error =
        metier_server::run(config.into(), store.clone(), |_| panic!("cannot listen twice")).unwrap_err();
    assert!(matches!(error, Error::AddressInUse { .. }));
    let text = error.to_string();
    assert!(text.contains(&first.address.to_string()) && text.contains("--listen 127.0.0.1:PORT"), "{text}");
}

#[test]
fn an_address_that_is_not_ours_is_a_clear_error() {
    let (_folder, store) = store();
    let error =
        metier_server::run(with_token("192.0.2.1:7001", &[]).into(), store, |_| ()).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1:7001") && error.contains("--listen"), "{error}");
}

#[test]
fn with_a_token_the_api_needs_it() {
    let (_folder, store) = store();
    fill(&store, 2);
    let server = Server::with(&store, with_token("127.0.0.1:0", &[]));
    for headers in ["", "Authorization: Bearer wrong-wrong-wrong\r\n", "Authorization: Basic YTpi\r\n"] {
        for path in ["/api/v1/runs", "/api/v1/doctor", "/api/v1/nothing"] {
            let response = server.request("GET", path, headers);
            let problem = response.problem(401);
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
            assert!(!problem.to_string().contains("wrong-wrong"), "what was shown is not repeated");
        }
    }
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(server.request("GET", "/api/v1/runs", &right).json()["total"], 2);
    server.get(&format!("/api/v1/runs?token={TOKEN}")).problem(401);
    for path in ["/healthz", "/readyz", "/metrics", "/", "/openapi.json"] {
        assert_eq!(server.get(path).status, 200, "{path} is open on loopback");
    }
}

#[test]
fn elsewhere_only_health_and_the_page_s_files_are_open_unless_a_door_is_named() {
    let (_folder, store) = store();
    let closed = Server::with(&store, with_token("0.0.0.0:0", &[]));
    for path in ["/metrics", "/api/v1/runs", "/api/v1/sessions", "/job/x/api/json"] {
        closed.get(path).problem(401);
    }
    for path in ["/healthz", "/readyz", "/", "/openapi.json"] {
        assert_eq!(closed.get(path).status, 200, "{path}");
    }
    closed.get("/assets/x.js").problem(404);
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(closed.request("GET", "/metrics", &right).status, 200);
    let opened = Server::with(&store, with_token("0.0.0.0:0", &["metrics", "page"]));
    assert_eq!(opened.get("/metrics").status, 200);
    opened.get("/api/v1/runs").problem(401);
}

#[test]
fn a_foreign_host_name_is_refused_on_loopback() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    let port = server.address.port();
    let ask =
        |host: &str| server.send(&format!("GET /api/v1/runs HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
    for good in
        [format!("Host: localhost:{port}\r\n"), "Host: 127.0.0.1\r\n".into(), "Host: [::1]:1\r\n".into()]
    {
        assert_eq!(ask(&good).status, 200, "{good}");
    }
    for bad in ["Host: evil.example\r\n", "Host: localhost.evil.example:7001\r\n", "Host: 10.0.0.1\r\n"] {
        let problem = ask(bad).problem(421);
        assert_eq!(problem["errors"][0]["field"], "Host");
    }
    ask("").problem(400);
    assert_eq!(ask("Host: localhost\r\nHost: evil.example\r\n").status, 400);
    let whole =
        "GET http://evil.example/api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    server.send(whole).problem(421);
}

#[test]
fn every_answer_protects_browsers_and_carries_a_request_id() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    for path in ["/", "/api/v1/runs", "/nowhere", "/healthz", "/api/v1/runs?x=1"] {
        let response =
            server.request("GET", path, "X-Request-Id: my-id.7\r\nOrigin: http://evil.example\r\n");
        assert_eq!(response.header("x-request-id"), Some("my-id.7"), "{path}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        let policy = response.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(response.header("access-control-allow-origin"), None);
        assert_eq!(response.header("cross-origin-resource-policy"), Some("same-origin"));
    }
    let made = server.request("GET", "/healthz", "X-Request-Id: <script>\r\n");
    let id = made.header("x-request-id").unwrap();
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert_eq!(server.get("/api/v1/runs").header("cache-control"), Some("no-store"));
}

#[test]
fn the_page_is_there_with_or_without_node() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    let page = server.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().to_lowercase().starts_with("<!doctype html>"));
    if let Some(tag) = page.header("etag") {
        let again = server.request("GET", "/", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((again.status, again.body.len()), (304, 0));
        assert_eq!(page.header("cache-control"), Some("no-cache"));
        let (get, head) = (server.get("/index.html"), server.request("HEAD", "/index.html", ""));
        assert_eq!((get.status, get.body), (200, page.body));
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(
            head.header("content-length"),
            get.headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.as_str())
        );
    }
}
