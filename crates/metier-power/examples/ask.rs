//! Measures the request rate of an estimator with the protocol of Kepler's exporter. For
//! `bench/power-service`.
//!
//! ```text
//! ask SOCKET ROWS SECONDS CLIENTS OUTPUT_TYPE SOURCE
//! ```
//!
//! Each request has its own connection: one write, one read into 4096 bytes, which must be the
//! whole reply. Prints JSON.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for developers")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const METRICS: [&str; 9] = [
    "bpf_cpu_time_ms",
    "bpf_page_cache_hit",
    "bpf_net_tx_irq",
    "bpf_net_rx_irq",
    "bpf_block_irq",
    "cpu_cycles",
    "cpu_ref_cycles",
    "cpu_instructions",
    "cache_miss",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, rows, seconds, clients, output_type, source] = &arguments[..] else { std::process::exit(2) };
    let (rows, seconds, clients): (usize, f64, usize) =
        (rows.parse().unwrap(), seconds.parse().unwrap(), clients.parse().unwrap());
    let row = |row: usize| -> Vec<f64> {
        let load = (row + 1) as f64 / rows as f64;
        vec![15_000.25 * load, 3.0, 1.5, 2.0, 0.0, 4e10 * load, 4e10 * load, 5e10 * load, 1e8 * load]
    };
    let request = json!({ "metrics": METRICS, "values": (0..rows).map(row).collect::<Vec<_>>(), "output_type": output_type, "source": source,
        "system_features": ["cpu_architecture"], "system_values": ["Skylake"], "trainer_name": "", "filter": "" })
    .to_string();
    let begun = Instant::now();
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let (mut times, mut buffer) = (Vec::new(), [0u8; 4096]);
                    while begun.elapsed() < Duration::from_secs_f64(seconds) {
                        let start = Instant::now();
                        let mut stream = UnixStream::connect(socket).unwrap();
                        stream.write_all(request.as_bytes()).unwrap();
                        let count = stream.read(&mut buffer).unwrap();
                        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap());
                        assert_eq!(buffer[count - 1], b'}', "a whole reply in one read");
                    }
                    let reply: Value = {
                        let mut stream = UnixStream::connect(socket).unwrap();
                        stream.write_all(request.as_bytes()).unwrap();
                        let count = stream.read(&mut buffer).unwrap();
                        serde_json::from_slice(&buffer[..count]).unwrap()
                    };
                    assert_eq!(reply["msg"], "");
                    assert!(
                        reply["powers"].as_object().unwrap().values().all(|list| list
                            .as_array()
                            .unwrap()
                            .len()
                            == rows)
                    );
                    times
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let elapsed = begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e6;
    println!(
        "{}",
        json!({ "rows": rows, "clients": clients, "requests": times.len(), "per_second": times.len() as f64 / elapsed,
            "median_ms": at(0.5), "p99_ms": at(0.99), "worst_ms": at(1.0), "request_bytes": request.len() })
    );
}
