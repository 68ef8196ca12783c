//! A run's figures as sections of labelled values for people, and all of its fields as CSV rows.
//!
//! A mark gives the quality of a value: none for exact, `~` sampled, `≈` estimated.

use metier_types::{Run, ValueQuality};
use serde::Serialize;

pub struct RunFigure {
    pub label: &'static str,
    /// The value with its unit.
    pub value: String,
    /// Its dotted path in the record, if it has one.
    pub path: &'static str,
}

/// A heading and its values.
pub struct FigureSection {
    pub title: &'static str,
    /// The values; absent ones are omitted, and `missing` gives the reason.
    pub figures: Vec<RunFigure>,
}

/// Legend of the marks.
pub const LEGEND: &str = "~ sampled, ≈ estimated, unmarked values are exact";

/// The mark of a field.
pub fn quality_mark(run: &Run, path: &str) -> &'static str {
    match run.quality.get(path) {
        Some(ValueQuality::Sampled) => "~",
        Some(ValueQuality::Estimated) => "≈",
        _ => "",
    }
}

/// Short text of a run's outcome.
pub fn ending_word(state: metier_types::RunState, exit: Option<&metier_types::RunExit>) -> String {
    use metier_types::{ExitCause, RunState};
    match (state, exit) {
        (RunState::Running, _) => "running".to_string(),
        (RunState::Interrupted, _) => "interrupted".to_string(),
        (RunState::Finished, None) => "finished".to_string(),
        (_, Some(exit)) => match (exit.cause, exit.code, exit.signal) {
            (ExitCause::Exited, Some(0), _) => "ok".to_string(),
            (ExitCause::Exited, Some(code), _) => format!("exit {code}"),
            (ExitCause::Signalled, _, Some(signal)) => format!("signal {signal}"),
            (ExitCause::Timeout, ..) if exit.planned => "ok, as planned".to_string(),
            (ExitCause::Timeout, ..) => "timeout".to_string(),
            (ExitCause::Oom, ..) => "out of memory".to_string(),
            (ExitCause::Interrupted, ..) => "interrupted".to_string(),
            (ExitCause::Lost, ..) => "lost".to_string(),
            (ExitCause::Unstarted, ..) => "never started".to_string(),
            (ExitCause::Exited, None, _) => "exited".to_string(),
            (ExitCause::Signalled, _, None) => "signalled".to_string(),
        },
    }
}

/// Collects the figures of one section.
struct SectionBuilder {
    section: FigureSection,
}

impl SectionBuilder {
    fn new(title: &'static str) -> Self {
        Self { section: FigureSection { title, figures: Vec::new() } }
    }

    fn add(mut self, label: &'static str, path: &'static str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.section.figures.push(RunFigure { label, value: value.to_string(), path });
        }
        self
    }
}

/// All figures of a record, by section. Empty sections are omitted.
pub fn run_sections(run: &Run) -> Vec<FigureSection> {
    let summary = &run.summary;
    let sections = [
        SectionBuilder::new("Time")
            .add("wall", "summary.wall_seconds", summary.wall_seconds)
            .add("cpu", "summary.cpu_seconds", summary.cpu_seconds)
            .add("user", "summary.cpu_user_seconds", summary.cpu_user_seconds)
            .add("system", "summary.cpu_system_seconds", summary.cpu_system_seconds)
            .add("mean cores", "", run.mean_busy_cores().map(|cores| format!("{cores:.2}")))
            .add("peak cores", "cpu.peak_cores", run.cpu.peak_cores.map(|cores| format!("{cores:.2}")))
            .add("in the run queue", "cpu.run_queue_seconds", run.cpu.run_queue_seconds)
            .add("… explains", "cpu.run_queue_ratio", run.cpu.run_queue_ratio)
            .add("throttled", "cpu.throttled_seconds", run.cpu.throttled_seconds)
            .add("throttled periods", "cpu.throttled_periods", run.cpu.throttled_periods)
            .add("switches, waiting", "cpu.voluntary_switches", run.cpu.voluntary_switches)
            .add("switches, forced", "cpu.involuntary_switches", run.cpu.involuntary_switches),
        SectionBuilder::new("Memory")
            .add("peak", "summary.peak_memory_bytes", summary.peak_memory_bytes)
            .add("anonymous", "memory.peak_anonymous_bytes", run.memory.peak_anonymous_bytes)
            .add("page cache", "memory.peak_file_bytes", run.memory.peak_file_bytes)
            .add("kernel", "memory.peak_kernel_bytes", run.memory.peak_kernel_bytes)
            .add("sum of processes", "memory.peak_resident_sum_bytes", run.memory.peak_resident_sum_bytes)
            .add("largest process", "memory.peak_process_bytes", run.memory.peak_process_bytes)
            .add("faults, minor", "memory.minor_faults", run.memory.minor_faults)
            .add("faults, major", "memory.major_faults", run.memory.major_faults)
            .add("killed for memory", "memory.oom_kills", run.memory.oom_kills.filter(|n| *n > 0)),
        SectionBuilder::new("Input and output")
            .add("read", "summary.read_bytes", summary.read_bytes)
            .add("written", "summary.written_bytes", summary.written_bytes)
            .add("read by device", "io.device_read_bytes", run.io.device_read_bytes)
            .add("written by device", "io.device_written_bytes", run.io.device_written_bytes)
            .add("read calls", "io.call_read_bytes", run.io.call_read_bytes)
            .add("write calls", "io.call_written_bytes", run.io.call_written_bytes)
            .add("received", "network.received_bytes", run.network.as_ref().map(|n| n.received_bytes))
            .add("sent", "network.sent_bytes", run.network.as_ref().map(|n| n.sent_bytes)),
        SectionBuilder::new("Some task waited")
            .add("for a core", "pressure.cpu_seconds", run.pressure.cpu_seconds)
            .add("for memory", "pressure.memory_seconds", run.pressure.memory_seconds)
            .add("for IO", "pressure.io_seconds", run.pressure.io_seconds),
        SectionBuilder::new("Energy").add("energy", "summary.energy_joules", run.format_energy()).add(
            "mean power",
            "energy.mean_power_watts",
            run.energy.mean_power_watts,
        ),
        host_section(run),
        SectionBuilder::new("Trust")
            .add("own overhead", "summary.own_overhead_ratio", summary.own_overhead_ratio)
            .add("own cpu", "overhead.cpu_seconds", run.overhead.cpu_seconds)
            .add("launcher cpu", "overhead.launcher_cpu_seconds", run.overhead.launcher_cpu_seconds)
            .add("start-up", "overhead.startup_seconds", run.overhead.startup_seconds)
            .add("lost events", "overhead.lost_events", run.overhead.lost_events.filter(|n| *n > 0))
            .add("samples", "context.sampling", run.context.sampling.as_ref().map(samples_text)),
    ];
    sections.into_iter().map(|under| under.section).filter(|section| !section.figures.is_empty()).collect()
}

fn host_section(run: &Run) -> SectionBuilder {
    let host = &run.host;
    let pair = |before: Option<String>, after: Option<String>| match (before, after) {
        (Some(before), Some(after)) => Some(format!("{before} → {after}")),
        (before, after) => before.or(after),
    };
    let both = |of: fn(&metier_types::HostReading) -> Option<String>| pair(of(&host.before), of(&host.after));
    SectionBuilder::new("Host, before → after")
        .add("load", "host.before.load1", both(|at| at.load1.map(|load| format!("{load:.2}"))))
        .add("runnable", "host.before.runnable", both(|at| at.runnable.map(|n| n.to_string())))
        .add(
            "available memory",
            "host.before.memory_available_bytes",
            both(|at| at.memory_available_bytes.map(|bytes| bytes.to_string())),
        )
        .add("frequency", "host.before.frequency_hertz", both(|at| at.frequency_hertz.map(|f| f.to_string())))
        .add(
            "temperature",
            "host.before.temperature_celsius",
            both(|at| at.temperature_celsius.map(|t| t.to_string())),
        )
        .add("governor", "host.governor", host.governor.as_ref())
        .add("power mode", "context.power_mode", run.context.power_mode.as_ref())
        .add("steal", "host.steal_ratio", host.steal_ratio)
        .add("used by others", "host.others_ratio", host.others_ratio)
        .add("waited for a core", "host.cpu_pressure_ratio", host.cpu_pressure_ratio)
        .add("waited for memory", "host.memory_pressure_ratio", host.memory_pressure_ratio)
        .add("waited for IO", "host.io_pressure_ratio", host.io_pressure_ratio)
}

fn samples_text(sampling: &metier_types::SamplingSummary) -> String {
    let late = if sampling.late > 0 { format!(", {} late", sampling.late) } else { String::new() };
    format!("{} every {}{late}", sampling.samples, sampling.interval_seconds)
}

/// Every leaf of a record with its dotted path, in the order of the record.
pub fn record_leaves(record: &impl Serialize) -> anyhow::Result<Vec<(String, String)>> {
    fn walk(path: &str, value: &serde_json::Value, found: &mut Vec<(String, String)>) {
        let under = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match value {
            serde_json::Value::Object(fields) => {
                fields.iter().for_each(|(key, value)| walk(&under(key), value, found));
            }
            serde_json::Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, value)| walk(&under(&at.to_string()), value, found));
            }
            serde_json::Value::Null => found.push((path.to_string(), String::new())),
            serde_json::Value::String(text) => found.push((path.to_string(), text.clone())),
            other => found.push((path.to_string(), other.to_string())),
        }
    }
    let mut found = Vec::new();
    walk("", &serde_json::to_value(record)?, &mut found);
    Ok(found)
}

/// The same as rows of CSV.
pub fn leaf_rows(record: &impl Serialize) -> anyhow::Result<impl Iterator<Item = Vec<String>>> {
    Ok(record_leaves(record)?.into_iter().map(|(field, value)| vec![field, value]))
}
