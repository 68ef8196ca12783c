//! What is to be learned, by whom, from what.

use crate::Error;
use crate::extract::{TableExtractor, WattsTiming};
use crate::isolate::{BackgroundHints, PowerIsolator};
use crate::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerTrainer, shorten};
use crate::node::MachineSpec;
use crate::trainers::HoldOutMethod;

/// The machine that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredMachine {
    /// Its name among the members of a node type.
    pub id: String,
    pub spec: MachineSpec,
}

/// What is to be learned.
#[derive(Debug, Clone)]
pub struct PipelinePlan {
    pub name: String,
    /// How tables are made.
    pub extractor: TableExtractor,
    /// What watts are divided by.
    pub timing: WattsTiming,
    /// How idle and background power are taken out.
    pub isolator: PowerIsolator,
    /// Which containers are background, for the isolators that ask.
    pub hints: BackgroundHints,
    /// Where energy was read.
    pub sources: Vec<EnergySource>,
    /// Which features; all groups that are whole where it is empty.
    pub groups: Vec<FeatureGroup>,
    /// Who learns power with idle.
    pub abs_trainers: Vec<PowerTrainer>,
    /// Who learns power without.
    pub dyn_trainers: Vec<PowerTrainer>,
    /// Whether power without idle has to add up over containers ([`crate::trainers::Settings::is_additive`]).
    pub is_dyn_additive: bool,
    /// Whether the series are those of virtual machines.
    pub vm: bool,
    /// The machine; without one its rows are of node type 0, and the index does not know it.
    pub machine: Option<MeasuredMachine>,
    /// How rows are held out.
    pub validation: HoldOutMethod,
    /// How many learn at once; 0 for as many as there are cores.
    pub threads: usize,
    /// Now, as `2026-11-17 15:40:00` in UTC.
    pub now: String,
}

impl PipelinePlan {
    /// Rows as the original makes them, all ten trainers, the `min` isolator, RAPL.
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

    /// Who learns power of a kind.
    pub fn trainers(&self, output_type: OutputType) -> &[PowerTrainer] {
        match output_type {
            OutputType::AbsPower => &self.abs_trainers,
            OutputType::DynPower => &self.dyn_trainers,
        }
    }

    /// Whether a pipeline can be called so.
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

    /// Whether it can be followed. The name becomes a folder.
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
