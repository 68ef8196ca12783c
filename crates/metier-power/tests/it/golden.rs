//! Compares metier's predictions with recorded ones of the original. The recordings are real data
//! outside the repository; without them the tests are skipped with a message.

use std::collections::BTreeMap;
use std::path::PathBuf;

use metier_learn::xgboost::XgboostPredictor;
use metier_power::formula::{CurveForm, FormulaKind, PowerFormula};
use metier_power::kepler_terms::{ModelName, PowerComponent};
use metier_power::node::{MachineSpec, NodeTypeIndex};
use metier_power::weights::KeplerWeights;
use serde::Deserialize as _;
use serde_json::Value;

fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/kepler");
    if !folder.exists() {
        eprintln!("SKIP: golden data of Kepler, because ../shared/data/kepler is not there");
        return None;
    }
    Some(folder)
}

fn json(folder: &std::path::Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// The formula of a recorded predictor: from XGBoost's file, or from the recorded parameters.
/// `None` for pickles.
fn formula(folder: &std::path::Path, entry: &Value, component: PowerComponent) -> Option<PowerFormula> {
    let name = ModelName::read(entry["model"].as_str().unwrap()).unwrap();
    let path = entry["path"].as_str().unwrap();
    let features: Vec<String> =
        entry["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_string()).collect();
    let scale = list(&entry["scale"]);
    let kind = if name.trainer == "XgboostFitTrainer" {
        let pipeline = path.split('/').next().unwrap();
        let file =
            format!("{pipeline}/xgboost_AbsPower_BPFOnly_{}/{}.json", name.node_type, component.name());
        FormulaKind::XGBoost(Box::new(
            XgboostPredictor::parse(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap(),
        ))
    } else {
        let parameters = entry.get("params")?.get(component.name())?;
        match name.trainer.as_str() {
            "PolynomialRegressionTrainer" => FormulaKind::Polynomial {
                bias: parameters["intercept"].as_f64().unwrap(),
                weights: list(&parameters["coef"]),
            },
            "SGDRegressorTrainer" | "LinearRegressionTrainer" => FormulaKind::Linear {
                bias: parameters["intercept"].as_f64().unwrap(),
                weights: list(&parameters["coef"]),
            },
            other => {
                let curve = match other {
                    "ExponentialRegressionTrainer" => CurveForm::Exponential,
                    "LogarithmicRegressionTrainer" => CurveForm::Logarithmic,
                    "LogisticRegressionTrainer" => CurveForm::Logistic,
                    other => panic!("{other}"),
                };
                FormulaKind::Curve { curve, weights: list(&parameters["popt"]) }
            }
        }
    };
    Some(PowerFormula::new(component, features, scale, kind))
}

#[test]
fn recorded_predictions_are_ours() {
    let Some(folder) = shared() else { return };
    let golden = json(&folder, "golden/predictions.json");
    let (mut predictors, mut pickles, mut exact, mut worst) = (0, 0, 0, 0f64);
    for entry in golden.as_array().unwrap() {
        let mut has = false;
        for (component, powers) in entry["powers"].as_object().unwrap() {
            let Some(formula) = formula(&folder, entry, PowerComponent::named(component).unwrap()) else {
                continue;
            };
            has = true;
            for (row, want) in entry["inputs"].as_array().unwrap().iter().zip(list(powers)) {
                let got = formula.watts(&list(row)).unwrap();
                let off = (got - want).abs() / want.abs().max(1.0);
                if entry["model"].as_str().unwrap().starts_with("Xgboost") {
                    assert_eq!(got.to_bits(), want.to_bits(), "{} {component} {row}", entry["model"]);
                }
                exact += usize::from(got == want);
                worst = worst.max(off);
                // The library's exponential function and the order of additions differ in the last
                // digits; a published exponential subtracts two numbers of seven digits.
                assert!(off < 1e-9, "{} {component} {row}: {got} and not {want}", entry["model"]);
            }
        }
        predictors += usize::from(has);
        pickles += usize::from(!has);
    }
    eprintln!("{predictors} predictors, {exact} numbers equal to the last bit, the others within {worst:e}");
    // Neighbours, support vectors and scikit-learn's trees were published as pickles only.
    assert_eq!((predictors, pickles), (18, 6));
}

#[test]
fn weights_that_are_published_give_the_recorded_numbers_too() {
    let Some(folder) = shared() else { return };
    let golden = json(&folder, "golden/predictions.json");
    let mut compared = 0;
    for entry in golden.as_array().unwrap() {
        let (pipeline, path) = entry["path"].as_str().unwrap().split_once('/').unwrap();
        let model = entry["model"].as_str().unwrap();
        let weights = json(&folder, &format!("{pipeline}/weights_half.json"));
        let Some(weights) = weights.get(format!("{path}/{model}.json")) else { continue };
        let trainer = ModelName::read(model).unwrap().trainer;
        for (component, formula) in KeplerWeights::read(weights).unwrap().formulas(&trainer).unwrap() {
            let powers = list(&entry["powers"][component.name()]);
            for (row, want) in entry["inputs"].as_array().unwrap().iter().zip(powers) {
                let got = formula.watts(&list(row)).unwrap();
                assert!(
                    (got - want).abs() <= 1e-9 * want.abs().max(1.0),
                    "{model} {component:?}: {got} {want}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "only {compared} numbers were compared");
}

#[test]
fn recorded_similarities_are_ours() {
    let Some(folder) = shared() else { return };
    let index = std::fs::read_to_string(folder.join("specpower-0.7.11/node_type_index.json")).unwrap();
    let index = NodeTypeIndex::read(&index).unwrap();
    let golden = json(&folder, "golden/similarity_specpower.json");
    let golden = golden.as_array().unwrap();
    assert_eq!(golden.len(), 30);
    for pair in golden {
        let spec = |side: &str| &index.0[&u32::try_from(pair[side].as_u64().unwrap()).unwrap()].spec;
        let got = spec("a").similarity(spec("b"));
        let want = pair["similarity"].as_f64().unwrap();
        assert!((got - want).abs() < 1e-12, "{pair}: {got}");
    }
}

#[test]
fn recorded_node_types_are_ours() {
    let Some(folder) = shared() else { return };
    let mut indices = BTreeMap::new();
    for (source, pipeline) in [("rapl-sysfs", "ec2-0.7.11"), ("acpi", "specpower-0.7.11")] {
        let text = std::fs::read_to_string(folder.join(pipeline).join("node_type_index.json")).unwrap();
        indices.insert(source, NodeTypeIndex::read(&text).unwrap());
    }
    let (mut compared, mut wrong) = (0, Vec::new());
    for entry in json(&folder, "golden/model_selection.json").as_array().unwrap() {
        let Some(node_type) = entry.get("node_type").and_then(Value::as_i64) else { continue };
        let request = &entry["request"];
        let source = request["source"].as_str().filter(|source| *source == "acpi").unwrap_or("rapl-sysfs");
        let spec = MachineSpec::deserialize(&request["machine_spec"]).unwrap();
        let loose = request.get("loose_node_type").and_then(Value::as_bool).unwrap_or(true);
        let found = indices[source].lookup(&spec, loose);
        compared += 1;
        let got = found.map_or((-1, -1.0, -1.0), |found| {
            (i64::from(found.node_type), found.uncertainty, found.looseness)
        });
        let want = (node_type, entry["uncertainty"].as_f64().unwrap(), entry["looseness"].as_f64().unwrap());
        if got.0 != want.0 || (got.1 - want.1).abs() > 1e-9 || (got.2 - want.2).abs() > 1e-9 {
            wrong.push(format!("{} {}: {got:?} and not {want:?}", entry["tag"], request["machine_spec"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 20, "{compared}");
}
