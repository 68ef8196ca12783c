//! Operators that the built-in engine lacks, or interprets differently, give the results of the
//! standard.

use crate::common::{Message, file, graph, node, value, weights};
use metier_infer::{GraphSource, InferenceEngine, LoadedGraph, NamedTensor, TensorValues};

/// Distinct numbers of both signs.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|number| ((number * 37 % 23) as f32 - 11.0) / 4.0).collect()
}

fn result(bytes: &[u8], shape: &[usize]) -> NamedTensor {
    let mut loaded = LoadedGraph::new(&InferenceEngine::Rten, bytes, 1).unwrap();
    let values = TensorValues::Float(numbers(shape.iter().product()));
    loaded.set_inputs(&[NamedTensor { name: "x".into(), shape: shape.to_vec(), values }]).unwrap();
    loaded.run_for_outputs().unwrap().remove(0)
}

fn near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < 1e-5 * want.abs().max(1.0), "{got} against {want}");
    }
}

fn dims(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|size| *size as i64).collect()
}

/// An operator with float attributes.
fn with_floats(node: Message, floats: &[(&str, f32)]) -> Message {
    floats.iter().fold(node, |node, (name, value)| {
        let mut attribute = Message::default().text(1, name).number(20, 1);
        attribute.0.push(2 << 3 | 5);
        attribute.0.extend(value.to_le_bytes());
        node.message(5, &attribute)
    })
}

#[test]
fn local_response_normalisation_is_that_of_the_standard() {
    let shape = [2, 7, 3, 2];
    let x = numbers(2 * 7 * 3 * 2);
    for size in [1i64, 3, 4, 5, 9] {
        let (alpha, beta, bias) = (0.3, 0.6, 1.5);
        let lrn = node("LRN", &["x"], &["y"], &[("size", &[size])]);
        let lrn = with_floats(lrn, &[("alpha", alpha as f32), ("beta", beta as f32), ("bias", bias as f32)]);
        let bytes = file(&graph(&[lrn], &[], &[value("x", &dims(&shape))], &[value("y", &dims(&shape))]), 9);
        let got = result(&bytes, &shape);
        assert_eq!(got.shape, shape);
        let (before, after) = ((size - 1) / 2, size / 2);
        let mut want = Vec::new();
        for (at, value) in x.iter().enumerate() {
            let (picture, channel, place) = (at / 42, (at / 6 % 7) as i64, at % 6);
            let sum: f64 = (channel - before..=channel + after)
                .filter(|channel| (0..7).contains(channel))
                .map(|channel| f64::from(x[picture * 42 + channel as usize * 6 + place]).powi(2))
                .sum();
            want.push(f64::from(*value) / (bias + alpha / size as f64 * sum).powf(beta));
        }
        near(&got.values.to_numbers(), &want);
    }
}

#[test]
fn defaults_of_the_normalisation_are_those_of_the_standard() {
    let lrn = node("LRN", &["x"], &["y"], &[("size", &[1])]);
    let bytes = file(&graph(&[lrn], &[], &[value("x", &[1, 4, 1])], &[value("y", &[1, 4, 1])]), 17);
    let want: Vec<f64> =
        numbers(4).iter().map(|x| f64::from(*x) / (1.0 + 1e-4 * f64::from(*x).powi(2)).powf(0.75)).collect();
    near(&result(&bytes, &[1, 4, 1]).values.to_numbers(), &want);
}

#[test]
fn before_operator_set_13_a_softmax_joins_all_dimensions_from_its_axis_on() {
    let shape = [2, 3, 2, 2];
    // Axis, operator set, and number of elements normalised together.
    for (axis, opset, joined) in [
        (Some(1), 9, 12),
        (None, 12, 12),
        (Some(2), 11, 4),
        (Some(0), 7, 24),
        (Some(3), 12, 2),
        (Some(-1), 12, 2),
    ] {
        for kind in ["Softmax", "LogSoftmax"] {
            let attributes: Vec<(&str, &[i64])> =
                axis.as_slice().chunks(1).map(|one| ("axis", one)).collect();
            let one = node(kind, &["x"], &["y"], &attributes);
            let bytes =
                file(&graph(&[one], &[], &[value("x", &dims(&shape))], &[value("y", &dims(&shape))]), opset);
            let got = result(&bytes, &shape);
            assert_eq!(got.shape, shape);
            let mut want = Vec::new();
            for row in numbers(24).chunks(joined) {
                let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
                want.extend(row.iter().map(|x| match kind {
                    "Softmax" => f64::from(*x).exp() / sum,
                    _ => f64::from(*x) - sum.ln(),
                }));
            }
            near(&got.values.to_numbers(), &want);
        }
    }
    // Since operator set 13 it normalises over one dimension.
    let one = node("Softmax", &["x"], &["y"], &[("axis", &[1])]);
    let bytes = file(&graph(&[one], &[], &[value("x", &dims(&shape))], &[value("y", &dims(&shape))]), 13);
    let got = result(&bytes, &shape).values.to_numbers();
    for (picture, place) in (0..2).flat_map(|picture| (0..4).map(move |place| (picture, place))) {
        let sum: f64 = (0..3).map(|channel| got[picture * 12 + channel * 4 + place]).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
}

/// A convolution without `kernel_shape`; its weights are external if a file is named.
fn convolution(beside: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    convolution_told(beside, &[("offset", "0"), ("length", "144")])
}

/// The same with the given offset and length entries of the external file.
fn convolution_told(beside: Option<&str>, told: &[(&str, &str)]) -> (Vec<u8>, Vec<u8>) {
    let raw: Vec<u8> = numbers(2 * 2 * 9).iter().flat_map(|number| number.to_le_bytes()).collect();
    let tensor = match beside {
        Some(name) => {
            let entry = |key: &str, value: &str| Message::default().text(1, key).text(2, value);
            let entries = [("location", name)].into_iter().chain(told.iter().copied());
            let tensor = entries
                .map(|(key, value)| entry(key, value))
                .fold(weights("w", &[2, 2, 3, 3]), |tensor, one| tensor.message(13, &one));
            tensor.number(14, 1)
        }
        None => weights("w", &[2, 2, 3, 3]).bytes(9, &raw),
    };
    let conv = node("Conv", &["x", "w"], &["y"], &[("pads", &[1, 1, 1, 1])]);
    let whole = graph(&[conv], &[tensor], &[value("x", &[1, 2, 4, 4])], &[value("y", &[1, 2, 4, 4])]);
    (file(&whole, 17), raw)
}

#[test]
fn a_convolution_may_leave_its_window_to_its_weights() {
    let (x, w) = (numbers(32), numbers(36));
    let mut want = Vec::new();
    for (out, row, column) in (0..32).map(|at: i64| (at / 16, at / 4 % 4, at % 4)) {
        let mut sum = 0.0;
        for (channel, down, across) in (0..18).map(|at: i64| (at / 9, at / 3 % 3, at % 3)) {
            let (r, c) = (row + down - 1, column + across - 1);
            if (0..4).contains(&r) && (0..4).contains(&c) {
                let weight = w[(out * 18 + channel * 9 + down * 3 + across) as usize];
                sum += f64::from(weight) * f64::from(x[(channel * 16 + r * 4 + c) as usize]);
            }
        }
        want.push(sum);
    }
    near(&result(&convolution(None).0, &[1, 2, 4, 4]).values.to_numbers(), &want);

    // Also if an operator computes the weights, as in quantised networks.
    let raw: Vec<u8> = numbers(36).iter().flat_map(|number| [(4.0 * number) as i8 as u8]).collect();
    let whole = Message::default().number(1, 2).number(1, 2).number(1, 3).number(1, 3).number(2, 3);
    let scale = weights("scale", &[]).bytes(9, &0.25f32.to_le_bytes());
    let nodes = [
        node("DequantizeLinear", &["q", "scale"], &["w"], &[]),
        node("Conv", &["x", "w"], &["y"], &[("pads", &[1, 1, 1, 1])]),
    ];
    let constants = [whole.text(8, "q").bytes(9, &raw), scale];
    let made = graph(&nodes, &constants, &[value("x", &[1, 2, 4, 4])], &[value("y", &[1, 2, 4, 4])]);
    near(&result(&file(&made, 17), &[1, 2, 4, 4]).values.to_numbers(), &want);

    // Also if the weights are external only.
    let folder = std::env::temp_dir().join(format!("metier-adapted-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("net.onnx");
    let runtime = metier_infer::EngineRuntime::open(&InferenceEngine::Rten, 1).unwrap();
    let (bytes, raw) = convolution(Some("net.data"));
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(folder.join("net.data"), raw).unwrap();
    let mut loaded = runtime.load(GraphSource::File(&path)).unwrap();
    let values = TensorValues::Float(x);
    loaded.set_inputs(&[NamedTensor { name: "x".into(), shape: vec![1, 2, 4, 4], values }]).unwrap();
    near(&loaded.run_for_outputs().unwrap()[0].values.to_numbers(), &want);
    // As many exporters name it: after the weights, without a suffix, or in a subfolder.
    std::fs::create_dir_all(folder.join("weights")).unwrap();
    for name in ["layer1.weight", "weights/w.bin"] {
        let (bytes, raw) = convolution(Some(name));
        std::fs::write(&path, bytes).unwrap();
        std::fs::write(folder.join(name), raw).unwrap();
        let mut loaded = runtime.load(GraphSource::File(&path)).unwrap();
        let values = TensorValues::Float(numbers(32));
        loaded.set_inputs(&[NamedTensor { name: "x".into(), shape: vec![1, 2, 4, 4], values }]).unwrap();
        near(&loaded.run_for_outputs().unwrap()[0].values.to_numbers(), &want);
    }
    // The format does not require offset and length.
    for told in [&[][..], &[("offset", "0")], &[("length", "144")]] {
        std::fs::write(&path, convolution_told(Some("net.data"), told).0).unwrap();
        let mut loaded = runtime.load(GraphSource::File(&path)).unwrap();
        let values = TensorValues::Float(numbers(32));
        loaded.set_inputs(&[NamedTensor { name: "x".into(), shape: vec![1, 2, 4, 4], values }]).unwrap();
        near(&loaded.run_for_outputs().unwrap()[0].values.to_numbers(), &want);
    }
    std::fs::write(&path, convolution(Some("../net.data")).0).unwrap();
    let error = runtime.load(GraphSource::File(&path)).err().unwrap().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(error.contains("../net.data"), "{error}");
}
