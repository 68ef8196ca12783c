//! Predictors that were learned: their files, and what they say.

use std::collections::{BTreeMap, BTreeSet};

use crate::operator_model::adapt::{Adaptation, Measured};
use crate::operator_model::{Answer, Part, Predictor as Law, Pressure};
use metier_learn::boost::Boosted;
use metier_learn::conformal::Calibration;
use metier_types::{DeviceRef, Digest, Passport, Precision};
use serde::{Deserialize, Serialize};

use super::conditions::Conditions;
use super::error::Error;
use super::physical::{self, Known, Speeds};
use super::step::{self, Step};
use super::trial::record::Kept;
use super::{COVERAGE, Counts};
use crate::lifecycle;

/// What `kind` says in the record of such a predictor.
pub const KIND: &str = "latency";
/// The schema of its file.
pub const SCHEMA: &str = "metier.latency/1";

/// The file of a predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// `metier.latency/1`.
    pub schema: String,
    /// Which version of the counts it learned from ([`step::COUNTED`]).
    #[serde(default)]
    pub counted: u32,
    /// Where it was learned.
    pub device: DeviceRef,
    /// Processors of that device.
    pub cores: u32,
    /// What its passport said, so that it can be carried over to other devices.
    pub passport: Option<Passport>,
    /// What was learned of graphs.
    pub law: Law,
    /// What was learned of counts alone.
    pub counts: Option<CountsLaw>,
}

/// From the counts of the SOPRANO profiler and the number of threads to the logarithm of seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountsLaw {
    pub trees: Boosted,
    pub calibration: Calibration,
    /// Smallest and largest value of each feature.
    pub range: Vec<(f64, f64)>,
}

/// A predictor that is in use.
#[derive(Debug, Clone)]
pub struct Learned {
    pub id: Digest,
    pub file: File,
    /// What was learned of other devices, and of the other runtime, from a few graphs: by device and runtime.
    pub elsewhere: BTreeMap<(String, String), Moved>,
}

/// How a few graphs that were measured elsewhere move a predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    pub by: Adaptation,
    /// Graphs that say so.
    pub graphs: usize,
    /// Error on a graph that was left out, as a logarithm: root of the mean square; `None` for a single graph.
    pub spread: Option<f64>,
    /// Whether all of them ran beside others, whose share was taken off by what load was learned to cost.
    pub is_busy: bool,
}

/// 95 of 100 draws of Student's t lie below, for 1, 2, … degrees of freedom; the last stands for all that follow.
const STUDENT: [f64; 12] = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.75];
/// Below this no few graphs can say how far off others are.
const LEAST_SPREAD: f64 = 0.05;

impl Moved {
    /// From graphs by name, each with one or more points.
    pub fn fit(measured: &[(String, Measured)]) -> Self {
        let prior = Adaptation::prior(1.0);
        let of = |is: &dyn Fn(&str) -> bool| -> Vec<Measured> {
            measured.iter().filter(|(name, _)| is(name)).map(|(_, one)| one.clone()).collect()
        };
        let names: BTreeSet<&str> = measured.iter().map(|(name, _)| name.as_str()).collect();
        let mut squares = Vec::new();
        for left_out in names.iter().filter(|_| names.len() > 1) {
            let rest = Adaptation::fit(&prior, &of(&|name| name != *left_out));
            let own = of(&|name| name == *left_out);
            let error = |one: &Measured| (one.seconds / rest.apply(&one.seconds_by_family)).ln().powi(2);
            squares.push(own.iter().map(error).sum::<f64>() / own.len() as f64);
        }
        let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
        let spread = (!squares.is_empty()).then(|| mean.sqrt().max(LEAST_SPREAD));
        Self { by: Adaptation::fit(&prior, &of(&|_| true)), graphs: names.len(), spread, is_busy: false }
    }

    /// Factor to either side that holds for 9 of 10 graphs if errors are normal on the logarithm; `None` for a single graph.
    fn factor(&self) -> Option<f64> {
        let freedom = self.graphs.checked_sub(2)?;
        let student = STUDENT.get(freedom).or(STUDENT.last())?;
        Some((student * self.spread? * (1.0 + 1.0 / self.graphs as f64).sqrt()).exp())
    }
}

/// Share of a graph's time that moves bytes, where it is not known.
const USUALLY_MOVING: f64 = 0.3;
/// 90 of 100 draws of a normal variable lie within so many of its deviations.
const NORMAL: f64 = 1.645;
/// No interval reaches farther, as a logarithm.
const FARTHEST: f64 = 5.0;

/// What a condition means on a device of so many processors.
pub fn pressure(conditions: &Conditions, cores: f64) -> Pressure {
    let share = |load: Option<metier_types::Ratio>| load.map_or(0.0, |load| load.get().clamp(0.0, 1.0));
    let only_cpu = Conditions { memory_load: None, ..conditions.clone() };
    Pressure {
        sharing: physical::slowdown(&only_cpu, cores, 0.0).ln(),
        cpu: share(conditions.cpu_load),
        memory: share(conditions.memory_load),
    }
}

/// Steps as the learning side takes them.
pub fn parts(steps: &[Step], threads: u32) -> Vec<Part> {
    steps
        .iter()
        .map(|step| {
            let mut features = step.features.to_vec();
            if let Some(last) = features.last_mut() {
                *last = f64::from(threads);
            }
            Part {
                family: step.family.name().to_string(),
                kind: step.kind.clone(),
                turns: step.turns as f64,
                basis: step.basis.to_vec(),
                features,
                seconds: None,
            }
        })
        .collect()
}

impl File {
    /// Reads a file, checked.
    pub fn read(id: &Digest, bytes: &[u8]) -> Result<Self, lifecycle::Error> {
        let wrong = |why: String| lifecycle::Error::unusable(id, why);
        let file: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if file.schema != SCHEMA {
            return Err(wrong(format!("schema is {:?}; want {SCHEMA:?}", file.schema)));
        }
        file.law.check().map_err(|error| wrong(error.to_string()))?;
        let is_alike = file.law.basis == step::BASIS.len() && file.law.features == step::FEATURES;
        if !is_alike || file.counted != step::COUNTED {
            return Err(wrong("it was learned by another version, from other features".to_string()));
        }
        Ok(file)
    }
}

impl Learned {
    /// Whether it was learned on this device.
    pub fn is_of(&self, passport: &Passport) -> bool {
        let id = self.file.device.id.as_str();
        passport.id == id || passport.device.id.as_str() == id
    }

    /// What it says on its own device.
    pub fn tell(&self, steps: &[Step], conditions: &Conditions) -> Answer {
        let pressure = pressure(conditions, f64::from(self.file.cores));
        self.file.law.tell(&parts(steps, conditions.threads), conditions.threads, pressure, COVERAGE)
    }

    /// What is known of a device and runtime that it was not learned for, from graphs that were measured there.
    pub fn moved(&self, passport: &Passport, runtime: &str) -> Option<&Moved> {
        self.elsewhere.get(&(passport.device.id.to_string(), runtime.to_string()))
    }

    /// What it says of another device or runtime: scaled, operator by operator, by what the two passports say, or moved by what a few graphs there took.
    pub fn tell_elsewhere(
        &self,
        steps: &[Step],
        conditions: &Conditions,
        passport: &Passport,
        precision: Precision,
    ) -> Result<Option<Answer>, Error> {
        let Some((here, there, alone)) = self.speeds(passport, conditions, precision)? else {
            return Ok(None);
        };
        let mut answer = self.tell(steps, &alone);
        let moved = self.moved(passport, &conditions.runtime);
        for (step, seconds) in steps.iter().zip(&mut answer.each) {
            *seconds *= match moved {
                Some(moved) => here.adds / there.adds * moved.by.factor(step.family.name()),
                None => physical::seconds(step, &there, conditions) / physical::seconds(step, &here, &alone),
            };
        }
        // What others cost is taken to be the same there.
        let slowdown = &self.file.law.slowdown;
        let pressure = pressure(conditions, there.cores);
        let slow = slowdown.logarithm(pressure, USUALLY_MOVING, conditions.threads).exp();
        answer.each.iter_mut().for_each(|one| *one *= slow);
        answer.seconds = answer.each.iter().sum();
        // A few graphs say how far off the others may be; none leave what a passport alone leaves.
        // So few never make it wider than that.
        let passports = there.reach();
        let factor = moved
            .and_then(Moved::factor)
            .map_or(passports, |factor| factor.max(answer.factor).min(passports));
        let is_idle = pressure.is_idle() && moved.is_none_or(|moved| !moved.is_busy);
        let by_load = if is_idle { 0.0 } else { NORMAL * slowdown.spread };
        answer.factor = factor.ln().hypot(by_load).min(FARTHEST).exp();
        answer.in_range = answer.in_range && moved.is_some_and(|moved| moved.graphs >= 5 && !moved.is_busy);
        Ok(Some(answer))
    }

    /// Where an answer for elsewhere comes from, in words.
    pub fn source_elsewhere(&self, passport: &Passport, runtime: &str) -> String {
        let home = &self.file;
        let with = match home.law.runtime == runtime {
            true => String::new(),
            false => format!(" with {}", home.law.runtime),
        };
        let learned = format!("learned{with} on {}", home.device.name);
        match self.moved(passport, runtime) {
            Some(moved) => {
                let (count, s) = (moved.graphs, if moved.graphs == 1 { "" } else { "s" });
                let busy = if moved.is_busy { ", all beside other work" } else { "" };
                format!(
                    "{learned}, moved by {count} graph{s} timed with {runtime} on {}{busy}",
                    passport.name
                )
            }
            None if self.is_of(passport) => {
                format!("{learned}, and no graph was timed with {runtime}, so the interval is wide")
            }
            None => format!(
                "{learned}, carried over by the two passports; no graph was timed on {}, so the interval is wide",
                passport.name
            ),
        }
    }

    /// What the passports say of where it was learned and of elsewhere, and the conditions at home.
    fn speeds(
        &self,
        passport: &Passport,
        conditions: &Conditions,
        precision: Precision,
    ) -> Result<Option<(Speeds, Speeds, Conditions)>, Error> {
        let threads = conditions.threads.min(self.file.cores);
        let runtime = self.file.law.runtime.clone();
        let alone = Conditions { runtime, threads, cpu_load: None, memory_load: None };
        // The same device needs no passport to be as fast as itself; only what its runtimes are apart counts.
        if self.is_of(passport) {
            let cores = f64::from(self.file.cores);
            let some = Speeds { adds: 50e9, bytes: 10e9, cores, known: Known::Guessed };
            let known = self.file.passport.as_ref().unwrap_or(passport);
            let same = Speeds::of(known, threads, precision).unwrap_or(some);
            return Ok(Some((same, same, alone)));
        }
        let Some(home) = &self.file.passport else { return Ok(None) };
        let here = Speeds::of(home, threads, precision)?;
        let there = Speeds::of(passport, conditions.threads, precision)?;
        Ok(Some((here, there, alone)))
    }

    /// A graph that was timed elsewhere, beside what is said of it by passports alone.
    pub fn measured_elsewhere(&self, kept: &Kept, passport: &Passport) -> Option<Measured> {
        let conditions = Conditions { threads: kept.threads, ..Conditions::default() };
        let (here, there, alone) = self.speeds(passport, &conditions, Precision::F32).ok()??;
        let (point, law) = (kept.point(), &self.file.law);
        // Another version may have counted otherwise.
        if !kept.is_of_this_version() {
            return None;
        }
        let answer = law.tell(&point.parts, alone.threads, Pressure::default(), COVERAGE);
        let mut sums = BTreeMap::new();
        for (part, seconds) in point.parts.iter().zip(&answer.each) {
            *sums.entry(part.family.clone()).or_insert(0.0) += seconds * here.adds / there.adds;
        }
        // What others cost there is taken to be what they cost here.
        let slow = law.slowdown.logarithm(kept.pressure, USUALLY_MOVING, kept.threads).exp();
        Some(Measured { seconds_by_family: sums, seconds: kept.seconds / slow })
    }

    /// Seconds and factor for a graph of which only counts are known, and whether they are like those that were seen; `None` where it has not learned that, or nothing
    /// leads from where it was learned to where it is asked for.
    ///
    /// In another runtime, on another device, or with a number of threads that was never tried, what it says is scaled by what passports say of such counts there and here.
    pub fn counts(
        &self,
        counts: &Counts,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Option<(f64, f64, bool)> {
        let law = self.file.counts.as_ref()?;
        let is_own = self.is_of(passport) && self.file.law.runtime == conditions.runtime;
        let (least, most) = law.range.last().copied().unwrap_or((1.0, 1.0));
        let tried = f64::from(conditions.threads).clamp(least.max(1.0), most.max(least).max(1.0)) as u32;
        let row = counts_row(counts.features(), tried);
        let (ratio, cores, by_passports) = if is_own && tried == conditions.threads {
            (1.0, f64::from(self.file.cores), 1.0)
        } else {
            self.counts_ratio(counts, passport, conditions, tried)?
        };
        let pressure = pressure(conditions, cores);
        let slow = self.file.law.slowdown.logarithm(pressure, USUALLY_MOVING, tried);
        let seconds = (law.trees.predict(&row) + slow).exp() * ratio;
        let reach = law.calibration.reach(COVERAGE).unwrap_or(2.5);
        let mut is_inside = law
            .range
            .iter()
            .zip(&row)
            .all(|((low, high), value)| value.is_finite() && *value >= low - 1.0 && *value <= high + 1.0);
        let mut reach = reach * if is_inside { 1.0 } else { 1.5 };
        if !is_own {
            // What passports leave open comes on top of what the counts do.
            reach = reach.hypot(by_passports.ln());
            is_inside = false;
        }
        Some((seconds, reach.min(7.0).exp(), is_inside))
    }

    /// By how much a graph of such counts takes longer than where it was learned, with so many threads there; the processors that it has; and the factor to either side that passports leave.
    fn counts_ratio(
        &self,
        counts: &Counts,
        passport: &Passport,
        conditions: &Conditions,
        tried: u32,
    ) -> Option<(f64, f64, f64)> {
        let home = self.file.passport.as_ref();
        let (here, there) = if self.is_of(passport) {
            let cores = f64::from(self.file.cores);
            let some = Speeds { adds: 50e9, bytes: 10e9, cores, known: Known::Guessed };
            let of = |threads| Speeds::of(home.unwrap_or(passport), threads, Precision::F32).unwrap_or(some);
            (of(tried), of(conditions.threads))
        } else {
            let there = Speeds::of(passport, conditions.threads, Precision::F32).ok()?;
            (Speeds::of(home?, tried, Precision::F32).ok()?, there)
        };
        let ratio = match self.moved(passport, &conditions.runtime) {
            // Graphs that were timed there say more than what runtimes usually are apart.
            Some(moved) => here.adds / there.adds * moved.by.common.exp(),
            None => {
                super::counts::seconds(counts, &there, &conditions.runtime)
                    / super::counts::seconds(counts, &here, &self.file.law.runtime)
            }
        };
        // The same device is as fast as itself: what is open is how far its runtimes are apart.
        let reach = if self.is_of(passport) { physical::REACH } else { there.reach() };
        Some((ratio, there.cores, reach))
    }
}

/// Counts and threads as the trees take them.
pub fn counts_row(counts: [f64; 7], threads: u32) -> Vec<f64> {
    counts.into_iter().chain([f64::from(threads)]).collect()
}

pub const COUNTS: [&str; 8] = [
    "conv_layers",
    "pool_layers",
    "fc_layers",
    "filter_details",
    "total_parameters",
    "model_input_size",
    "model_output_size",
    "threads",
];

#[cfg(test)]
mod tests;
