//! Encrypted connections to a server of this test: the lab's server has no certificate.

#![cfg(feature = "postgres-tls")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that accepts only encrypted connections; stopped on drop.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

fn run(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The server refuses to run as root.
fn as_owner(program: &Path) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command
}

impl Server {
    fn start() -> Option<Server> {
        let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path().join("bin"))
            .collect();
        versions.sort();
        let has_openssl = Command::new("openssl").arg("version").output().is_ok();
        let (Some(bin), true) = (versions.last(), has_openssl) else {
            eprintln!(
                "SKIP: encrypted connections, because PostgreSQL's programs or openssl are not installed"
            );
            return None;
        };
        let folder = tempfile::Builder::new().prefix("metier-tls").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let data = folder.path().join("data");
        run(as_owner(&bin.join("initdb"))
            .current_dir(folder.path())
            .args(["-U", "metier", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data));
        let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
        // A root certificate, then the server's certificate: a self-signed root is not accepted as
        // a server certificate.
        let openssl =
            |arguments: &[&str]| run(as_owner(Path::new("openssl")).current_dir(&data).args(arguments));
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
        fs::copy(data.join("root.crt"), folder.path().join("root.crt")).unwrap();
        fs::set_permissions(folder.path().join("root.crt"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(
            data.join("pg_hba.conf"),
            "hostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n",
        )
        .unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = as_owner(&bin.join("postgres"))
            .current_dir(folder.path())
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "ssl=on"])
            .arg("-c")
            .arg(format!("port={port}"))
            .arg("-c")
            .arg(format!("ssl_key_file={}", key.display()))
            .arg("-c")
            .arg(format!("ssl_cert_file={}", certificate.display()))
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let server = Server { child, folder, port };
        let until = Instant::now() + Duration::from_secs(30);
        let ready = |server: &Server| {
            Command::new(bin.join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &server.port.to_string()])
                .status()
                .is_ok_and(|status| status.success())
        };
        while !ready(&server) {
            let log = fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the server did not start: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn a_required_encryption_is_used_and_the_server_checked() {
    let Some(server) = Server::start() else { return };
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
