//! The time line of a run: rows of samples, handed on as a chunk every second.

use std::time::Duration;

use metier_types::{Column, Kind, RunId, Series, Unit, Values};

use metier_device::gpu::Look;
use metier_linux::cgroup::Sample;
use metier_linux::host::HostCounters;
use metier_types::HostReading;

/// A column's name, kind and unit, and whether its values are whole numbers.
type Heading = (&'static str, Kind, Unit, bool);

/// Columns of the series `use`.
const USE: [Heading; 8] = [
    ("cpu", Kind::Counter, Unit::Nanoseconds, true),
    ("memory", Kind::Gauge, Unit::Bytes, true),
    ("anonymous", Kind::Gauge, Unit::Bytes, true),
    ("file", Kind::Gauge, Unit::Bytes, true),
    ("kernel", Kind::Gauge, Unit::Bytes, true),
    ("read", Kind::Counter, Unit::Bytes, true),
    ("written", Kind::Counter, Unit::Bytes, true),
    ("processes", Kind::Gauge, Unit::Count, true),
];

/// Columns of the series `host`.
const HOST: [Heading; 9] = [
    ("busy", Kind::Counter, Unit::Nanoseconds, true),
    ("steal", Kind::Counter, Unit::Nanoseconds, true),
    ("cpu_pressure", Kind::Counter, Unit::Nanoseconds, true),
    ("memory_pressure", Kind::Counter, Unit::Nanoseconds, true),
    ("io_pressure", Kind::Counter, Unit::Nanoseconds, true),
    ("load1", Kind::Gauge, Unit::Count, false),
    ("frequency", Kind::Gauge, Unit::Hertz, false),
    ("temperature", Kind::Gauge, Unit::Celsius, false),
    ("memory_available", Kind::Gauge, Unit::Bytes, true),
];

/// A table that grows row by row.
struct Table {
    series: Series,
}

impl Table {
    fn new(run: RunId, name: &str, headings: impl IntoIterator<Item = (String, Kind, Unit, bool)>) -> Self {
        let mut series = Series::new(run, name);
        series.columns = headings
            .into_iter()
            .map(|(name, kind, unit, whole)| Column {
                name,
                kind,
                unit,
                values: if whole { Values::Integer(Vec::new()) } else { Values::Float(Vec::new()) },
                absent: Vec::new(),
            })
            .collect();
        Self { series }
    }

    /// Adds a row; a cell without a value is marked absent.
    fn push(&mut self, time_ns: i64, cells: impl Iterator<Item = Option<f64>>, wholes: &[Option<u64>]) {
        let row = self.series.times.len() as u32;
        self.series.times.push(time_ns);
        let mut wholes = wholes.iter();
        let mut floats = cells;
        for column in &mut self.series.columns {
            let present = match &mut column.values {
                Values::Integer(values) => {
                    let value = wholes.next().copied().flatten();
                    values.push(value.unwrap_or(0) as i64);
                    value.is_some()
                }
                Values::Float(values) => {
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

    /// What has come since the last call; columns that the host never fills are left out.
    fn take(&mut self) -> Option<Series> {
        if self.series.times.is_empty() {
            return None;
        }
        let empty = Self::like(&self.series);
        let mut full = std::mem::replace(&mut self.series, empty);
        let rows = full.times.len();
        full.columns.retain(|column| column.absent.len() < rows);
        Some(full)
    }

    fn like(series: &Series) -> Series {
        let mut empty = Series::new(series.run, series.name.clone());
        empty.columns = series
            .columns
            .iter()
            .map(|column| Column {
                name: column.name.clone(),
                kind: column.kind,
                unit: column.unit,
                values: match column.values {
                    Values::Integer(_) => Values::Integer(Vec::new()),
                    Values::Float(_) => Values::Float(Vec::new()),
                },
                absent: Vec::new(),
            })
            .collect();
        empty
    }
}

/// The series of one run that is under way.
pub struct Timeline {
    usage: Table,
    host: Table,
    energy: Option<Table>,
    gpu: Option<Table>,
    /// Rows of `usage` in all.
    pub samples: u64,
}

impl Timeline {
    /// An empty one; `meters` are the energy meters by name, and `gpus` says how many GPUs there are.
    pub fn new(run: RunId, meters: &[String], gpus: usize) -> Self {
        let named = |headings: &[Heading]| {
            headings
                .iter()
                .map(|(name, kind, unit, whole)| (name.to_string(), *kind, *unit, *whole))
                .collect::<Vec<_>>()
        };
        let energy = meters.iter().map(|name| (name.clone(), Kind::Counter, Unit::Microjoules, true));
        // A device with one GPU, as most have, needs no numbers in its names.
        let numbered = |name: &str, number: usize| match gpus {
            1 => name.to_string(),
            _ => format!("{name}-{number}"),
        };
        let gpu = (0..gpus).flat_map(|number| {
            [("utilisation", Unit::Ratio), ("frequency", Unit::Hertz)]
                .map(|(name, unit)| (numbered(name, number), Kind::Gauge, unit, false))
        });
        Self {
            usage: Table::new(run, "use", named(&USE)),
            host: Table::new(run, "host", named(&HOST)),
            energy: (!meters.is_empty()).then(|| Table::new(run, "energy", energy)),
            gpu: (gpus > 0).then(|| Table::new(run, "gpu", gpu)),
            samples: 0,
        }
    }

    /// A sample of what the run uses.
    pub fn add_use(&mut self, at: Duration, sample: &Sample, processes: Option<u64>) {
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
        self.usage.push(at.as_nanos() as i64, std::iter::empty(), &cells);
        self.samples += 1;
    }

    /// A sample of the host around it.
    pub fn add_host(&mut self, at: Duration, counters: &HostCounters, reading: &HostReading) {
        let floats = [
            reading.load1,
            reading.frequency_hertz.map(|f| f.get()),
            reading.temperature_celsius.map(|t| t.get()),
        ];
        let [cpu, memory, io] = counters.pressure_ns;
        let available = reading.memory_available_bytes.map(|bytes| bytes.get());
        let wholes = [counters.busy_ns, counters.steal_ns, cpu, memory, io, available];
        self.host.push(at.as_nanos() as i64, floats.into_iter(), &wholes);
    }

    /// Energy so far, meter by meter.
    pub fn add_energy(&mut self, at: Duration, microjoules: &[(String, i64)]) {
        if let Some(table) = &mut self.energy {
            let cells: Vec<Option<u64>> = microjoules.iter().map(|(_, value)| Some(*value as u64)).collect();
            table.push(at.as_nanos() as i64, std::iter::empty(), &cells);
        }
    }

    /// What each GPU does.
    pub fn add_gpus(&mut self, at: Duration, looks: &[Look]) {
        if let Some(table) = &mut self.gpu {
            let cells = looks.iter().flat_map(|look| [look.utilisation, look.frequency]);
            table.push(at.as_nanos() as i64, cells, &[]);
        }
    }

    /// What has come since the last call.
    pub fn take(&mut self) -> Vec<Series> {
        let energy = self.energy.as_mut().and_then(Table::take);
        let gpu = self.gpu.as_mut().and_then(Table::take);
        self.usage.take().into_iter().chain(self.host.take()).chain(energy).chain(gpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_well_formed_and_says_which_cells_are_absent() {
        let mut line = Timeline::new(RunId::new(), &["package-0".into()], 1);
        let full = Sample { cpu_ns: Some(5), memory: Some(6), anonymous: Some(7), ..Sample::default() };
        line.add_use(
            Duration::from_millis(1),
            &Sample { cpu_ns: Some(1), memory: Some(2), ..Sample::default() },
            None,
        );
        line.add_use(Duration::from_millis(2), &full, Some(1));
        line.add_host(
            Duration::from_millis(2),
            &HostCounters::default(),
            &HostReading { load1: Some(0.5), ..HostReading::default() },
        );
        line.add_energy(Duration::from_millis(2), &[("package-0".into(), 9)]);
        line.add_gpus(Duration::from_millis(2), &[Look { utilisation: Some(0.5), frequency: None }]);
        let chunk = line.take();
        assert_eq!(
            chunk.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["use", "host", "energy", "gpu"]
        );
        assert!(chunk.iter().all(|series| series.defect().is_none()), "{chunk:?}");
        let anonymous = chunk[0].column("anonymous").unwrap();
        assert_eq!(
            (&anonymous.values, anonymous.absent.as_slice()),
            (&Values::Integer(vec![0, 7]), &[0][..])
        );
        assert!(chunk[0].column("kernel").is_none(), "a column that is never filled is not kept");
        assert_eq!(chunk[1].column("load1").unwrap().values, Values::Float(vec![0.5]));
        assert_eq!(chunk[3].column("utilisation").unwrap().values, Values::Float(vec![0.5]));
        assert!(chunk[3].column("frequency").is_none());
        assert_eq!(line.take(), []);
    }
}
