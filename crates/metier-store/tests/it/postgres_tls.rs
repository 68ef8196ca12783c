//! Encrypted connections to a server of this test: the lab's server has no certificate.

#![cfg(feature = "postgres-tls")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::private_postgres::{PrivatePostgres, as_owner, run};

/// A server that accepts only encrypted connections.
fn encrypted_server() -> Option<PrivatePostgres> {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("SKIP: encrypted connections, because openssl is not installed");
        return None;
    }
    let mut server = PrivatePostgres::create()?;
    let (data, folder) = (server.data(), server.folder.path().to_path_buf());
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    // A root certificate, then the server's certificate: a self-signed root is not accepted as
    // a server certificate.
    let openssl = |arguments: &[&str]| run(as_owner(Path::new("openssl")).current_dir(&data).args(arguments));
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test root",
        "-keyout",
        "root.key",
        "-out",
        "root.crt",
    ]);
    openssl(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    ]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "root.crt",
        "-CAkey",
        "root.key",
        "-CAcreateserial",
        "-copy_extensions",
        "copy",
        "-days",
        "2",
        "-out",
        "server.crt",
    ]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(data.join("root.crt"), folder.join("root.crt")).unwrap();
    fs::set_permissions(folder.join("root.crt"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(
        data.join("pg_hba.conf"),
        "hostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n",
    )
    .unwrap();
    server.set("ssl=on".to_string());
    server.set(format!("ssl_key_file={}", key.display()));
    server.set(format!("ssl_cert_file={}", certificate.display()));
    server.start();
    Some(server)
}

#[test]
fn a_required_encryption_is_used_and_the_server_checked() {
    let Some(server) = encrypted_server() else { return };
    let open = |host: &str, mode: &str, roots: &Path| {
        let out = Command::new(env!("CARGO_BIN_EXE_store-process"))
            .arg("check")
            .arg(format!("postgres://metier@{host}:{}/postgres?sslmode={mode}", server.port))
            .env("SSL_CERT_FILE", roots)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&out.stderr).into_owned();
        out.lines()
            .find_map(|line| line.strip_prefix("verdict "))
            .unwrap_or_else(|| panic!("{out}"))
            .to_string()
    };
    let roots = server.folder.path().join("root.crt");
    assert_eq!(open("localhost", "require", &roots), "opened postgresql");
    let verdict = open("127.0.0.1", "require", &roots);
    assert!(verdict.contains("does not answer") && verdict.contains("ertificate"), "another name: {verdict}");
    let verdict = open("localhost", "disable", &roots);
    assert!(verdict.contains("no encryption"), "{verdict}");
    let strangers = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if strangers.exists() {
        let verdict = open("localhost", "require", strangers);
        assert!(
            verdict.contains("does not answer") && verdict.contains("ertificate"),
            "unknown root: {verdict}"
        );
    } else {
        eprintln!("SKIP: an unknown root, because ca-certificates is not installed");
    }
}
