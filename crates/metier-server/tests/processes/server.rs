//! A server with the store in FILE, on a free loopback port, for the tests of this crate that send
//! signals.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a part of the tests")]

use metier_server::HttpConfig;
use metier_store::{RecordStore, StoreLocation};

fn main() {
    let file = std::env::args_os().nth(1).unwrap();
    let store = RecordStore::open(&StoreLocation::Sqlite(file.into())).unwrap();
    let config = HttpConfig { listen: "127.0.0.1:0".parse().unwrap(), ..HttpConfig::default() };
    metier_server::run(config.into(), store, |address| println!("ready {address}")).unwrap();
    println!("ended in order");
}
