//! The plan of a training: sources, features, trainers and methods.

use crate::Error;
use crate::extract::{TableExtractor, WattsTiming};
use crate::isolate::{BackgroundHints, PowerIsolator};
use crate::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerTrainer, shorten};
use crate::node::MachineSpec;
use crate::trainers::HoldOutMethod;

/// The machine that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredMachine {
    /// Its id among the members of a node type.
    pub id: String,
    pub spec: MachineSpec,
}

/// Plan of a training.
#[derive(Debug, Clone)]
pub struct PipelinePlan {
    pub name: String,
    /// How tables are extracted.
    pub extractor: TableExtractor,
    /// The time by which joules are divided.
    pub timing: WattsTiming,
    /// Method that removes idle and background power.
    pub isolator: PowerIsolator,
    /// Patterns of background containers, for isolators that use them.
    pub hints: BackgroundHints,
    /// Energy sources.
    pub sources: Vec<EnergySource>,
    /// Feature groups; empty for all complete groups.
    pub groups: Vec<FeatureGroup>,
    /// Trainers of power with idle.
    pub abs_trainers: Vec<PowerTrainer>,
    /// Trainers of power without idle.
    pub dyn_trainers: Vec<PowerTrainer>,
    /// Whether dynamic power must add up over containers
    /// ([`crate::trainers::Settings::is_additive`]).
    pub is_dyn_additive: bool,
    /// Whether the series are of virtual machines.
    pub vm: bool,
    /// The measured machine. Without it, rows have node type 0 and the index is unchanged.
    pub machine: Option<MeasuredMachine>,
    /// Assignment of rows to folds.
    pub validation: HoldOutMethod,
    /// Number of parallel trainers; 0 for one per core.
    pub threads: usize,
    /// Current time, as `2026-11-17 15:40:00` in UTC.
    pub now: String,
}

impl PipelinePlan {
    /// Defaults: the original's rows, all ten trainers, the `min` isolator, RAPL.
    pub fn new(name: &str, now: metier_types::UtcTimestamp) -> Self {
        Self {
            name: name.to_string(),
            extractor: TableExtractor::default(),
            timing: WattsTiming::default(),
            isolator: PowerIsolator::default(),
            hints: BackgroundHints::default(),
            sources: vec![EnergySource::RaplSysfs],
            groups: Vec::new(),
            abs_trainers: PowerTrainer::KEPLER.to_vec(),
            dyn_trainers: PowerTrainer::KEPLER.to_vec(),
            is_dyn_additive: false,
            vm: false,
            machine: None,
            validation: HoldOutMethod::Blocks,
            threads: 0,
            now: now.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        }
    }

    /// Trainers of an output type.
    pub fn trainers(&self, output_type: OutputType) -> &[PowerTrainer] {
        match output_type {
            OutputType::AbsPower => &self.abs_trainers,
            OutputType::DynPower => &self.dyn_trainers,
        }
    }

    /// Checks the name of a pipeline.
    pub fn check_name(name: &str) -> Result<(), Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = !name.is_empty() && name.len() <= 100 && !name.starts_with('.');
        match is_name && name.chars().all(is_plain) {
            true => Ok(()),
            false => Err(Error::Word {
                field: "pipeline name",
                got: shorten(name),
                want: "up to 100 letters, digits, '-', '_' or '.', not beginning with '.'".to_string(),
            }),
        }
    }

    /// Checks the plan. The name becomes a folder.
    pub fn check(&self) -> Result<(), Error> {
        Self::check_name(&self.name)?;
        if self.abs_trainers.is_empty() && self.dyn_trainers.is_empty() {
            return Err(Error::table("no trainers; want at least one of abs_trainers and dyn_trainers"));
        }
        if self.sources.is_empty() {
            return Err(Error::table("no energy source; want at least one"));
        }
        Ok(())
    }
}
