//! Speaks as a measured application would: one message a write, at a steady rate, and says how long its writes took.
//!
//! talk lines|socket RATE SECONDS — a rate of 0 is as fast as it goes. Prints one line of JSON.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (way, rate, seconds) = (&words[1], words[2].parse::<u64>().unwrap(), words[3].parse::<u64>().unwrap());
    let (mut out, message): (Box<dyn Write>, Vec<u8>) = match way.as_str() {
        "lines" => {
            let path = std::env::var("METIER_LINES").unwrap();
            let pipe = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            (Box::new(pipe), b"inference 0.0125 s\n".to_vec())
        }
        _ => {
            let socket = UnixStream::connect(std::env::var("METIER_SOCKET").unwrap()).unwrap();
            let text = b"{\"inference_time\": {\"value\": 0.0125, \"timestamp\": 1767225600.25}}\n\n";
            (Box::new(socket), text.to_vec())
        }
    };
    let start = Instant::now();
    let whole = Duration::from_secs(seconds);
    let (mut sent, mut longest, mut slow) = (0u64, Duration::ZERO, 0u64);
    while start.elapsed() < whole {
        let due = if rate == 0 { sent + 1000 } else { (start.elapsed().as_secs_f64() * rate as f64) as u64 };
        while sent < due {
            let before = Instant::now();
            out.write_all(&message).unwrap();
            let took = before.elapsed();
            longest = longest.max(took);
            slow += u64::from(took > Duration::from_millis(1));
            sent += 1;
        }
        if rate > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let took = start.elapsed().as_secs_f64();
    println!(
        "{{\"sent\": {sent}, \"seconds\": {took}, \"longest_write_ms\": {}, \"writes_over_1ms\": {slow}}}",
        longest.as_secs_f64() * 1e3
    );
}
