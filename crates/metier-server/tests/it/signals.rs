//! INT and TERM end the server in order. Signals are for whole processes: `tests/processes` is one.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::*;

#[test]
fn a_signal_ends_the_server_in_order() {
    for signal in ["INT", "TERM"] {
        let (folder, _store) = store();
        let mut child = Command::new(env!("CARGO_BIN_EXE_server-process"))
            .arg(folder.path().join("metier.db"))
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
