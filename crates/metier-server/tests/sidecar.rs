//! The health and figures of an estimator alone: what answering them took is given back.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metier_power::pipeline::Shelf;
use metier_server::kepler::Doors;

static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

#[test]
fn what_a_probe_or_a_scrape_took_is_given_back_a_moment_later() {
    let (shelf, _) = Shelf::open(Vec::new(), None).unwrap();
    let doors = Doors {
        metrics: Some("127.0.0.1:0".parse().unwrap()),
        give_back: || {
            GIVEN_BACK.fetch_add(1, Ordering::SeqCst);
        },
        ..Doors::new(Arc::new(shelf))
    };
    let doors = doors.beside().unwrap();
    for route in ["/healthz", "/metrics"] {
        let before = GIVEN_BACK.load(Ordering::SeqCst);
        let mut stream = TcpStream::connect(doors.opened.metrics.unwrap()).unwrap();
        write!(stream, "GET {route} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        let begun = Instant::now();
        while GIVEN_BACK.load(Ordering::SeqCst) == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "{route}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    doors.end();
}
