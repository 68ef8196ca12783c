//! Removes idle and background power from a table; the remainder is the power of the workload
//! (`DynPower`).
//!
//! `none`, `min`, `profile` and `trainer` are the formulas of the Kepler Model Server.
//! [`isolate_jointly`] is metier's own: one non-negative fit over all rows estimates idle,
//! background and workload power, and each row's *measured* power is divided in these proportions.
//! So the three parts add up to the meter, and no label is the rounding error of two large numbers
//! (the original's smallest label is 1e-9 W, with an error of a billion per cent).

use std::collections::{BTreeMap, BTreeSet};

use metier_types::words;

use crate::Error;
use crate::formula::PowerFormula;
use crate::frame::{FeatureFrame, container_name};
use crate::kepler_terms::{EnergySource, FeatureGroup, PowerComponent};
use crate::nonnegative;
use crate::packages;
use crate::profile::IdleLevels;

/// Id of rows that sum all containers.
pub const ALL_CONTAINERS: &str = "all containers";
/// Smallest share of a row's power that counts as workload power.
const MIN_WORKLOAD_SHARE: f64 = 1e-3;
/// Parts below this share of the measured power, or of a watt, are rounding errors of the fit and
/// set to 0.
const ROUNDING_TOLERANCE: f64 = 1e-6;
/// Smallest correlation at which a background predictor is accepted.
const MIN_CORRELATION: f64 = 0.7;

words! { (name, named)
    /// Isolation methods. Each accepts the original's name too.
    #[derive(Default)]
    pub enum PowerIsolator {
        /// No power is removed.
        None = "none" | "NoneIsolator",
        /// Removes the smallest power of all rows.
        #[default]
        Min = "min" | "MinIdleIsolator",
        /// Removes the power in a profile of the idle machine.
        Profile = "profile" | "ProfileBackgroundIsolator",
        /// Removes the power that a predictor gives for the background's features.
        Trainer = "trainer" | "TrainIsolator",
        Joint = "joint" | "JointIsolator",
    }
}

/// Energy source and feature group of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableSubject {
    /// Where energy was read.
    pub source: EnergySource,
    pub group: FeatureGroup,
}

/// Sums the containers of each time: features are added, watts are the node's.
pub fn sum_containers(frame: &FeatureFrame, about: TableSubject) -> Result<FeatureFrame, Error> {
    let mut rows: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (row, time) in frame.timestamps.iter().enumerate() {
        rows.entry(time.to_bits()).or_default().push(row);
    }
    let times = rows.keys().map(|time| f64::from_bits(*time)).collect();
    let mut out = FeatureFrame::new(times, Some(vec![ALL_CONTAINERS.to_string(); rows.len()]))?;
    let ratios: Vec<&str> = frame.names().filter(|name| name.starts_with("packge_ratio")).collect();
    let sums: Vec<Vec<f64>> =
        ratios.iter().map(|name| grouped(frame, &rows, name, false)).collect::<Result<_, _>>()?;
    for (place, name) in ratios.iter().enumerate() {
        let parts = (0..rows.len()).map(|row| {
            let all: f64 = sums.iter().map(|sum| sum[row]).sum();
            if all > 0.0 { sums[place][row] / all } else { 0.0 }
        });
        out.set(name, parts.collect())?;
    }
    for name in about.group.features() {
        out.set(name, grouped(frame, &rows, name, false)?)?;
    }
    let powers = frame.names().filter(|name| name.ends_with("_power"));
    for name in powers.chain(frame.column("node_type").map(|_| "node_type")) {
        out.set(name, grouped(frame, &rows, name, true)?)?;
    }
    Ok(out)
}

fn grouped(
    frame: &FeatureFrame,
    rows: &BTreeMap<u64, Vec<usize>>,
    name: &str,
    mean: bool,
) -> Result<Vec<f64>, Error> {
    let values = frame.need(name)?;
    Ok(rows
        .values()
        .map(|rows| {
            let sum: f64 = rows.iter().map(|row| values[*row]).sum();
            if mean { sum / rows.len() as f64 } else { sum }
        })
        .collect())
}

/// Subtracts the smallest power of all rows.
pub fn subtract_minimum(frame: &FeatureFrame, about: TableSubject) -> Result<FeatureFrame, Error> {
    let mut out = sum_containers(frame, about)?;
    let names: Vec<String> =
        out.names().filter(|name| name.ends_with("_power")).map(str::to_string).collect();
    for name in names {
        let values = out.need(&name)?.to_vec();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        out.set(&name, values.iter().map(|value| value - least).collect())?;
    }
    Ok(out)
}

/// Drops containers that also run on the idle machine and subtracts the idle profile. `None` if a
/// component has no profile.
pub fn subtract_profile(
    frame: &FeatureFrame,
    about: TableSubject,
    profile: &IdleLevels,
    background: &BTreeSet<String>,
) -> Result<Option<FeatureFrame>, Error> {
    let frame = &packages::merge_packages(frame, about.source)?;
    let ids = ids(frame)?;
    let rows: Vec<usize> =
        (0..frame.len()).filter(|row| !background.contains(container_name(&ids[*row]))).collect();
    let mut out = sum_containers(&frame.select(&rows), about)?;
    for component in about.source.components() {
        let name = component.column();
        let Some(idle) = profile.0.get(component) else { return Ok(None) };
        let level = f64::midpoint(idle.min_watt, idle.max_watt) * f64::from(idle.units);
        let values = out.need(&name)?.iter().map(|value| value - level).collect();
        out.set(&name, values)?;
    }
    Ok(Some(out))
}

/// Name patterns that classify containers.
#[derive(Debug, Clone, Default)]
pub struct BackgroundHints {
    /// Parts of names of the workload's containers.
    pub target: Vec<String>,
    /// Parts of names of the background's containers.
    pub background: Vec<String>,
}

impl BackgroundHints {
    /// Whether a container is background. Without hints all are, as in the original.
    pub fn is_background(&self, id: &str) -> bool {
        let has = |hints: &[String]| hints.iter().any(|hint| !hint.is_empty() && id.contains(hint.as_str()));
        match (self.target.is_empty(), self.background.is_empty()) {
            (false, _) => !has(&self.target),
            // The original inverts this case by mistake: it selects containers that match no hint.
            // Here the matching containers are background.
            (true, false) => has(&self.background),
            (true, true) => true,
        }
    }
}

/// A node power predictor that can estimate background power.
#[derive(Debug, Clone)]
pub struct BackgroundPredictor {
    pub formulas: Vec<(PowerComponent, PowerFormula)>,
    pub mae: f64,
}

/// Subtracts the predicted power of the background's features. Uses the predictor with the smallest
/// error among those whose dynamic power correlates with the features. `None` if no predictor
/// qualifies.
pub fn subtract_predicted(
    frame: &FeatureFrame,
    about: TableSubject,
    hints: &BackgroundHints,
    judges: &[BackgroundPredictor],
) -> Result<Option<FeatureFrame>, Error> {
    let frame = &packages::merge_packages(frame, about.source)?;
    let ids = ids(frame)?;
    let rows: Vec<usize> = (0..frame.len()).filter(|row| hints.is_background(&ids[*row])).collect();
    let all = sum_containers(frame, about)?;
    let background = sum_containers(&frame.select(&rows), about)?;
    let at: BTreeMap<u64, usize> =
        background.timestamps.iter().enumerate().map(|(row, time)| (time.to_bits(), row)).collect();
    let components = about.source.components();
    let measured: Vec<f64> = (0..all.len())
        .map(|row| {
            components
                .iter()
                .filter_map(|component| all.column(&component.column()))
                .map(|values| values[row])
                .sum()
        })
        .collect();
    let mut best: Option<(f64, f64, Vec<f64>)> = None;
    for judge in judges {
        let Some(watts) = predicted(&background, judge) else { continue };
        let of_row = |row: usize| at.get(&all.timestamps[row].to_bits()).map_or(0.0, |row| watts[*row]);
        let dynamic: Vec<f64> = (0..all.len()).map(|row| (measured[row] - of_row(row)).max(0.0)).collect();
        let follows = about
            .group
            .features()
            .iter()
            .filter_map(|name| crate::extract::correlation(all.column(name)?, &dynamic).map(f64::abs));
        let follows = follows.fold(0.0, f64::max);
        let is_better = match &best {
            None => true,
            Some((mae, known, _)) if follows >= MIN_CORRELATION => {
                *known < MIN_CORRELATION || judge.mae < *mae || (judge.mae == *mae && follows > *known)
            }
            Some((mae, known, _)) => judge.mae < *mae && follows > *known,
        };
        if is_better {
            best = Some((judge.mae, follows, dynamic));
        }
    }
    let Some((_, _, dynamic)) = best else { return Ok(None) };
    let mut out = all;
    for component in components {
        let name = component.column();
        let values = out.need(&name)?.iter().enumerate();
        let parts = values
            .map(|(row, value)| if measured[row] > 0.0 { value / measured[row] * dynamic[row] } else { 0.0 });
        let parts = parts.collect();
        out.set(&name, parts)?;
    }
    Ok(Some(out))
}

fn predicted(frame: &FeatureFrame, judge: &BackgroundPredictor) -> Option<Vec<f64>> {
    let mut sum = vec![0.0; frame.len()];
    for (_, formula) in &judge.formulas {
        sum.iter_mut().zip(formula.watts_of_rows(frame)?).for_each(|(sum, watts)| *sum += watts);
    }
    Some(sum)
}

/// Power of one component row by row, in three parts that add up to the measured power.
#[derive(Debug, Clone, PartialEq)]
pub struct IsolatedParts {
    /// Idle power.
    pub idle: Vec<f64>,
    /// Power of the background containers.
    pub background: Vec<f64>,
    /// Power of the workload.
    pub dynamic: Vec<f64>,
}

/// Divides the measured power of each row by one non-negative fit. `background` and `workload` are
/// features by row.
pub fn split_power(measured: &[f64], background: &[Vec<f64>], workload: &[Vec<f64>]) -> IsolatedParts {
    let all: Vec<Vec<f64>> = background
        .iter()
        .zip(workload)
        .map(|(values, two)| values.iter().zip(two).map(|(value, two)| value + two).collect())
        .collect();
    let columns: Vec<&[f64]> = all.iter().map(Vec::as_slice).collect();
    let fit = nonnegative::fit(&columns, measured, true);
    let mut parts = IsolatedParts { idle: Vec::new(), background: Vec::new(), dynamic: Vec::new() };
    for (row, watts) in measured.iter().enumerate() {
        let of = |features: &[Vec<f64>]| -> f64 {
            fit.weights.iter().zip(features).map(|(weight, values)| weight * values[row].max(0.0)).sum()
        };
        let (background, dynamic) = (of(background), of(workload));
        let total = fit.bias + background + dynamic;
        let share = if total > 0.0 { watts / total } else { 0.0 };
        let some = |part: f64| if part < ROUNDING_TOLERANCE * watts.max(1.0) { 0.0 } else { part };
        let (background, dynamic) = (some(background * share), some(dynamic * share));
        parts.background.push(background);
        parts.dynamic.push(dynamic);
        // The remainder, so that the three parts add up.
        parts.idle.push(watts - background - dynamic);
    }
    parts
}

/// Subtracts idle and background power together, by [`parts`]. Rows with next to no workload are
/// dropped.
///
/// Without hints every container belongs to the workload, and only idle power is removed.
pub fn isolate_jointly(
    frame: &FeatureFrame,
    about: TableSubject,
    hints: &BackgroundHints,
) -> Result<FeatureFrame, Error> {
    let frame = &packages::merge_packages(frame, about.source)?;
    let ids = ids(frame)?;
    let has_hints = !hints.target.is_empty() || !hints.background.is_empty();
    let is_background = |row: usize| has_hints && hints.is_background(&ids[row]);
    let rows: Vec<usize> = (0..frame.len()).filter(|row| !is_background(*row)).collect();
    let all = sum_containers(frame, about)?;
    let target = sum_containers(&frame.select(&rows), about)?;
    let at: BTreeMap<u64, usize> =
        target.timestamps.iter().enumerate().map(|(row, time)| (time.to_bits(), row)).collect();
    let workload: Vec<Vec<f64>> = about
        .group
        .features()
        .iter()
        .map(|name| {
            let values = target.need(name)?;
            let of_row = |time: &f64| at.get(&time.to_bits()).map_or(0.0, |row| values[*row]);
            Ok(all.timestamps.iter().map(of_row).collect())
        })
        .collect::<Result<_, Error>>()?;
    let background: Vec<Vec<f64>> = about
        .group
        .features()
        .iter()
        .zip(&workload)
        .map(|(name, own)| {
            let values = all.need(name)?;
            Ok(values.iter().zip(own).map(|(all, own)| (all - own).max(0.0)).collect())
        })
        .collect::<Result<_, Error>>()?;
    let mut out = all.clone();
    let mut shares = vec![0.0f64; all.len()];
    for component in about.source.components() {
        let measured = all.need(&component.column())?;
        let parts = split_power(measured, &background, &workload);
        for (row, share) in shares.iter_mut().enumerate() {
            if measured[row] > 0.0 {
                *share = share.max(parts.dynamic[row] / measured[row]);
            }
        }
        out.set(&component.column(), parts.dynamic)?;
    }
    for (name, values) in about.group.features().iter().zip(&workload) {
        out.set(name, values.clone())?;
    }
    let worked: Vec<usize> = (0..out.len()).filter(|row| shares[*row] >= MIN_WORKLOAD_SHARE).collect();
    Ok(out.select(&worked))
}

fn ids(frame: &FeatureFrame) -> Result<&Vec<String>, Error> {
    frame.ids.as_ref().ok_or_else(|| Error::table("column id is missing; isolation wants rows of containers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_three_parts_add_up_to_the_meter(
            rows in proptest::collection::vec((0.0..500.0f64, 0.0..1e9f64, 0.0..1e9f64, 0.0..1e4f64, 0.0..1e4f64), 1..60)
        ) {
            let measured: Vec<f64> = rows.iter().map(|row| row.0).collect();
            let background = [rows.iter().map(|row| row.1).collect(), rows.iter().map(|row| row.3).collect()];
            let workload = [rows.iter().map(|row| row.2).collect(), rows.iter().map(|row| row.4).collect()];
            let parts = split_power(&measured, &background, &workload);
            for (row, watts) in measured.iter().enumerate() {
                let sum = parts.idle[row] + parts.background[row] + parts.dynamic[row];
                prop_assert!((sum - watts).abs() <= 1e-9 * watts.max(1.0));
                prop_assert!(parts.idle[row] >= -1e-9 * watts.max(1.0));
                prop_assert!(parts.background[row] >= 0.0 && parts.dynamic[row] >= 0.0);
            }
        }
    }

    fn frame() -> FeatureFrame {
        let (mut times, mut ids, mut load, mut power) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for time in 0..20 {
            let work = f64::from(time % 5);
            for (id, value) in [("1/p/noise/n", 1.0), ("2/p/work/n", work)] {
                times.push(f64::from(time));
                ids.push(id.to_string());
                load.push(value);
                power.push(50.0 + 4.0 + 4.0 * work);
            }
        }
        let mut frame = FeatureFrame::new(times, Some(ids)).unwrap();
        frame.set("accelerator_intel_qat", load).unwrap();
        frame.set("platform_power", power).unwrap();
        frame.set("node_type", vec![0.0; 40]).unwrap();
        frame
    }

    const ABOUT: TableSubject =
        TableSubject { source: EnergySource::Acpi, group: FeatureGroup::AcceleratorOnly };

    #[test]
    fn labels_of_work_are_never_next_to_nothing() {
        let least = |frame: FeatureFrame| {
            frame.column("platform_power").unwrap().iter().copied().fold(f64::MAX, f64::min)
        };
        // The original's smallest label is exactly 0.
        assert_eq!(least(subtract_minimum(&frame(), ABOUT).unwrap()), 0.0);
        let hints = BackgroundHints { target: vec!["work".into()], background: Vec::new() };
        let ours = isolate_jointly(&frame(), ABOUT, &hints).unwrap();
        assert_eq!(ours.len(), 16, "rows without work are left out");
        let watts = ours.column("platform_power").unwrap();
        // One unit of work takes about 4 W; the fit separates it from idle power without a profile.
        assert!((watts[0] - 4.0).abs() < 0.5, "{watts:?}");
        assert!(least(ours) > 1.0);
    }

    #[test]
    fn a_component_that_never_changes_has_no_label_rather_than_next_to_nothing() {
        // Like the uncore of a node: the fit leaves weights as small as rounding errors.
        let loads: Vec<f64> = (0..79).map(|row| 1000.0 * (f64::from(row) / 7.0).sin().abs() + 0.3).collect();
        let hits: Vec<f64> = loads.iter().map(|load| load / 20.0).collect();
        let measured: Vec<f64> = loads.iter().map(|load| 2.0 + load * 1e-14).collect();
        let parts = split_power(&measured, &[vec![0.0; 79], vec![0.0; 79]], &[loads, hits]);
        assert!(parts.dynamic.iter().all(|watts| *watts == 0.0), "{:?}", parts.dynamic);
        assert_eq!(parts.idle, measured);
    }

    #[test]
    fn a_profile_takes_the_idle_level_out_of_other_containers() {
        let idle = crate::profile::IdleLevel { min_watt: 40.0, max_watt: 60.0, units: 1 };
        let profile_of = IdleLevels([(PowerComponent::Platform, idle)].into());
        let background = BTreeSet::from(["noise".to_string()]);
        let out = subtract_profile(&frame(), ABOUT, &profile_of, &background).unwrap().unwrap();
        assert_eq!(out.column("platform_power").unwrap()[..2], [4.0, 8.0]);
        assert_eq!(out.column("accelerator_intel_qat").unwrap()[..2], [0.0, 1.0]);
        assert_eq!(subtract_profile(&frame(), ABOUT, &IdleLevels::default(), &background).unwrap(), None);
    }

    #[test]
    fn a_predictor_says_what_the_background_takes() {
        let kind = crate::formula::FormulaKind::Linear { bias: 50.0, weights: vec![4.0] };
        let formula = PowerFormula::new(
            PowerComponent::Platform,
            vec!["accelerator_intel_qat".into()],
            vec![1.0],
            kind,
        );
        let judge = BackgroundPredictor { formulas: vec![(PowerComponent::Platform, formula)], mae: 1.0 };
        let hints = BackgroundHints { target: vec!["work".into()], background: Vec::new() };
        let out = subtract_predicted(&frame(), ABOUT, &hints, &[judge]).unwrap().unwrap();
        assert_eq!(out.column("platform_power").unwrap()[..3], [0.0, 4.0, 8.0]);
        assert_eq!(subtract_predicted(&frame(), ABOUT, &hints, &[]).unwrap(), None);
    }
}
