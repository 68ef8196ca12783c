//! A store that disappears and comes back: the server reports it, and goes on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::*;
use metier_server::{AccessToken, HttpConfig};
use metier_store::{RecordStore, StoreLocation};

#[test]
fn a_deleted_store_is_noticed_and_a_new_one_is_used() {
    let (folder, store) = store();
    fill(&store, 3);
    let server = Server::start(&store);
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.get("/api/v1/runs").json()["total"], 3);

    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for path in ["/readyz", "/api/v1/runs", "/api/v1/devices", "/api/v1/workloads"] {
        let problem = server.get(path).problem(503);
        assert!(problem["detail"].as_str().unwrap().contains("metier.db is gone"), "{path}: {problem}");
    }
    assert_eq!(server.get("/healthz").status, 200, "the process is alive all the same");
    assert!(server.get("/metrics").text().contains("\nmetier_store_up 0\n"));

    let other = RecordStore::open(store.location()).unwrap();
    fill(&other, 2);
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.get("/api/v1/runs").json()["total"], 2);
}

#[test]
fn a_store_overwritten_with_rubbish_is_an_error_and_no_panic() {
    let (folder, store) = store();
    fill(&store, 3);
    let server = Server::start(&store);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    std::fs::write(folder.path().join("metier.db"), [0x5a; 100_000]).unwrap();
    for path in ["/readyz", "/api/v1/runs"] {
        server.get(path).problem(503);
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn strangers_are_not_told_where_the_store_is() {
    let (folder, store) = store();
    let token = "a-token-that-nobody-guesses";
    let config = HttpConfig { token: Some(AccessToken::new(token).unwrap()), ..HttpConfig::default() };
    let server = Server::with(&store, config);
    std::fs::remove_file(folder.path().join("metier.db")).unwrap();
    let stranger = server.get("/readyz").problem(503);
    assert!(!stranger.to_string().contains("metier.db"), "{stranger}");
    let friend = server.request("GET", "/readyz", &format!("Authorization: Bearer {token}\r\n")).problem(503);
    assert!(friend.to_string().contains("metier.db"), "{friend}");
}

/// A wire to PostgreSQL that can be cut.
struct Wire {
    port: u16,
    is_cut: Arc<AtomicBool>,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_cut, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let wire = Self { port, is_cut: is_cut.clone(), ends: ends.clone() };
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near: TcpStream = near.unwrap();
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let far = TcpStream::connect(&server).unwrap();
                ends.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                    let (mut from, mut to) = (from.unwrap(), to.unwrap());
                    std::thread::spawn(move || {
                        let mut buffer = [0; 16384];
                        while let Ok(count) = from.read(&mut buffer)
                            && count > 0
                            && to.write_all(&buffer[..count]).is_ok()
                        {}
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        wire
    }

    fn set_cut(&self, cut: bool) {
        self.is_cut.store(cut, Ordering::SeqCst);
        if cut {
            for end in self.ends.lock().unwrap().drain(..) {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }
}

/// A database of its own, gone when dropped.
struct Database {
    admin: postgres::Client,
    name: String,
}

impl Database {
    fn create(url: &str) -> Self {
        let name = format!("metier_server_{}", std::process::id());
        let mut admin = postgres::Client::connect(url, postgres::NoTls).unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Self { admin, name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.admin.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

#[test]
fn a_postgresql_that_stops_answering_is_503_until_it_is_back() {
    let Ok(url) = std::env::var("METIER_LAB_POSTGRES") else {
        eprintln!(
            "SKIP: PostgreSQL behind the API, because METIER_LAB_POSTGRES is not set (lab/lab up postgres)"
        );
        return;
    };
    let parsed: postgres::Config = url.parse().unwrap();
    let host = match &parsed.get_hosts()[0] {
        postgres::config::Host::Tcp(host) => host.clone(),
        postgres::config::Host::Unix(_) => {
            eprintln!("SKIP: PostgreSQL behind the API, because METIER_LAB_POSTGRES names a Unix socket");
            return;
        }
    };
    let database = Database::create(&url);
    let wire = Wire::to(format!("{host}:{}", parsed.get_ports().first().unwrap_or(&5432)));
    let who = match (parsed.get_user(), parsed.get_password()) {
        (Some(user), Some(password)) => format!("{user}:{}@", String::from_utf8_lossy(password)),
        (Some(user), None) => format!("{user}@"),
        _ => String::new(),
    };
    let through = format!("postgres://{who}127.0.0.1:{}/{}", wire.port, database.name);
    let store = RecordStore::open(&StoreLocation::Postgres(through)).unwrap();
    fill(&store, 3);
    let server = Server::start(&store);
    assert_eq!(server.get("/api/v1/runs").json()["total"], 3);
    assert_eq!(server.get("/readyz").status, 200);

    wire.set_cut(true);
    for path in ["/readyz", "/api/v1/runs", "/api/v1/devices"] {
        let problem = server.get(path).problem(503);
        if let Some(password) = parsed.get_password() {
            assert!(!problem.to_string().contains(&*String::from_utf8_lossy(password)), "{problem}");
        }
    }
    assert_eq!(server.get("/healthz").status, 200);
    assert!(server.get("/metrics").text().contains("\nmetier_store_up 0\n"));

    wire.set_cut(false);
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.get("/api/v1/runs").json()["total"], 3);
}
