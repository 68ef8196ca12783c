//! Accuracy of choosing the fastest of five platforms for a workload that has never run: the
//! figures behind `bench/choice/run`.
//!
//! `choice FOLDER` reads `solo.csv`, `workloads.csv` and `platforms.csv` there and prints JSON.
//! Hashes of the names of workloads, devices and rows determine what is held out, before anything
//! is fitted.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;

use metier_learn::cross_validation::hash_group;
use metier_learn::factor::{
    CalibratedFactorPredictor, FactorPredictor, FactorTrainingSet, RunObservation, Settings,
};
use metier_learn::linear_algebra::DenseMatrix;
use metier_learn::score::quantile;
use metier_types::random::{SplitMix64, mix_bits};
use serde_json::{Value, json};

const FOLDS: u64 = 5;
const DRAWS: usize = 200;
const RESAMPLES: usize = 1000;
const MOST_RUNS: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// Moves `count` random elements to the front.
fn front<T>(random: &mut SplitMix64, list: &mut [T], count: usize) {
    for at in 0..count.min(list.len()) {
        let other = at + random.next_below(list.len() - at);
        list.swap(at, other);
    }
}

/// Name of a workload's program without its input size, so that all sizes are held out together.
fn program(name: &str) -> String {
    let name = ["polybench/small/", "polybench/medium/", "polybench/large/"]
        .iter()
        .find_map(|size| name.strip_prefix(size).map(|rest| format!("polybench/{rest}")))
        .unwrap_or_else(|| name.to_string());
    let cut =
        ["_s", "_m", "_l", "_small", "_medium", "_large"].iter().find_map(|size| name.strip_suffix(size));
    cut.unwrap_or(&name).to_string()
}

struct World {
    runs: FactorTrainingSet,
    workload_names: Vec<String>,
    platform_names: Vec<String>,
}

fn matrix(text: &str, sum: bool) -> Result<(Vec<String>, DenseMatrix), Failure> {
    let mut names = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines().skip(1) {
        let mut cells = line.split(',');
        names.push(cells.next().unwrap_or_default().to_string());
        let mut row = cells.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        if sum {
            // The total amount of work: the logarithm of the sum of all opcodes.
            row.push(row.iter().map(|log| log.exp() - 1.0).sum::<f64>().ln_1p());
        }
        rows.push(row);
    }
    Ok((names, DenseMatrix::from_rows(&rows)?))
}

fn read(folder: &str, by_program: bool) -> Result<World, Failure> {
    let open = |name: &str| std::fs::read_to_string(format!("{folder}/{name}"));
    let (workload_names, workloads) = matrix(&open("workloads.csv")?, true)?;
    let (platform_names, platforms) = matrix(&open("platforms.csv")?, false)?;
    let place = |names: &[String]| -> BTreeMap<String, usize> { names.iter().cloned().zip(0..).collect() };
    let (of_workload, of_platform) = (place(&workload_names), place(&platform_names));
    let mut runs = Vec::new();
    for line in open("solo.csv")?.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [workload, platform, seconds] = cells[..] else { return Err(format!("solo.csv: {line}").into()) };
        let (Some(workload), Some(platform)) = (of_workload.get(workload), of_platform.get(platform)) else {
            continue;
        };
        runs.push(RunObservation {
            workload: *workload,
            platform: *platform,
            log_seconds: seconds.parse::<f64>()?.ln(),
        });
    }
    let group = |name: &String| hash_group(&if by_program { program(name) } else { name.clone() });
    let groups = workload_names.iter().map(group).collect();
    Ok(World {
        runs: FactorTrainingSet { workloads, platforms, groups, runs },
        workload_names,
        platform_names,
    })
}

fn fold(group: u64) -> u64 {
    mix_bits(group ^ 0x6d65_7469_6572) % FOLDS
}

/// Gain of each method of choosing in each draw, with the workload's group.
#[derive(Default)]
struct Outcomes(BTreeMap<String, Vec<(u64, f64)>>);

impl Outcomes {
    fn add(&mut self, way: &str, group: u64, times: &[f64], chosen: usize) {
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        self.0.entry(way.to_string()).or_default().push((group, (times[chosen] - best).exp()));
    }

    fn summary(&self) -> Value {
        let line = |(way, list): (&String, &Vec<(u64, f64)>)| {
            let hit = |list: &[f64]| {
                list.iter().filter(|regret| **regret <= 1.0).count() as f64 / list.len() as f64
            };
            let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
            (
                way.clone(),
                json!({
                    "draws": list.len(),
                    "hit": bootstrap(list, hit), "regret_mean": bootstrap(list, mean), "regret_p90": bootstrap(list, |list| upper(list, 0.9)),
                }),
            )
        };
        self.0.iter().map(line).collect::<serde_json::Map<_, _>>().into()
    }
}

fn upper(list: &[f64], share: f64) -> f64 {
    let mut sorted = list.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, share).unwrap_or(f64::NAN)
}

/// A figure and its 95 % interval, from resamples of whole groups.
fn bootstrap(list: &[(u64, f64)], of: impl Fn(&[f64]) -> f64) -> Value {
    let mut by_group: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    list.iter().for_each(|(group, value)| by_group.entry(*group).or_default().push(*value));
    let groups: Vec<&Vec<f64>> = by_group.values().collect();
    let mut chance = SplitMix64::new(7);
    let mut figures: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<f64> = (0..groups.len())
                .flat_map(|_| groups[chance.next_below(groups.len())].iter().copied())
                .collect();
            of(&drawn)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    let all: Vec<f64> = list.iter().map(|(_, value)| *value).collect();
    json!({"value": of(&all), "low": figures[RESAMPLES / 40], "high": figures[RESAMPLES - 1 - RESAMPLES / 40], "groups": groups.len()})
}

fn least(list: impl Iterator<Item = f64>) -> usize {
    list.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
}

/// Predictions from each platform's passport with its device held out: the effect alone, and all
/// numbers with their fitted model.
struct Passports {
    effect: Vec<f64>,
    whole: Vec<(usize, Vec<f64>)>,
    sums: Vec<FactorPredictor>,
}

fn passports(world: &World, train: &FactorTrainingSet, settings: &Settings) -> Result<Passports, Failure> {
    let count = world.platform_names.len();
    let device = |name: &str| hash_group(name.split(':').nth(1).unwrap_or(name));
    let mut out =
        Passports { effect: vec![0.0; count], whole: vec![(0, Vec::new()); count], sums: Vec::new() };
    for number in 0..FOLDS {
        let (test, keep): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|at| fold(device(&world.platform_names[*at])) == number);
        let rest = train.select_platforms(&keep);
        let plain = FactorPredictor::fit(&rest, &Settings { rank: 0, ..settings.clone() })?;
        let sum = FactorPredictor::fit(&rest, settings)?;
        for at in test {
            let passport = train.platforms.row(at);
            out.effect[at] = plain.estimate_platform(passport, &[])?.numbers()[0];
            out.whole[at] = (out.sums.len(), sum.estimate_platform(passport, &[])?.numbers().to_vec());
        }
        out.sums.push(sum);
    }
    Ok(out)
}

fn choose(world: &World, settings: &Settings) -> Result<Value, Failure> {
    let mut outcomes = Outcomes::default();
    let mut errors: BTreeMap<usize, Vec<(u64, f64)>> = BTreeMap::new();
    let mut covered: BTreeMap<usize, Vec<(u64, f64)>> = BTreeMap::new();
    let runs = &world.runs;
    let mut chance = SplitMix64::new(1);
    for number in 0..FOLDS {
        let (test, keep): (Vec<usize>, Vec<usize>) =
            (0..world.workload_names.len()).partition(|at| fold(runs.groups[*at]) == number);
        let train = runs.select_workloads(&keep);
        let ours = CalibratedFactorPredictor::fit(&train, settings, 5)?;
        let average = FactorPredictor::fit(&train, &Settings { rank: 0, ..settings.clone() })?;
        let passports = passports(world, &train, settings)?;
        for workload in test {
            let (group, features) = (runs.groups[workload], runs.workloads.row(workload));
            let mut own: Vec<(usize, f64)> = runs
                .runs
                .iter()
                .filter(|run| run.workload == workload)
                .map(|run| (run.platform, run.log_seconds))
                .collect();
            let unseen = passports
                .sums
                .iter()
                .map(|sum| sum.estimate_workload(features, &[]))
                .collect::<Result<Vec<_>, _>>()?;
            let prior = ours.factored.estimate_workload(features, &[])?;
            for draw in 0..DRAWS {
                front(&mut chance, &mut own, 5 + MOST_RUNS);
                let times: Vec<f64> = own[..5].iter().map(|(_, log)| *log).collect();
                let mut pick = |way: &str, chosen: usize| outcomes.add(way, group, &times, chosen);
                pick("random", chance.next_below(5));
                pick(
                    "best on average",
                    least(own[..5].iter().map(|(platform, _)| average.platforms.row(*platform)[0])),
                );
                pick(
                    "passport only",
                    least(own[..5].iter().map(|(platform, _)| passports.effect[*platform])),
                );
                pick(
                    "passport and features, device unseen",
                    least(own[..5].iter().map(|(platform, _)| {
                        let (sum, numbers) = &passports.whole[*platform];
                        unseen[*sum].predict_log_seconds(numbers).0
                    })),
                );
                let mut guess = prior.clone();
                for count in 0..=MOST_RUNS {
                    if let Some((platform, log)) = count.checked_sub(1).map(|last| own[5 + last]) {
                        guess.add_run(ours.factored.platforms.row(platform), log);
                    }
                    let said = |platform: usize| {
                        ours.predict_interval(&guess, ours.factored.platforms.row(platform), 0.9)
                    };
                    pick(
                        &format!("ours, {count} runs"),
                        least(own[..5].iter().map(|(platform, _)| said(*platform).seconds)),
                    );
                    if draw < 20 {
                        for (platform, log) in &own[..5] {
                            let (said, seconds) = (said(*platform), log.exp());
                            errors
                                .entry(count)
                                .or_default()
                                .push((group, (said.seconds - seconds).abs() / seconds));
                            let inside = said.low.is_some_and(|low| low <= seconds)
                                && said.high.is_some_and(|high| seconds <= high);
                            covered.entry(count).or_default().push((group, f64::from(u8::from(inside))));
                        }
                    }
                }
            }
        }
    }
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
    let accuracy: Vec<Value> = errors.iter().map(|(count, list)| json!({
        "runs": count, "mape": bootstrap(list, mean), "median": bootstrap(list, |list| upper(list, 0.5)), "coverage": bootstrap(&covered[count], mean),
    })).collect();
    Ok(json!({"choice": outcomes.summary(), "accuracy": accuracy}))
}

/// Errors on held-out devices, by the number of workloads measured on them.
fn new_devices(world: &World, settings: &Settings) -> Result<Value, Failure> {
    let device = |at: usize| hash_group(world.platform_names[at].split(':').nth(1).unwrap_or_default());
    let mut errors: BTreeMap<usize, Vec<(u64, f64)>> = BTreeMap::new();
    let mut chance = SplitMix64::new(2);
    for number in 0..FOLDS {
        let (test, keep): (Vec<usize>, Vec<usize>) =
            (0..world.platform_names.len()).partition(|at| fold(device(*at)) == number);
        let sum = FactorPredictor::fit(&world.runs.select_platforms(&keep), settings)?;
        for platform in test {
            let mut own: Vec<(usize, f64)> = world
                .runs
                .runs
                .iter()
                .filter(|run| run.platform == platform)
                .map(|run| (run.workload, run.log_seconds))
                .collect();
            let length = own.len();
            front(&mut chance, &mut own, length);
            for count in [0, 1, 3, 5, 10, 20] {
                let guess = sum.estimate_platform(world.runs.platforms.row(platform), &own[..count])?;
                for (workload, log) in &own[20..] {
                    let said = guess.predict_log_seconds(sum.workloads.row(*workload)).0;
                    errors
                        .entry(count)
                        .or_default()
                        .push((device(platform), ((said - log).exp() - 1.0).abs()));
                }
            }
        }
    }
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
    Ok(errors.iter().map(|(count, list)| json!({"workloads": count, "mape": bootstrap(list, mean), "median": bootstrap(list, |list| upper(list, 0.5))})).collect())
}

/// Held-out rows of known workloads and platforms.
fn rows(world: &World, share: f64, settings: Option<Settings>) -> Result<Value, Failure> {
    let is_train = |run: &RunObservation| {
        let hash = mix_bits(hash_group(&format!(
            "{}@{}",
            world.workload_names[run.workload], world.platform_names[run.platform]
        )));
        ((hash >> 11) as f64 / (1u64 << 53) as f64) < share
    };
    let (train, test): (Vec<RunObservation>, Vec<RunObservation>) =
        world.runs.runs.iter().copied().partition(is_train);
    let train = FactorTrainingSet { runs: train, ..world.runs.clone() };
    let is_tuned = settings.is_none();
    let settings = settings.map_or_else(|| Settings::tune(&train, 1), Ok)?;
    let sum = FactorPredictor::fit(&train, &settings)?;
    let errors = test.iter().map(|run| {
        ((sum.predict_log_seconds(run.workload, run.platform) - run.log_seconds).exp() - 1.0).abs()
    });
    let mape = errors.sum::<f64>() / test.len() as f64;
    Ok(
        json!({"share": share, "rank": settings.rank, "ridge": settings.ridge, "tuned": is_tuned, "mape": mape}),
    )
}

fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).ok_or("usage: choice FOLDER")?;
    let world = read(&folder, true)?;
    let settings = Settings::default();
    let by_program = choose(&world, &settings)?;
    let by_workload = choose(&read(&folder, false)?, &settings)?;
    let mut row_split = Vec::new();
    for share in [0.9, 0.1] {
        let plain = Settings { rank: 8, ridge: 1.0, ..settings.clone() };
        row_split.push(rows(&world, share, Some(plain))?);
        row_split.push(rows(&world, share, None)?);
    }
    let out = json!({
        "workloads": world.workload_names.len(), "platforms": world.platform_names.len(), "runs": world.runs.runs.len(),
        "programs": world.runs.groups.iter().collect::<std::collections::BTreeSet<_>>().len(),
        "rank": settings.rank, "ridge": settings.ridge,
        "by_program": by_program, "by_workload": by_workload,
        "new_devices": new_devices(&world, &settings)?, "row_split": row_split,
    });
    println!("{out}");
    Ok(())
}
