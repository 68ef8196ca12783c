//! Makes `src/defaults.json`, the shipped predictors, from published measurements in FOLDER (the
//! data of kepler-model-db, Apache-2.0).
//!
//! ```text
//! cargo run --release -p metier-power --example defaults -- FOLDER >
//! crates/metier-power/src/defaults.json
//! ```
//!
//! Errors are of every fifth row, which is held out; the shipped predictor is the one that was
//! evaluated.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use metier_learn::TrainingTable;
use metier_learn::boost::{BoostedTrees, LossFunction, PackedTrees, Settings};
use metier_learn::score::PredictionScore;
use metier_power::frame::FeatureFrame;
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerComponent, PowerTrainer};
use metier_power::node::NodeTypeIndex;
use metier_power::nonnegative;
use metier_power::trainers::{self, HoldOutMethod};
use metier_power::weights::KeplerWeights;
use metier_types::random::SplitMix64;
use serde_json::{Value, json};

/// Cores of the training machine: stress ran on 4 to 40 threads, and at most 29.2 were busy; no
/// other specification was published.
const CORES: u32 = 40;
/// Rows are idle if their features are on average at most this share of the largest values.
const REST: f64 = 0.03;
/// Synthetic rows near each training row of the trees, and their largest distance as a logarithm.
const NEAR: usize = 3;
const JITTER: f64 = 0.08;

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let folder = Path::new(&folder);
    let mut models = Vec::new();
    for (source, word) in [(EnergySource::RaplSysfs, "rapl"), (EnergySource::Acpi, "acpi")] {
        for (output_type, table) in
            [(OutputType::AbsPower, "abs_default"), (OutputType::DynPower, "dyn_default_min")]
        {
            for group in [FeatureGroup::CounterOnly, FeatureGroup::BpfOnly] {
                let name = format!("nx12-train/preprocess_{table}_{word}_{}.csv", group.name());
                let frame = FeatureFrame::read_csv(fs::File::open(folder.join(name)).unwrap()).unwrap();
                models.push(model(&frame, source, output_type, group, false));
                if output_type == OutputType::AbsPower {
                    models.push(model(&frame, source, output_type, group, true));
                }
            }
        }
    }
    let frame = |word: &str| {
        let name = format!("nx12-train/preprocess_abs_default_{word}_CounterOnly.csv");
        FeatureFrame::read_csv(fs::File::open(folder.join(name)).unwrap()).unwrap()
    };
    let (rapl, acpi) = (frame("rapl"), frame("acpi"));
    let platform = acpi.watts(PowerComponent::Platform).unwrap();
    let parts: BTreeMap<PowerComponent, Value> = [PowerComponent::Package, PowerComponent::Dram]
        .into_iter()
        .map(|component| {
            let watts = rapl.watts(component).unwrap();
            let part = |share: f64| round(quantile(&watts, share) / quantile(&platform, share), 4);
            (component, json!({ "idle": part(0.05), "full": part(0.99) }))
        })
        .collect();
    let machines = machines(folder);
    let out = json!({
        "name": "metier-defaults",
        "provenance": "Predictors: 2202 rows of one machine under stress-ng (kepler-model-db 3bb4d645, models/v0.6/nx12, Apache-2.0), errors on every fifth row, which nothing was learned from; AutoTrainer's are small trees that were taught what the trainer's blend says. Classes: idle and full power of 142 machines by the published linear predictors of SPECpower results (models/v0.7/specpower-0.7.11, even node types).",
        "index": { "0": { "attrs": { "cores": CORES }, "members": ["nx12"] } },
        "models": models,
        "classes": classes(&machines),
        "apart": apart(&machines),
        "parts": parts,
    });
    println!("{}", serde_json::to_string(&out).unwrap());
}

fn round(value: f64, decimals: i32) -> f64 {
    let unit = 10f64.powi(decimals);
    (value * unit).round() / unit
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// A column under its older name: `bpf_cpu_time_us` counts milliseconds (at most 29,170 per second
/// on 40 threads), and page cache hits were not counted yet.
fn column(frame: &FeatureFrame, name: &str) -> Vec<f64> {
    let old = if name == "bpf_cpu_time_ms" { "bpf_cpu_time_us" } else { name };
    frame.column(old).map_or_else(|| vec![0.0; frame.len()], <[f64]>::to_vec)
}

fn model(
    frame: &FeatureFrame,
    source: EnergySource,
    output_type: OutputType,
    group: FeatureGroup,
    trees: bool,
) -> Value {
    let features = group.features();
    let columns: Vec<Vec<f64>> = features.iter().map(|name| column(frame, name)).collect();
    let (train, test): (Vec<usize>, Vec<usize>) = (0..frame.len()).partition(|row| row % 5 != 0);
    let (mut weights, mut errors) = (serde_json::Map::new(), BTreeMap::new());
    let mut worst = 0f64;
    for component in source.components() {
        let watts = frame.watts(*component).unwrap();
        let scale: Vec<f64> =
            columns.iter().map(|column| train.iter().map(|row| column[*row]).fold(0.0, f64::max)).collect();
        let scale: Vec<f64> = scale.iter().map(|most| if *most > 0.0 { *most } else { 1.0 }).collect();
        let at =
            |rows: &[usize], values: &[f64]| -> Vec<f64> { rows.iter().map(|row| values[*row]).collect() };
        let mut variables: BTreeMap<&str, Value> =
            features.iter().zip(&scale).map(|(name, scale)| (*name, json!({ "scale": scale }))).collect();
        let all = if !trees || watts.iter().all(|watts| *watts == 0.0) {
            // Dynamic power is a line through the origin, so that container powers add up.
            let of: Vec<Vec<f64>> = columns.iter().map(|column| at(&train, column)).collect();
            let of: Vec<&[f64]> = of.iter().map(Vec::as_slice).collect();
            let fit = nonnegative::fit(&of, &at(&train, &watts), output_type == OutputType::AbsPower);
            for ((name, weight), scale) in features.iter().zip(&fit.weights).zip(&scale) {
                variables.insert(name, json!({ "scale": scale, "weight": weight * scale }));
            }
            json!({ "Bias_Weight": fit.bias, "Categorical_Variables": {}, "Numerical_Variables": variables })
        } else {
            let student = student(&columns, &watts, &train, *component, group);
            json!({ "Categorical_Variables": {}, "Numerical_Variables": variables, "Metier_Trees": PackedTrees(student) })
        };
        weights.insert(component.name().to_string(), json!({ "All_Weights": all }));
        let one: serde_json::Map<String, Value> =
            [(component.name().to_string(), weights[component.name()].clone())].into_iter().collect();
        let formulas =
            KeplerWeights::read(&Value::Object(one)).unwrap().formulas(PowerTrainer::Auto.name()).unwrap();
        let predicted: Vec<f64> = test
            .iter()
            .map(|row| {
                let by_name: BTreeMap<&str, f64> =
                    features.iter().zip(&columns).map(|(name, column)| (*name, column[*row])).collect();
                let values: Vec<f64> =
                    formulas[0].1.features.iter().map(|name| by_name[name.as_str()]).collect();
                formulas[0].1.watts(&values).unwrap()
            })
            .collect();
        let measured = at(&test, &watts);
        let mae = measured.iter().zip(&predicted).map(|(is, estimate)| (is - estimate).abs()).sum::<f64>()
            / test.len() as f64;
        // Relative errors only for rows above one watt.
        let mape = PredictionScore::compute(&measured, &predicted, 1.0).and_then(|score| score.mape);
        errors.insert(format!("{}_mae", component.name()), round(mae, 2));
        if let Some(mape) = mape {
            errors.insert(format!("{}_mape", component.name()), round(mape * 100.0, 2));
        }
        worst = worst.max(mae);
    }
    errors.insert("mae".into(), round(worst, 2));
    let most = errors
        .iter()
        .filter(|(name, _)| name.ends_with("_mape"))
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    errors.insert("mape".into(), most);
    eprintln!("{} {} {}: {errors:?}", source.name(), output_type.name(), group.name());
    let trainer = if trees { PowerTrainer::Auto } else { PowerTrainer::Linear };
    json!({
        "name": format!("{}_0", trainer.name()), "source": source.name(), "output_type": output_type.name(), "group": group.name(),
        "errors": errors, "weights": weights,
    })
}

/// Distils the large blend of the `auto` trainer into small trees: fast enough for a hundred rows
/// in a request, and nearly as accurate.
///
/// The blend is trained on the training rows. The trees are trained on its predictions for those
/// rows, for rows near them, and for mixtures of idle and loaded rows; each error counts
/// relatively. Their inputs are features and ratios of two.
fn student(
    columns: &[Vec<f64>],
    watts: &[f64],
    train: &[usize],
    component: PowerComponent,
    group: FeatureGroup,
) -> BoostedTrees {
    let names = group.features();
    let mut frame = FeatureFrame::new(train.iter().map(|row| *row as f64).collect(), None).unwrap();
    for (name, column) in names.iter().zip(columns) {
        frame.set(name, train.iter().map(|row| column[*row]).collect()).unwrap();
    }
    frame.set(&component.column(), train.iter().map(|row| watts[*row]).collect()).unwrap();
    let settings = trainers::TrainerSettings {
        validation: HoldOutMethod::Rows,
        ..trainers::TrainerSettings::new(PowerTrainer::Auto, names, &[component])
    };
    let teacher = trainers::train(&frame, &settings, None).unwrap().predictor;
    let row = |row: usize| -> Vec<f64> { columns.iter().map(|column| column[row]).collect() };
    let most: Vec<f64> = columns
        .iter()
        .map(|column| train.iter().map(|row| column[*row]).fold(f64::MIN_POSITIVE, f64::max))
        .collect();
    let load = |row: usize| {
        columns.iter().zip(&most).map(|(column, most)| column[row] / most).sum::<f64>() / most.len() as f64
    };
    let (rest, work): (Vec<usize>, Vec<usize>) = train.iter().partition(|row| load(**row) < REST);
    let mut random = SplitMix64::new(1);
    let mut chance = || random.next_below(1 << 20) as f64 / (1 << 20) as f64;
    let mut rows: Vec<(Vec<f64>, f64)> = train.iter().map(|one| (row(*one), 1.0)).collect();
    for one in train.iter().cycle().take(NEAR * train.len()) {
        let near = row(*one).iter().map(|value| value * (JITTER * (2.0 * chance() - 1.0)).exp()).collect();
        rows.push((near, 0.5));
    }
    for (at, one) in work.iter().enumerate() {
        let (other, share) = (rest[(at * 7919) % rest.len()], chance());
        let (one, other) = (row(*one), row(other));
        let mixed = one.iter().zip(&other).map(|(one, other)| share * one + (1.0 - share) * other);
        rows.push((mixed.collect(), 0.5));
    }
    let mut asked: Vec<String> = names.iter().map(ToString::to_string).collect();
    for (at, one) in names.iter().enumerate() {
        asked.extend(names[at + 1..].iter().map(|other| format!("{one}/{other}")));
    }
    let mut table = TrainingTable::new(asked);
    let mut weights = Vec::new();
    for (at, (row, weight)) in rows.iter().enumerate() {
        let taught = teacher.predict(row).unwrap()[0].1.value;
        let mut all = row.clone();
        for (at, value) in row.iter().enumerate() {
            all.extend(row[at + 1..].iter().map(|other| if *other == 0.0 { 0.0 } else { value / other }));
        }
        table.push_row(&all, taught, at as u64).unwrap();
        weights.push(weight * 100.0 / taught.max(1.0));
    }
    let settings = Settings {
        loss: LossFunction::Absolute,
        trees: 80,
        leaves: if group == FeatureGroup::CounterOnly { 31 } else { 16 },
        depth: 7,
        leaf_rows: 3,
        rate: 0.12,
        seed: 1,
        ..Settings::default()
    };
    let mut trees = BoostedTrees::fit(&table.with_weights(weights).unwrap(), None, &settings)
        .unwrap()
        .to_single_precision();
    // No measurements exist between zero load and the smallest measured load; there idle power is
    // used instead of an extrapolation.
    let main = names.iter().position(|name| *name == "cpu_cycles").unwrap_or(0);
    let least = train.iter().map(|row| columns[main][*row]).fold(f64::INFINITY, f64::min);
    let of_train: Vec<f64> = train.iter().map(|row| watts[*row]).collect();
    let more = quantile(&of_train, 0.05) - trees.predict(&vec![0.0; table_width(names.len())]);
    let tree = json!({ "places": [
        { "feature": main, "value": 0.9 * least, "left": 1, "right": 2 }, { "value": more }, { "value": 0.0 },
    ] });
    trees.trees.push(serde_json::from_value(tree).unwrap());
    trees.to_single_precision()
}

/// Number of features and ratios of two.
fn table_width(features: usize) -> usize {
    features + features * (features - 1) / 2
}

/// Processor classes with their deviation: each published machine compared with the median of the
/// others of its class.
fn apart(machines: &[(String, f64, f64)]) -> Value {
    let mut begins = BEGINS;
    begins.sort_by_key(|begins| std::cmp::Reverse(begins.len()));
    let (mut idle, mut full) = (Vec::new(), Vec::new());
    for (own, (name, idle_watts, full_watts)) in machines.iter().enumerate() {
        let others = |begins: &str| -> Vec<&(String, f64, f64)> {
            let rest = machines.iter().enumerate().filter(|(number, _)| *number != own);
            rest.map(|(_, one)| one).filter(|(name, ..)| name.starts_with(begins)).collect()
        };
        let class = begins.iter().filter(|begins| name.starts_with(**begins)).map(|begins| others(begins));
        let Some(class) = class.into_iter().find(|class| !class.is_empty()) else { continue };
        let median = |of: fn(&(String, f64, f64)) -> f64| {
            quantile(&class.iter().map(|one| of(one)).collect::<Vec<f64>>(), 0.5)
        };
        idle.push(idle_watts / median(|one| one.1));
        full.push(full_watts / median(|one| one.2));
    }
    let ends = |factors: &mut Vec<f64>| {
        factors.sort_by(f64::total_cmp);
        // Conformal quantiles for one more machine: ranks of n + 1.
        let count = factors.len() as f64 + 1.0;
        let (low, high) = ((count * 0.05).floor() as usize, (count * 0.95).ceil() as usize);
        [round(factors[low - 1], 3), round(factors[high - 1], 3)]
    };
    let mape = |factors: &[f64]| {
        let errors = factors.iter().map(|factor| (1.0 - 1.0 / factor).abs());
        round(errors.sum::<f64>() / factors.len() as f64, 3)
    };
    json!({ "machines": idle.len(), "coverage": 0.9, "idle_mape": mape(&idle), "full_mape": mape(&full),
        "idle": ends(&mut idle), "full": ends(&mut full) })
}

/// Name prefixes of the processor classes.
const BEGINS: [&str; 21] = [
    "",
    "amd_epyc",
    "amd_epyc_7",
    "amd_epyc_8",
    "amd_epyc_9",
    "amd_opteron",
    "amd_opteron_6",
    "ampere",
    "arm",
    "intel_core",
    "intel_e3",
    "intel_xeon",
    "intel_xeon_e3",
    "intel_xeon_e5",
    "intel_xeon_e7",
    "intel_xeon_gold",
    "intel_xeon_platinum",
    "intel_xeon_silver",
    "intel_xeon_x3",
    "intel_xeon_x5",
    "intel_xeon_l5",
];

/// Idle and full power per core by name prefix: medians of the published linear predictors.
fn classes(machines: &[(String, f64, f64)]) -> Vec<Value> {
    let mut classes = Vec::new();
    for begins in BEGINS {
        let of: Vec<&(String, f64, f64)> =
            machines.iter().filter(|(name, ..)| name.starts_with(begins)).collect();
        if of.is_empty() {
            continue;
        }
        let idle: Vec<f64> = of.iter().map(|one| one.1).collect();
        let full: Vec<f64> = of.iter().map(|one| one.2).collect();
        classes.push(json!({
            "begins": begins, "machines": of.len(), "idle_watts": round(quantile(&idle, 0.5), 3), "full_watts": round(quantile(&full, 0.5), 3),
        }));
    }
    classes
}

/// Processor, idle and full power per core of the published machines.
fn machines(folder: &Path) -> Vec<(String, f64, f64)> {
    let text = fs::read_to_string(folder.join("specpower-0.7.11/node_type_index.json")).unwrap();
    let index = NodeTypeIndex::read(&text).unwrap();
    let weights: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("specpower-0.7.11/weights_half.json")).unwrap())
            .unwrap();
    let mut machines = Vec::new();
    for (name, weights) in weights.as_object().unwrap() {
        let Some(number) = name.strip_prefix("acpi/AbsPower/BPFOnly/SGDRegressorTrainer_") else { continue };
        let entry = &index.0[&number.trim_end_matches(".json").parse().unwrap()];
        let (Some(processor), Some(cores)) = (entry.spec.processor.clone(), entry.spec.cores) else {
            continue;
        };
        let formulas = KeplerWeights::read(weights).unwrap().formulas("SGDRegressorTrainer").unwrap();
        let formula = &formulas[0].1;
        let (idle, full) =
            (formula.watts(&[0.0, 0.0]).unwrap(), formula.watts(&[formula.scale[0], 0.0]).unwrap());
        machines.push((processor, idle / cores, full / cores));
    }
    machines
}
