//! HTTPS with certificate and key from files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use metier_server::{AccessToken, HttpConfig, HttpLimits, TlsIdentity};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

struct PemFiles {
    folder: tempfile::TempDir,
    certificate: PathBuf,
    key: PathBuf,
    trusted: RootCertStore,
}

fn pem_files() -> PemFiles {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(made.cert.der().clone()).unwrap();
    PemFiles { folder, certificate, key, trusted }
}

fn https(files: &PemFiles, limits: HttpLimits) -> HttpConfig {
    let start_token = Some(AccessToken::new("a-token-that-nobody-guesses").unwrap());
    let tls = Some(TlsIdentity::load(&files.certificate, &files.key).unwrap());
    HttpConfig { tls, start_token, limits, ..HttpConfig::default() }
}

/// Sends a request over TLS as a client that trusts the certificate.
fn ask(server: &Server, files: &PemFiles, request: &str) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(files.trusted.clone()).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(config.into(), name).unwrap(), server.connect());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_api_answers_over_tls_and_not_without() {
    let (files, (_folder, store)) = (pem_files(), store());
    fill(&store, 1);
    let server = Server::with(&store, https(&files, HttpLimits::default()));
    let get = "GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = ask(&server, &files, get);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"total\":1"), "{answer}");
    let build = "POST /job/x/buildWithParameters?app_name=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let answer = ask(&server, &files, build);
    assert!(answer.contains("https://localhost/queue/item/1/"), "addresses in answers are HTTPS: {answer}");
    let mut plain = server.connect();
    plain.write_all(get.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}

#[test]
fn a_client_without_a_handshake_is_dropped_and_keeps_nobody_waiting() {
    let (files, (_folder, store)) = (pem_files(), store());
    let limits =
        HttpLimits { connections: 2, header_time: Duration::from_millis(200), ..HttpLimits::default() };
    let server = Server::with(&store, https(&files, limits));
    let silent: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = ask(&server, &files, health);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "the server ends it");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let (files, other) = (pem_files(), pem_files());
    let (gone, empty) = (files.folder.path().join("gone.pem"), files.folder.path().join("empty.pem"));
    std::fs::write(&empty, "nothing here\n").unwrap();
    let refused =
        |certificate: &Path, key: &Path| TlsIdentity::load(certificate, key).unwrap_err().to_string();
    for (certificate, key, named, why) in [
        (&gone, &files.key, "gone.pem", "No such file"),
        (&empty, &files.key, "empty.pem", "BEGIN CERTIFICATE"),
        (&files.certificate, &gone, "gone.pem", "No such file"),
        (&files.certificate, &empty, "empty.pem", "BEGIN PRIVATE KEY"),
        (&files.certificate, &files.certificate, "cert.pem", "BEGIN PRIVATE KEY"),
        (&files.certificate, &other.key, "key.pem", "does not fit the certificate"),
    ] {
        let text = refused(certificate, key);
        assert!(text.contains(named) && text.contains(why) && text.contains("--tls-key"), "{text}");
    }
}
