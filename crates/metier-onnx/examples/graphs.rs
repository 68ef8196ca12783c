//! Prints one line per file with its analysis and the time taken: `graphs FILE[,INPUT=1x3x…] …`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use metier_onnx::{OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

fn main() {
    let all = Instant::now();
    for argument in std::env::args().skip(1) {
        let mut parts = argument.split(',');
        let path = parts.next().unwrap_or_default();
        let mut bindings = ShapeBindings::default();
        for part in parts {
            if let Some((name, shape)) = part.split_once('=') {
                let sizes = shape.split('x').filter_map(|size| size.parse().ok()).collect();
                bindings.shapes.insert(name.to_string(), sizes);
            }
        }
        let started = Instant::now();
        let told = std::fs::read(path).map_err(|error| error.to_string()).and_then(|bytes| {
            let limits = OnnxLimits::default();
            let model = read_onnx(&bytes, &limits).map_err(|error| error.to_string())?;
            analyse_graph(&model, &bindings, &limits).map_err(|error| error.to_string())
        });
        match told {
            Ok(told) => println!(
                "{path}: {} parameters, {} multiply-adds, {} without cost, peak {:?}, {:?} by rules {:?}, {:.1} ms {:?}",
                told.parameters,
                told.multiply_adds,
                told.operators_without_cost,
                told.peak_activation_bytes.map(|bytes| bytes.0),
                told.characteristics,
                told.characteristics_by_rules,
                started.elapsed().as_secs_f64() * 1e3,
                told.notes,
            ),
            Err(error) => println!("{path}: {error}"),
        }
    }
    println!("{:.1} ms in all", all.elapsed().as_secs_f64() * 1e3);
}
