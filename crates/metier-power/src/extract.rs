//! Extracts a table from a Prometheus response: features in units per second, and the watts of each
//! component.
//!
//! Watts are differences of joules divided by the *mean* sample interval of the whole series;
//! features are divided by each row's own interval. The Kepler Model Server does the same, and the
//! tables are equal. [`WattsTiming::Own`] divides watts by each row's own interval too, which is
//! right for uneven sample times.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use metier_types::words;

use crate::Error;
use crate::frame::FeatureFrame;
use crate::kepler_terms::third_party;
use crate::kepler_terms::{EnergySource, FeatureGroup, PowerComponent};
use crate::packages::PackageShares;
use crate::response::{KeplerResponse, KeplerSeries};

/// The job whose series are of virtual machines.
const DEFAULT_VM_JOB: &str = "vm";
static CONFIGURED_VM_JOB: OnceLock<String> = OnceLock::new();
/// Window of the smooth extractor's rolling mean, in rows.
pub const SMOOTHING_WINDOW: usize = 30;

/// Sets the job whose series are of virtual machines (`VM_JOB_NAME`). Only the first call in a
/// process counts: tables must not change while a predictor uses them.
pub fn set_vm_job(name: &str) {
    let _ = CONFIGURED_VM_JOB.set(name.to_string());
}

/// The job whose series are of virtual machines.
pub fn vm_job() -> &'static str {
    CONFIGURED_VM_JOB.get().map_or(DEFAULT_VM_JOB, String::as_str)
}

/// The time by which joules are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WattsTiming {
    /// The mean sample interval, as in the original.
    #[default]
    Mean,
    /// The interval of each row.
    Own,
}

words! { (name, named)
    #[derive(Default)]
    pub enum TableExtractor {
        /// Rows without smoothing.
        #[default]
        Default = "default" | "DefaultExtractor",
        /// Rolling means over [`SMOOTHING_WINDOW`] rows.
        Smooth = "smooth" | "SmoothExtractor",
    }
}

/// Extraction settings.
#[derive(Debug, Clone, Copy)]
pub struct ExtractSettings {
    /// Where energy was read.
    pub source: EnergySource,
    pub group: FeatureGroup,
    /// Whether rows are of single containers, or of the node.
    pub by_container: bool,
    /// Whether features are those of processes of virtual machines.
    pub vm: bool,
    /// The node type assigned to the rows.
    pub node_type: u32,
    /// The time by which joules are divided.
    pub timing: WattsTiming,
    pub extractor: TableExtractor,
}

impl ExtractSettings {
    /// Settings for node rows of type 0 and the default extractor.
    pub fn new(source: EnergySource, group: FeatureGroup) -> Self {
        Self {
            source,
            group,
            by_container: false,
            vm: false,
            node_type: 0,
            timing: WattsTiming::default(),
            extractor: TableExtractor::default(),
        }
    }
}

/// A table, with the correlation of each feature with the power of the first component.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractedFrame {
    pub frame: FeatureFrame,
    /// Pearson correlation of each summed feature; `None` if one side is constant.
    pub correlations: Vec<(String, Option<f64>)>,
}

/// Feature groups of which the response has all features.
pub fn groups(response: &KeplerResponse, vm: bool) -> Vec<FeatureGroup> {
    let has = |feature: &&str| response.has(&metric(feature, vm));
    let is_whole = |group: &FeatureGroup| {
        let features = group.features();
        !features.is_empty() && features.iter().all(has)
    };
    FeatureGroup::ALL.into_iter().filter(is_whole).collect()
}

/// Energy sources present in the response.
pub fn sources(response: &KeplerResponse) -> Vec<EnergySource> {
    let has = |source: &EnergySource| {
        source.components().iter().all(|component| {
            response
                .metric(&format!("kepler_node_{}_joules_total", component.name()))
                .iter()
                .any(|series| series.label("source") == source.name() && series.samples.len() > 1)
        })
    };
    EnergySource::ALL.into_iter().filter(has).collect()
}

/// Series name of a feature. Kepler features have a prefix and a suffix, an accelerator is the
/// node's series, other features are used as they are.
pub fn metric(feature: &str, vm: bool) -> String {
    if third_party::has(feature) {
        return feature.to_string();
    }
    if is_accelerator(feature) {
        return format!("kepler_node_{feature}");
    }
    format!("kepler_{}_{feature}_total", if vm { "process" } else { "container" })
}

/// Whether a feature is the utilisation of a node's accelerator. It is a gauge, used without
/// differences and summed over all engine types.
fn is_accelerator(feature: &str) -> bool {
    FeatureGroup::AcceleratorOnly.features().contains(&feature)
}

pub fn extract(response: &KeplerResponse, settings: &ExtractSettings) -> Result<ExtractedFrame, Error> {
    let shares = PackageShares::from_response(response, settings.source, |series| id(series, settings.vm))
        .filter(|_| !settings.vm);
    let power = power(response, settings, shares.as_ref())?;
    let features = features(response, settings)?;
    let names = settings.group.features();
    let columns_of_watts = watt_columns(settings, shares.as_ref());
    // Package shares of a row. If the response has shares, a row without any is left out.
    let ratios_at = |time: u64, id: Option<&str>| match &shares {
        Some(shares) => shares.at(time, id),
        None => Some(Vec::new()),
    };

    // Rows of containers by time and id; only times with known power.
    let mut timestamps = Vec::new();
    let mut ids = Vec::new();
    let mut columns = vec![Vec::new(); names.len()];
    let mut watts = vec![Vec::new(); columns_of_watts.len()];
    let mut ratios = vec![Vec::new(); shares.as_ref().map_or(0, |shares| shares.packages.len())];
    for (time, row) in &power {
        let Some(of_time) = features.get(time) else { continue };
        if settings.by_container {
            for (id, values) in of_time {
                let Some(of_packages) = ratios_at(*time, Some(id)) else { continue };
                ratios.iter_mut().zip(of_packages).for_each(|(column, value)| column.push(value));
                timestamps.push(f64::from_bits(*time));
                ids.push(id.clone());
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(*value));
                watts.iter_mut().zip(row).for_each(|(column, value)| column.push(*value));
            }
        } else {
            let Some(of_packages) = ratios_at(*time, None) else { continue };
            ratios.iter_mut().zip(of_packages).for_each(|(column, value)| column.push(value));
            timestamps.push(f64::from_bits(*time));
            let sum = |place: usize| of_time.values().map(|values| values[place]).sum::<f64>();
            columns.iter_mut().enumerate().for_each(|(place, column)| column.push(sum(place)));
            watts.iter_mut().zip(row).for_each(|(column, value)| column.push(*value));
        }
    }
    let packages = ratios.len().max(1);
    let summed = summed(&power, &features, names.len(), packages);
    let first: Vec<f64> = summed.iter().map(|(watts, _)| *watts).collect();
    let correlations = names.iter().enumerate().map(|(place, name)| {
        let values: Vec<f64> = summed.iter().map(|(_, values)| values[place]).collect();
        (name.to_string(), correlation(&values, &first))
    });
    let correlations = correlations.collect();

    let count = timestamps.len();
    let mut frame = FeatureFrame::new(timestamps, settings.by_container.then_some(ids))?;
    for (name, values) in names.iter().zip(columns) {
        frame.set(name, values)?;
    }
    for (name, values) in columns_of_watts.iter().zip(watts) {
        frame.set(name, values)?;
    }
    frame.set("node_type", vec![f64::from(settings.node_type); count])?;
    match &shares {
        Some(shares) => {
            for (package, values) in shares.packages.iter().zip(ratios) {
                frame.set(&PackageShares::ratio(package), values)?;
            }
        }
        None if settings.source.components().len() > 1 => {
            frame.set(&PackageShares::ratio("package"), vec![1.0; count])?;
        }
        None => {}
    }
    if settings.extractor == TableExtractor::Smooth {
        frame = smooth(&frame)?;
    }
    Ok(ExtractedFrame { frame, correlations })
}

/// Watts of each component by time. The key is the bits of the seconds, which sort like positive
/// numbers.
type PowerByTime = BTreeMap<u64, Vec<f64>>;

/// Watts of a node row by row, including rows without counted energy.
pub fn node_watts(response: &KeplerResponse, source: EnergySource) -> Result<FeatureFrame, Error> {
    let settings = ExtractSettings::new(source, FeatureGroup::BpfOnly);
    let all = by_column(response, &settings, None)?;
    let times: Vec<u64> =
        all[0].keys().copied().filter(|time| all.iter().all(|values| values.contains_key(time))).collect();
    let mut frame = FeatureFrame::new(times.iter().map(|time| f64::from_bits(*time)).collect(), None)?;
    for (component, watts) in source.components().iter().zip(&all) {
        frame.set(&component.column(), times.iter().map(|time| watts[time]).collect())?;
    }
    Ok(frame)
}

/// Watt columns: one for each component, and for each package if container shares are known.
fn watt_columns(settings: &ExtractSettings, shares: Option<&PackageShares>) -> Vec<String> {
    let of = |component: &PowerComponent| match shares {
        None => vec![component.column()],
        Some(shares) => {
            shares.packages.iter().map(|package| PackageShares::column(package, *component)).collect()
        }
    };
    settings.source.components().iter().flat_map(of).collect()
}

fn power(
    response: &KeplerResponse,
    settings: &ExtractSettings,
    shares: Option<&PackageShares>,
) -> Result<PowerByTime, Error> {
    let all = by_column(response, settings, shares)?;
    let mut power = PowerByTime::new();
    for time in all[0].keys() {
        let row: Option<Vec<f64>> = all.iter().map(|watts| watts.get(time).copied()).collect();
        if let Some(row) = row.filter(|row| row.iter().sum::<f64>() != 0.0) {
            power.insert(*time, row);
        }
    }
    Ok(power)
}

/// Watts of each of [`watt_columns`].
fn by_column(
    response: &KeplerResponse,
    settings: &ExtractSettings,
    shares: Option<&PackageShares>,
) -> Result<Vec<BTreeMap<u64, f64>>, Error> {
    let mut all: Vec<BTreeMap<u64, f64>> = Vec::new();
    for component in settings.source.components() {
        let packages: Vec<Option<&String>> = match shares {
            Some(shares) => shares.packages.iter().map(Some).collect(),
            None => vec![None],
        };
        for package in packages {
            all.push(watts_of_column(response, settings, *component, package.map(String::as_str))?);
        }
    }
    Ok(all)
}

/// Watts of a component, of one package or of all together.
fn watts_of_column(
    response: &KeplerResponse,
    settings: &ExtractSettings,
    component: PowerComponent,
    package: Option<&str>,
) -> Result<BTreeMap<u64, f64>, Error> {
    let name =
        format!("kepler_{}_{}_joules_total", if settings.vm { "vm" } else { "node" }, component.name());
    let list = response.metric(&name).iter();
    let list = list.filter(|series| settings.vm || series.label("source") == settings.source.name());
    let list = list.filter(|series| package.is_none_or(|package| series.label("package") == package));
    // Sums all modes, and all packages unless they are separate columns.
    let mut joules: BTreeMap<u64, f64> = BTreeMap::new();
    for series in list {
        for (time, value) in series.samples.iter().filter(|(time, _)| *time >= 0.0) {
            *joules.entry(time.to_bits()).or_default() += value;
        }
    }
    if joules.is_empty() {
        return Err(Error::table(format!("{name} of source {} is missing", settings.source.name())));
    }
    Ok(watts(&joules, settings.timing))
}

fn watts(joules: &BTreeMap<u64, f64>, timing: WattsTiming) -> BTreeMap<u64, f64> {
    let points: Vec<(f64, f64)> =
        joules.iter().map(|(time, joules)| (f64::from_bits(*time), *joules)).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return BTreeMap::new() };
    let mean = (last.0 - first.0) / (points.len().max(2) - 1) as f64;
    let mut watts = BTreeMap::new();
    let mut before = 0.0;
    for pair in points.windows(2) {
        let over = if timing == WattsTiming::Own { pair[1].0 - pair[0].0 } else { mean };
        let difference = pair[1].1 - pair[0].1;
        // After a counter reset the difference is unusable; the previous value is repeated.
        let value = if difference < 0.0 || over <= 0.0 { before } else { difference / over };
        before = value;
        watts.insert(pair[1].0.to_bits(), value);
    }
    watts
}

/// Features by time and id.
type FeaturesByTime = BTreeMap<u64, BTreeMap<String, Vec<f64>>>;

fn features(response: &KeplerResponse, settings: &ExtractSettings) -> Result<FeaturesByTime, Error> {
    let names = settings.group.features();
    let mut features = FeaturesByTime::new();
    for (place, feature) in names.iter().enumerate() {
        let name = metric(feature, settings.vm);
        let list = response.metric(&name);
        if list.is_empty() {
            return Err(Error::table(format!("{name} is missing")));
        }
        // Series with the same id and different labels are one counter.
        let mut counters: BTreeMap<String, Vec<&KeplerSeries>> = BTreeMap::new();
        let is_node = third_party::has(feature) || is_accelerator(feature);
        let is_wanted = |series: &&KeplerSeries| is_node || (series.label("job") == vm_job()) == settings.vm;
        for series in list.iter().filter(is_wanted) {
            counters.entry(id(series, settings.vm)).or_default().push(series);
        }
        for (id, list) in counters {
            let points = counter_samples(&list);
            if points.len() < 2 {
                continue;
            }
            let mut before = 0.0;
            for (row, (time, value)) in points.iter().enumerate() {
                let rate = match row.checked_sub(1).map(|row| points[row]) {
                    _ if is_accelerator(feature) => *value,
                    None => 0.0,
                    Some((earlier, was)) if *value >= was && *time > earlier => {
                        (value - was) / (time - earlier)
                    }
                    Some(_) => before,
                };
                before = rate;
                if *time < 0.0 {
                    continue;
                }
                let of_time = features.entry(time.to_bits()).or_default();
                match of_time.get_mut(&id) {
                    Some(values) => values[place] = rate,
                    None => {
                        let mut values = vec![0.0; names.len()];
                        values[place] = rate;
                        of_time.insert(id.clone(), values);
                    }
                }
            }
        }
    }
    Ok(features)
}

/// The samples of one counter.
fn counter_samples(list: &[&KeplerSeries]) -> Vec<(f64, f64)> {
    if let [series] = list {
        return series.samples.clone();
    }
    let mut joined: BTreeMap<u64, f64> = BTreeMap::new();
    for series in list {
        for (time, value) in &series.samples {
            *joined.entry(time.to_bits()).or_default() += value;
        }
    }
    let mut points: Vec<(f64, f64)> =
        joined.into_iter().map(|(time, value)| (f64::from_bits(time), value)).collect();
    points.sort_by(|one, two| one.0.total_cmp(&two.0));
    points
}

fn id(series: &KeplerSeries, vm: bool) -> String {
    if vm {
        return format!("{}/{}", series.label("container_id"), series.label("pid"));
    }
    let parts = ["container_id", "pod_name", "container_name", "container_namespace"];
    parts.map(|name| series.label(name)).join("/")
}

/// Power of the first component over all packages, with the sum of each feature, by time.
fn summed(
    power: &PowerByTime,
    features: &FeaturesByTime,
    count: usize,
    packages: usize,
) -> Vec<(f64, Vec<f64>)> {
    let first = |row: &[f64]| row.iter().take(packages).sum::<f64>();
    let rows = power.iter().filter_map(|(time, row)| Some((first(row), features.get(time)?)));
    rows.map(|(watts, of_time)| {
        let sum = |place: usize| of_time.values().map(|values| values[place]).sum::<f64>();
        (watts, (0..count).map(sum).collect())
    })
    .collect()
}

/// Pearson correlation; `None` if one side is constant.
pub fn correlation(currents: &[f64], two: &[f64]) -> Option<f64> {
    let count = currents.len().min(two.len());
    if count < 2 {
        return None;
    }
    let mean = |values: &[f64]| values[..count].iter().sum::<f64>() / count as f64;
    let (of_one, of_two) = (mean(currents), mean(two));
    let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
    for (value, two) in currents.iter().zip(two) {
        both += (value - of_one) * (two - of_two);
        first += (value - of_one).powi(2);
        second += (two - of_two).powi(2);
    }
    (first > 0.0 && second > 0.0).then(|| both / (first.sqrt() * second.sqrt()))
}

/// Rolling means of features and watts. The first rows, without a full window, are dropped.
fn smooth(frame: &FeatureFrame) -> Result<FeatureFrame, Error> {
    let count = frame.len();
    let rows: Vec<usize> = (SMOOTHING_WINDOW - 1..count.max(SMOOTHING_WINDOW - 1)).collect();
    let mut out = frame.select(&rows);
    let names: Vec<String> = frame.names().map(str::to_string).collect();
    for name in names.iter().filter(|name| *name != "node_type" && !name.starts_with("packge_ratio")) {
        let values = frame.need(name)?;
        let means = rows.iter().map(|row| {
            values[row + 1 - SMOOTHING_WINDOW..=*row].iter().sum::<f64>() / SMOOTHING_WINDOW as f64
        });
        out.set(name, means.collect())?;
    }
    Ok(out)
}
