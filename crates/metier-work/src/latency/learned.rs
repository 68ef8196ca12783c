//! Predictors that were learned: their files, and what they say.

use std::collections::BTreeMap;

use metier_learn::boost::Boosted;
use metier_learn::conformal::Calibration;
use metier_learn::latency::adapt::{Adaptation, Measured};
use metier_learn::latency::{Answer, Part, Predictor as Law, Pressure};
use metier_types::{DeviceRef, Digest, Passport, Precision};
use serde::{Deserialize, Serialize};

use super::conditions::Conditions;
use super::error::Error;
use super::physical::{self, Speeds};
use super::step::{self, Step};
use super::trial::record::Kept;
use super::{COVERAGE, Counts};

/// What `kind` says in the record of such a predictor.
pub const KIND: &str = "latency";
/// The schema of its file.
pub const SCHEMA: &str = "metier.latency/1";

/// The file of a predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// `metier.latency/1`.
    pub schema: String,
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
    /// The trees.
    pub trees: Boosted,
    /// Intervals.
    pub calibration: Calibration,
    /// Smallest and largest value of each feature.
    pub range: Vec<(f64, f64)>,
}

/// A predictor that is in use.
#[derive(Debug, Clone)]
pub struct Learned {
    /// Its id.
    pub id: Digest,
    /// Its file.
    pub file: File,
    /// What was learned of other devices from a few graphs, by device.
    pub elsewhere: BTreeMap<String, Adaptation>,
}

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
    pub fn read(id: &Digest, bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |why: String| Error::Predictor { id: id.to_string(), why };
        let file: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if file.schema != SCHEMA {
            return Err(wrong(format!("schema is {:?}; want {SCHEMA:?}", file.schema)));
        }
        file.law.check().map_err(|error| wrong(error.to_string()))?;
        if file.law.basis != step::BASIS.len() || file.law.features != step::FEATURES {
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

    /// What it says of another device: scaled, operator by operator, by what the two passports say, and by what a few graphs there took.
    pub fn tell_elsewhere(
        &self,
        steps: &[Step],
        conditions: &Conditions,
        passport: &Passport,
        precision: Precision,
    ) -> Result<Option<(Answer, u64)>, Error> {
        let Some(home) = &self.file.passport else { return Ok(None) };
        let home_threads = conditions.threads.min(self.file.cores);
        let here = Speeds::of(home, home_threads, precision)?;
        let there = Speeds::of(passport, conditions.threads, precision)?;
        let alone =
            Conditions { threads: home_threads, cpu_load: None, memory_load: None, ..conditions.clone() };
        let mut answer = self.tell(steps, &alone);
        let adapted = self.elsewhere.get(passport.device.id.as_str());
        let mut sum = 0.0;
        for (step, seconds) in steps.iter().zip(&mut answer.each) {
            *seconds *= match adapted {
                Some(one) => here.adds / there.adds * one.factor(step.family.name()),
                None => physical::seconds(step, &there, conditions) / physical::seconds(step, &here, &alone),
            };
            sum += *seconds;
        }
        let slow = physical::slowdown(conditions, there.cores, 0.3);
        answer.each.iter_mut().for_each(|one| *one *= slow);
        answer.seconds = sum * slow;
        let graphs = adapted.map_or(0, |one| one.graphs);
        // A few graphs say how far off the others may be; none leave what a passport alone leaves.
        answer.factor = match adapted.filter(|one| one.graphs >= 2) {
            Some(one) => {
                (2.5 * one.spread.max(0.1) * (1.0 + 2.0 / one.graphs as f64)).exp().max(answer.factor)
            }
            None => there.reach(),
        };
        answer.in_range = answer.in_range && graphs >= 5;
        Ok(Some((answer, graphs)))
    }

    /// A graph that was timed on another device, beside what is said of it by passports alone.
    pub fn measured_elsewhere(&self, kept: &Kept, passport: &Passport) -> Option<Measured> {
        let home = self.file.passport.as_ref()?;
        let threads = kept.threads.min(self.file.cores);
        let here = Speeds::of(home, threads, Precision::F32).ok()?;
        let there = Speeds::of(passport, kept.threads, Precision::F32).ok()?;
        let point = kept.point();
        let answer = self.file.law.tell(&point.parts, threads, Pressure::default(), COVERAGE);
        let mut sums = BTreeMap::new();
        for (part, seconds) in point.parts.iter().zip(&answer.each) {
            // Work and bytes are among the counts; that is all the passports speak of.
            let ratio = here.adds / there.adds;
            *sums.entry(part.family.clone()).or_insert(0.0) += seconds * ratio;
        }
        Some(Measured { seconds_by_family: sums, seconds: kept.seconds })
    }

    /// Seconds and factor for a graph of which only counts are known; and whether they are like those that were seen.
    pub fn counts(&self, counts: &Counts, conditions: &Conditions) -> Option<(f64, f64, bool)> {
        let law = self.file.counts.as_ref()?;
        let row = counts_row(counts.features(), conditions.threads);
        let pressure = pressure(conditions, f64::from(self.file.cores));
        let slow = self.file.law.slowdown.logarithm(pressure, 0.3);
        let seconds = (law.trees.predict(&row) + slow).exp();
        let reach = law.calibration.reach(COVERAGE).unwrap_or(2.5);
        let is_inside = law
            .range
            .iter()
            .zip(&row)
            .all(|((low, high), value)| value.is_finite() && *value >= low - 1.0 && *value <= high + 1.0);
        Some((seconds, (reach * if is_inside { 1.0 } else { 1.5 }).min(7.0).exp(), is_inside))
    }
}

/// Counts and threads as the trees take them.
pub fn counts_row(counts: [f64; 7], threads: u32) -> Vec<f64> {
    counts.into_iter().chain([f64::from(threads)]).collect()
}

/// Names of these.
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
