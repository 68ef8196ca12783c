//! Real networks from `scripts/graphs`: parameters and multiply-adds against independent counts.
//!
//! Parameters are all float weights wherever the file stores them. Multiply-adds (in millions) are
//! those of Conv, Gemm and MatMul, counted by hand-written scripts over ONNX's own shape inference.

use std::path::PathBuf;

use metier_onnx::{GraphAnalysis, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

/// Name, shapes of open inputs, parameters, convolutions, millions of multiply-adds of Conv, Gemm
/// and MatMul (0: unknown).
type Row = (&'static str, &'static [(&'static str, &'static [u64])], u64, u64, u64);

const KNOWN: [Row; 23] = [
    ("ppocr4-detector", &[("x", &[1, 3, 640, 640])], 1_171_841, 62, 2233),
    ("ppocr4-recogniser", &[("x", &[1, 3, 48, 320])], 2_690_352, 38, 0),
    ("ppocr-angle", &[("x", &[1, 3, 48, 192])], 133_700, 53, 0),
    ("ppocr6-recogniser", &[("x", &[1, 3, 48, 320])], 5_267_683, 57, 0),
    ("picodet-layout", &[], 1_820_488, 102, 3305),
    ("pplcnet-orientation", &[], 1_687_589, 32, 154),
    ("yolov8n-320", &[("images", &[1, 3, 320, 320])], 3_009_188, 64, 1013),
    ("yolox-detector", &[], 5_024_206, 83, 3179),
    ("lstm-ocr", &[("input1", &[1, 1, 64, 160])], 13_520_258, 21, 0),
    ("silero-vad", &[("input", &[1, 512]), ("state", &[2, 1, 128])], 545_286, 6, 0),
    ("magika", &[], 784_223, 1, 0),
    ("basic-pitch", &[], 35_740, 32, 0),
    (
        "arabic-diacritics",
        &[("char_inputs", &[1, 64]), ("diac_inputs", &[1, 64]), ("input_lengths", &[1])],
        1_159_745,
        4,
        0,
    ),
    ("hebrew-diacritics", &[("input_1", &[1, 64])], 5_313_224, 0, 0),
    ("light-bvlc_alexnet", &[], 60_965_224, 5, 655),
    ("light-zfnet512", &[], 87_250_537, 5, 1482),
    ("light-vgg19", &[], 143_667_240, 16, 19632),
    ("light-inception_v1", &[], 6_998_552, 57, 1432),
    ("light-inception_v2", &[], 11_234_792, 69, 2019),
    ("light-resnet50", &[], 25_610_153, 53, 4089),
    ("light-densenet121", &[], 8_146_152, 121, 2834),
    ("light-shufflenet", &[], 1_420_152, 49, 125),
    ("light-squeezenet", &[], 1_235_496, 26, 349),
];

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("METIER_LAB_GRAPHS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!(
            "SKIP: real networks, because METIER_LAB_GRAPHS is not set; `lab/lab up graphs` fetches them"
        );
    }
    folder
}

fn told(row: &Row, folder: &std::path::Path) -> GraphAnalysis {
    let (name, shapes, ..) = row;
    let bytes = std::fs::read(folder.join(format!("{name}.onnx"))).unwrap();
    let shapes = shapes.iter().map(|(input, shape)| (input.to_string(), shape.to_vec())).collect();
    let bindings = ShapeBindings { shapes, ..ShapeBindings::default() };
    analyse_graph(&read_onnx(&bytes, &OnnxLimits::default()).unwrap(), &bindings, &OnnxLimits::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn parameters_layers_and_multiply_adds_are_those_that_others_count() {
    let Some(folder) = folder() else { return };
    for row in &KNOWN {
        let told = told(row, &folder);
        let (name, _, parameters, convolutions, millions) = row;
        assert_eq!(told.parameters, *parameters, "{name}");
        assert_eq!(told.operators_without_cost, 0, "{name}: {:?}", told.notes);
        assert!(told.peak_activation_bytes.is_some(), "{name}");
        let of = |kind: &str| told.kinds.get(kind).cloned().unwrap_or_default();
        assert_eq!(of("Conv").operators, *convolutions, "{name}");
        let counted: u64 = ["Conv", "Gemm", "MatMul"].iter().map(|kind| of(kind).multiply_adds).sum();
        if *millions > 0 {
            assert_eq!((counted + 500_000) / 1_000_000, *millions, "{name}");
        }
    }
}

#[test]
fn the_rules_of_the_original_see_what_it_saw() {
    let Some(folder) = folder() else { return };
    // Convolutions and parameters that SOPRANO counts.
    let seen = [
        ("ppocr4-detector", 0, 0),
        ("ppocr6-recogniser", 57, 5_267_734),
        ("pplcnet-orientation", 32, 1_687_593),
        ("yolov8n-320", 64, 3_009_250),
        ("lstm-ocr", 21, 13_520_263),
        ("silero-vad", 0, 0),
        ("magika", 1, 784_519),
        ("arabic-diacritics", 4, 1_159_665),
        ("hebrew-diacritics", 0, 5_313_240),
    ];
    for (name, convolutions, parameters) in seen {
        let row = KNOWN.iter().find(|row| row.0 == name).unwrap();
        let told = told(row, &folder);
        let rules = told.characteristics_by_rules.unwrap_or(told.characteristics);
        assert_eq!((rules.conv_layers, rules.total_parameters), (convolutions, parameters), "{name}");
    }
}
