//! A PostgreSQL server of one test, which the test may stop and start: the lab's is shared.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The server; stopped on drop.
pub struct PrivatePostgres {
    child: Option<Child>,
    bin: PathBuf,
    pub folder: tempfile::TempDir,
    pub port: u16,
    settings: Vec<String>,
}

pub fn run(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The server refuses to run as root.
pub fn as_owner(program: &Path) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command
}

impl PrivatePostgres {
    /// Makes a cluster, and does not start it. `None` with a message where PostgreSQL is not
    /// installed.
    pub fn create() -> Option<Self> {
        let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path().join("bin"))
            .collect();
        versions.sort();
        let Some(bin) = versions.pop() else {
            eprintln!("SKIP: a server of this test, because PostgreSQL's programs are not installed");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("metier-postgres").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { child: None, bin, folder, port, settings: Vec::new() };
        run(as_owner(&server.bin.join("initdb"))
            .current_dir(server.folder.path())
            .args(["-U", "metier", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "-D"])
            .arg(server.data()));
        Some(server)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn url(&self) -> String {
        format!("postgres://metier@127.0.0.1:{}/postgres", self.port)
    }

    /// A setting of the server, as `NAME=VALUE`.
    pub fn set(&mut self, setting: String) {
        self.settings.push(setting);
    }

    /// Starts the server and waits until it answers.
    pub fn start(&mut self) {
        let mut command = as_owner(&self.bin.join("postgres"));
        let own = ["listen_addresses=127.0.0.1", "unix_socket_directories="].map(String::from);
        let port = format!("port={}", self.port);
        for setting in own.iter().chain([&port]).chain(&self.settings) {
            command.arg("-c").arg(setting);
        }
        let log = self.folder.path().join("log");
        let child = command
            .current_dir(self.folder.path())
            .arg("-D")
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let until = Instant::now() + Duration::from_secs(60);
        let is_ready = || {
            Command::new(self.bin.join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status()
                .is_ok_and(|status| status.success())
        };
        while !is_ready() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(Instant::now() < until, "the server did not start: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the server at once, its connections too.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.stop();
    }
}
