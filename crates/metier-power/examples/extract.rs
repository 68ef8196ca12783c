//! Extracts every group of every source from a recorded Prometheus response, and prints the time of
//! one extraction including parsing. For `bench/power-service`.
//!
//! ```text
//! extract FILE TIMES
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for developers")]

use std::time::Instant;

use metier_power::extract::{self, ExtractSettings};
use metier_power::response::KeplerResponse;
use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, times] = &arguments[..] else { std::process::exit(2) };
    let times: u32 = times.parse().unwrap();
    let found = KeplerResponse::read(&std::fs::read(file).unwrap()).unwrap();
    let mut list = Vec::new();
    for source in extract::sources(&found) {
        for group in extract::groups(&found, false) {
            let begun = Instant::now();
            let mut rows = 0;
            for _ in 0..times {
                let response = KeplerResponse::read(&std::fs::read(file).unwrap()).unwrap();
                let settings = ExtractSettings { by_container: true, ..ExtractSettings::new(source, group) };
                rows = extract::extract(&response, &settings).unwrap().frame.len();
            }
            let seconds = begun.elapsed().as_secs_f64() / f64::from(times);
            list.push(
                json!({ "source": source.name(), "group": group.name(), "rows": rows, "seconds": seconds }),
            );
        }
    }
    println!("{}", json!(list));
}
