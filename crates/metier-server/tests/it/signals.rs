//! INT and TERM end the server in order. Signals are for whole processes: this test starts itself again as one.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::*;
use metier_server::Config;
use metier_store::{Location, Store};

const STORE: &str = "METIER_TEST_SERVE";

/// Not a test of its own: what the other one starts.
#[test]
fn child() {
    let Ok(path) = std::env::var(STORE) else { return };
    let store = Store::open(&Location::Sqlite(path.into())).unwrap();
    let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    metier_server::run(config, store, |address| println!("\nready {address}")).unwrap();
    println!("\nended in order");
}

#[test]
fn a_signal_ends_the_server_in_order() {
    for signal in ["INT", "TERM"] {
        let (folder, _store) = store();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::child", "--nocapture", "--test-threads=1"])
            .env(STORE, folder.path().join("metier.db"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ready ") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the child ended before it was ready");
        }
        let address: std::net::SocketAddr = line["ready ".len()..].trim().parse().unwrap();
        assert!(std::net::TcpStream::connect(address).is_ok());
        let sent =
            Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{signal}: {rest}");
        assert!(rest.contains("ended in order"), "{signal}: {rest}");
    }
}
