//! A server in this process, for targets that are requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use metier_server::{HttpConfig, HttpLimits};
use metier_store::{RecordStore, StoreLocation};

/// Time limit of a response.
const PATIENCE: Duration = Duration::from_secs(15);

pub struct FuzzServer {
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl FuzzServer {
    /// Serves a store that takes no sessions, so that the queue stays empty.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = StoreLocation::Sqlite(folder.path().join("metier.db"));
        drop(RecordStore::open(&location).unwrap());
        let store = RecordStore::open_read_only(&location).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let limits = HttpLimits { starts: u32::MAX, ..HttpLimits::default() };
        let config = HttpConfig { listen, limits, ..HttpConfig::default() };
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let on_ready = move |address| ready.send(address).unwrap();
            runtime.block_on(metier_server::serve(config.into(), store, on_ready, std::future::pending()))
        });
        Self { address: is_ready.recv_timeout(PATIENCE).unwrap(), _folder: folder }
    }

    /// The status and body of the response to a POST.
    pub fn post(&self, path: &str, media_type: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // A server that refuses a request may close before it has read all of it.
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let response = String::from_utf8_lossy(&response).into_owned();
        let status = response.get(9..12).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no response but {response:?}"));
        (status, response)
    }
}
