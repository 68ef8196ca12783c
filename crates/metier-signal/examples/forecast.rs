//! Forecasts each window of a file, for `bench/signal/forecast`.
//!
//! `forecast FILE`: one JSON object a line with `history`, `period` and `horizon`; prints one JSON
//! array a line: `[microseconds, steps, mean, peak]`, each of the last as [point, quantiles ...].

use std::io::Write;
use std::time::Instant;

use metier_signal::forecast::{ForecastDistribution, ForecastOptions, forecast};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: forecast FILE")?;
    let mut output = std::io::stdout().lock();
    let quantiles = vec![0.025, 0.1, 0.5, 0.9, 0.95, 0.975];
    for line in std::fs::read_to_string(path)?.lines() {
        let window: Value = serde_json::from_str(line)?;
        let history: Vec<f64> = serde_json::from_value(window["history"].clone())?;
        let horizon = usize::try_from(window["horizon"].as_u64().ok_or("horizon: want a number of steps")?)?;
        let options = ForecastOptions { horizon, quantiles: quantiles.clone() };
        let start = Instant::now();
        let result = forecast(&history, window["period"].as_f64(), &options)?;
        let microseconds = start.elapsed().as_secs_f64() * 1e6;
        let row = |one: &ForecastDistribution| json!([&[one.mean][..], &one.quantiles[..]].concat());
        let steps: Vec<Value> = result.steps.iter().map(row).collect();
        writeln!(output, "{}", json!([microseconds, steps, row(&result.mean), row(&result.peak)]))?;
    }
    Ok(())
}
