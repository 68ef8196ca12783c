//! Any bytes as the reply of a container engine. It is refused, or it names containers.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use metier_server::agent::{EngineNameSource, NameRequest, NameSource};
use metier_types::LockUnpoisoned;

use super::{FuzzTarget, texts};

pub const TARGET: FuzzTarget = FuzzTarget { name: "engine", seeds, run };

/// The reply to the next request.
static REPLY: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// An engine that sends that reply to any request.
struct FakeEngine {
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

static ENGINE: LazyLock<FakeEngine> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&REPLY.lock_unpoisoned());
        }
    });
    FakeEngine { socket, _folder: folder }
});

const CONTAINERS: &str = r#"[{"Id":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","Names":["/web"],"Image":"nginx:1","Labels":{"metier.run":"x","io.kubernetes.pod.name":"p"},"State":"running"}]"#;

fn seeds() -> Vec<Vec<u8>> {
    let sized = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{CONTAINERS}",
        CONTAINERS.len()
    );
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{CONTAINERS}\r\n0\r\n\r\n",
        CONTAINERS.len()
    );
    let open = format!("HTTP/1.0 200 OK\r\n\r\n{CONTAINERS}");
    let error = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 17\r\n\r\n{\"message\":\"odd\"}";
    texts(&[&sized, &chunked, &open, error])
}

fn run(bytes: &[u8]) {
    *REPLY.lock_unpoisoned() = bytes.to_vec();
    let mut source = EngineNameSource::at_socket(&ENGINE.socket);
    if let Err(reason) = source.look_up(&NameRequest { containers: vec!["abc".into()], pods: Vec::new() }) {
        assert!(!reason.is_empty());
    }
}
