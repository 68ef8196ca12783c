//! The time line of a run: rows of samples, taken as a chunk every second.

use std::time::Duration;

use metier_types::{ColumnKind, ColumnUnit, ColumnValues, RunId, Series, SeriesColumn};

use metier_device::gpu_meters::GpuReading;
use metier_linux::cgroup::CgroupSample;
use metier_linux::host::HostCounters;
use metier_types::HostReading;

/// A column's name, kind and unit, and whether its values are integers.
type ColumnHeading = (&'static str, ColumnKind, ColumnUnit, bool);

/// Columns of the series `use`.
const USAGE_COLUMNS: [ColumnHeading; 8] = [
    ("cpu", ColumnKind::Counter, ColumnUnit::Nanoseconds, true),
    ("memory", ColumnKind::Gauge, ColumnUnit::Bytes, true),
    ("anonymous", ColumnKind::Gauge, ColumnUnit::Bytes, true),
    ("file", ColumnKind::Gauge, ColumnUnit::Bytes, true),
    ("kernel", ColumnKind::Gauge, ColumnUnit::Bytes, true),
    ("read", ColumnKind::Counter, ColumnUnit::Bytes, true),
    ("written", ColumnKind::Counter, ColumnUnit::Bytes, true),
    ("processes", ColumnKind::Gauge, ColumnUnit::Count, true),
];

/// Columns of the series `host`.
const HOST_COLUMNS: [ColumnHeading; 9] = [
    ("busy", ColumnKind::Counter, ColumnUnit::Nanoseconds, true),
    ("steal", ColumnKind::Counter, ColumnUnit::Nanoseconds, true),
    ("cpu_pressure", ColumnKind::Counter, ColumnUnit::Nanoseconds, true),
    ("memory_pressure", ColumnKind::Counter, ColumnUnit::Nanoseconds, true),
    ("io_pressure", ColumnKind::Counter, ColumnUnit::Nanoseconds, true),
    ("load1", ColumnKind::Gauge, ColumnUnit::Count, false),
    ("frequency", ColumnKind::Gauge, ColumnUnit::Hertz, false),
    ("temperature", ColumnKind::Gauge, ColumnUnit::Celsius, false),
    ("memory_available", ColumnKind::Gauge, ColumnUnit::Bytes, true),
];

/// A table that grows row by row.
struct TimelineTable {
    series: Series,
}

impl TimelineTable {
    fn new(
        run: RunId,
        name: &str,
        headings: impl IntoIterator<Item = (String, ColumnKind, ColumnUnit, bool)>,
    ) -> Self {
        let mut series = Series::new(run, name);
        series.columns = headings
            .into_iter()
            .map(|(name, kind, unit, whole)| SeriesColumn {
                name,
                kind,
                unit,
                values: if whole {
                    ColumnValues::Integer(Vec::new())
                } else {
                    ColumnValues::Float(Vec::new())
                },
                absent: Vec::new(),
            })
            .collect();
        Self { series }
    }

    /// Adds a row; a cell without a value is marked absent.
    fn push_row(&mut self, time_ns: i64, cells: impl Iterator<Item = Option<f64>>, wholes: &[Option<u64>]) {
        let row = self.series.times.len() as u32;
        self.series.times.push(time_ns);
        let mut wholes = wholes.iter();
        let mut floats = cells;
        for column in &mut self.series.columns {
            let present = match &mut column.values {
                ColumnValues::Integer(values) => {
                    let value = wholes.next().copied().flatten();
                    values.push(value.unwrap_or(0) as i64);
                    value.is_some()
                }
                ColumnValues::Float(values) => {
                    let value = floats.next().flatten();
                    values.push(value.unwrap_or(0.0));
                    value.is_some()
                }
            };
            if !present {
                column.absent.push(row);
            }
        }
    }

    /// Takes the rows since the last call; columns without any value are left out.
    fn take_chunk(&mut self) -> Option<Series> {
        if self.series.times.is_empty() {
            return None;
        }
        let empty = Self::empty_copy(&self.series);
        let mut full = std::mem::replace(&mut self.series, empty);
        let rows = full.times.len();
        full.columns.retain(|column| column.absent.len() < rows);
        Some(full)
    }

    fn empty_copy(series: &Series) -> Series {
        let mut empty = Series::new(series.run, series.name.clone());
        empty.columns = series
            .columns
            .iter()
            .map(|column| SeriesColumn {
                name: column.name.clone(),
                kind: column.kind,
                unit: column.unit,
                values: match column.values {
                    ColumnValues::Integer(_) => ColumnValues::Integer(Vec::new()),
                    ColumnValues::Float(_) => ColumnValues::Float(Vec::new()),
                },
                absent: Vec::new(),
            })
            .collect();
        empty
    }
}

/// The series of a run in progress.
pub struct RunTimeline {
    usage: TimelineTable,
    host: TimelineTable,
    energy: Option<TimelineTable>,
    gpu: Option<TimelineTable>,
    /// Total rows of `usage`.
    pub samples: u64,
}

impl RunTimeline {
    /// An empty time line; `meters` are the names of the energy meters, `gpus` the number of GPUs.
    pub fn new(run: RunId, meters: &[String], gpus: usize) -> Self {
        let named = |headings: &[ColumnHeading]| {
            headings
                .iter()
                .map(|(name, kind, unit, whole)| (name.to_string(), *kind, *unit, *whole))
                .collect::<Vec<_>>()
        };
        let energy =
            meters.iter().map(|name| (name.clone(), ColumnKind::Counter, ColumnUnit::Microjoules, true));
        // With one GPU, the usual case, column names have no number.
        let numbered = |name: &str, number: usize| match gpus {
            1 => name.to_string(),
            _ => format!("{name}-{number}"),
        };
        let gpu = (0..gpus).flat_map(|number| {
            [("utilisation", ColumnUnit::Ratio), ("frequency", ColumnUnit::Hertz)]
                .map(|(name, unit)| (numbered(name, number), ColumnKind::Gauge, unit, false))
        });
        Self {
            usage: TimelineTable::new(run, "use", named(&USAGE_COLUMNS)),
            host: TimelineTable::new(run, "host", named(&HOST_COLUMNS)),
            energy: (!meters.is_empty()).then(|| TimelineTable::new(run, "energy", energy)),
            gpu: (gpus > 0).then(|| TimelineTable::new(run, "gpu", gpu)),
            samples: 0,
        }
    }

    /// Adds a sample of the run's use.
    pub fn add_usage(&mut self, at: Duration, sample: &CgroupSample, processes: Option<u64>) {
        let cells = [
            sample.cpu_ns,
            sample.memory,
            sample.anonymous,
            sample.file,
            sample.kernel,
            sample.read,
            sample.written,
            processes,
        ];
        self.usage.push_row(at.as_nanos() as i64, std::iter::empty(), &cells);
        self.samples += 1;
    }

    /// Adds a sample of the host.
    pub fn add_host(&mut self, at: Duration, counters: &HostCounters, reading: &HostReading) {
        let floats = [
            reading.load1,
            reading.frequency_hertz.map(|f| f.get()),
            reading.temperature_celsius.map(|t| t.get()),
        ];
        let [cpu, memory, io] = counters.pressure_ns;
        let available = reading.memory_available_bytes.map(|bytes| bytes.get());
        let wholes = [counters.busy_ns, counters.steal_ns, cpu, memory, io, available];
        self.host.push_row(at.as_nanos() as i64, floats.into_iter(), &wholes);
    }

    /// Adds the energy so far of each meter.
    pub fn add_energy(&mut self, at: Duration, microjoules: &[(String, i64)]) {
        if let Some(table) = &mut self.energy {
            let cells: Vec<Option<u64>> = microjoules.iter().map(|(_, value)| Some(*value as u64)).collect();
            table.push_row(at.as_nanos() as i64, std::iter::empty(), &cells);
        }
    }

    /// Adds a reading of each GPU.
    pub fn add_gpus(&mut self, at: Duration, looks: &[GpuReading]) {
        if let Some(table) = &mut self.gpu {
            let cells = looks.iter().flat_map(|look| [look.utilisation, look.frequency]);
            table.push_row(at.as_nanos() as i64, cells, &[]);
        }
    }

    /// Takes the rows since the last call.
    pub fn take_chunk(&mut self) -> Vec<Series> {
        let energy = self.energy.as_mut().and_then(TimelineTable::take_chunk);
        let gpu = self.gpu.as_mut().and_then(TimelineTable::take_chunk);
        self.usage.take_chunk().into_iter().chain(self.host.take_chunk()).chain(energy).chain(gpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_well_formed_and_says_which_cells_are_absent() {
        let mut line = RunTimeline::new(RunId::new(), &["package-0".into()], 1);
        let full =
            CgroupSample { cpu_ns: Some(5), memory: Some(6), anonymous: Some(7), ..CgroupSample::default() };
        line.add_usage(
            Duration::from_millis(1),
            &CgroupSample { cpu_ns: Some(1), memory: Some(2), ..CgroupSample::default() },
            None,
        );
        line.add_usage(Duration::from_millis(2), &full, Some(1));
        line.add_host(
            Duration::from_millis(2),
            &HostCounters::default(),
            &HostReading { load1: Some(0.5), ..HostReading::default() },
        );
        line.add_energy(Duration::from_millis(2), &[("package-0".into(), 9)]);
        line.add_gpus(Duration::from_millis(2), &[GpuReading { utilisation: Some(0.5), frequency: None }]);
        let chunk = line.take_chunk();
        assert_eq!(
            chunk.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["use", "host", "energy", "gpu"]
        );
        assert!(chunk.iter().all(|series| series.find_defect().is_none()), "{chunk:?}");
        let anonymous = chunk[0].column("anonymous").unwrap();
        assert_eq!(
            (&anonymous.values, anonymous.absent.as_slice()),
            (&ColumnValues::Integer(vec![0, 7]), &[0][..])
        );
        assert!(chunk[0].column("kernel").is_none(), "a column that is never filled is not kept");
        assert_eq!(chunk[1].column("load1").unwrap().values, ColumnValues::Float(vec![0.5]));
        assert_eq!(chunk[3].column("utilisation").unwrap().values, ColumnValues::Float(vec![0.5]));
        assert!(chunk[3].column("frequency").is_none());
        assert_eq!(line.take_chunk(), []);
    }
}
