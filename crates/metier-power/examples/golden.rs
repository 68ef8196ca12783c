//! Computes metier's results for recorded inputs of the original: the data of
//! `bench/power-golden/run`, which compares them.
//!
//! `golden FOLDER` reads the recorded inputs (never the recorded results). It prints as JSON the
//! watts of every recorded predictor, row by row (`null` for pickles), and the similarity of every
//! recorded pair of node types.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use metier_learn::xgboost::XgboostPredictor;
use metier_power::formula::{CurveForm, FormulaKind, PowerFormula};
use metier_power::kepler_terms::{EnergySource, ModelName, PowerComponent};
use metier_power::node::NodeTypeIndex;
use serde_json::{Map, Value, json};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).ok_or("usage: golden FOLDER")?;
    let folder = Path::new(&folder);
    let read = |name: &str| -> Result<Value, Failure> {
        Ok(serde_json::from_str(&std::fs::read_to_string(folder.join(name))?)?)
    };
    let mut predictions = Vec::new();
    for entry in read("golden/predictions.json")?.as_array().ok_or("predictions.json is no list")? {
        predictions.push(watts(folder, entry)?);
    }
    let index =
        NodeTypeIndex::read(&std::fs::read_to_string(folder.join("specpower-0.7.11/node_type_index.json"))?)?;
    let mut similarities = Vec::new();
    for pair in read("golden/similarity_specpower.json")?.as_array().ok_or("similarities are no list")? {
        let spec = |side: &str| -> Result<_, Failure> {
            let number = u32::try_from(pair[side].as_u64().ok_or("a pair without numbers")?)?;
            Ok(&index.0.get(&number).ok_or("a node type that is not in the index")?.spec)
        };
        similarities.push(spec("a")?.similarity(spec("b")?));
    }
    println!("{}", json!({ "predictions": predictions, "similarities": similarities }));
    Ok(())
}

fn list(value: &Value) -> Result<Vec<f64>, Failure> {
    let list = value.as_array().ok_or("no list of numbers")?;
    list.iter().map(|value| value.as_f64().ok_or_else(|| Failure::from("no number"))).collect()
}

/// Watts of every component, row by row.
fn watts(folder: &Path, entry: &Value) -> Result<Value, Failure> {
    let path = entry["path"].as_str().ok_or("no path")?;
    let source = path.split('/').nth(1).and_then(EnergySource::named).ok_or("no source in the path")?;
    let mut out = Map::new();
    for component in source.components() {
        let Some(formula) = formula(folder, entry, *component)? else { return Ok(Value::Null) };
        let mut powers = Vec::new();
        for row in entry["inputs"].as_array().ok_or("no inputs")? {
            powers.push(formula.watts(&list(row)?).ok_or("a formula without a value")?);
        }
        out.insert(component.name().to_string(), json!(powers));
    }
    Ok(Value::Object(out))
}

/// The formula from XGBoost's file, or from the recorded parameters; `None` for pickles.
fn formula(folder: &Path, entry: &Value, component: PowerComponent) -> Result<Option<PowerFormula>, Failure> {
    let name = entry["model"].as_str().and_then(ModelName::read).ok_or("no name")?;
    let features = entry["features"].as_array().ok_or("no features")?;
    let features = features.iter().filter_map(Value::as_str).map(str::to_string).collect();
    let kind = if name.trainer == "XgboostFitTrainer" {
        let pipeline = entry["path"].as_str().and_then(|path| path.split('/').next()).unwrap_or_default();
        let file =
            format!("{pipeline}/xgboost_AbsPower_BPFOnly_{}/{}.json", name.node_type, component.name());
        FormulaKind::XGBoost(Box::new(XgboostPredictor::parse(&std::fs::read_to_string(folder.join(file))?)?))
    } else {
        let parameters = &entry["params"][component.name()];
        let bias = parameters["intercept"].as_f64();
        let curve = |curve: CurveForm| -> Result<FormulaKind, Failure> {
            Ok(FormulaKind::Curve { curve, weights: list(&parameters["popt"])? })
        };
        match (name.trainer.as_str(), bias) {
            ("PolynomialRegressionTrainer", Some(bias)) => {
                FormulaKind::Polynomial { bias, weights: list(&parameters["coef"])? }
            }
            ("SGDRegressorTrainer" | "LinearRegressionTrainer", Some(bias)) => {
                FormulaKind::Linear { bias, weights: list(&parameters["coef"])? }
            }
            ("ExponentialRegressionTrainer", _) => curve(CurveForm::Exponential)?,
            ("LogarithmicRegressionTrainer", _) => curve(CurveForm::Logarithmic)?,
            ("LogisticRegressionTrainer", _) => curve(CurveForm::Logistic)?,
            _ => return Ok(None),
        }
    };
    Ok(Some(PowerFormula::new(component, features, list(&entry["scale"])?, kind)))
}
