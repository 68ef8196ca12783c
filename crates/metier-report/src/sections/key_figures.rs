//! The key figures of the representative run, with a mark for values that are not exact.

use crate::ReportedRun;
use crate::blocks::{CellTone, ReportBlock, ReportCell};
use crate::value_format::quality_mark;

pub fn key_figure_blocks(shown: &ReportedRun) -> Vec<ReportBlock> {
    let run = &shown.run;
    let summary = &run.summary;
    let mut facts: Vec<(String, ReportCell)> = Vec::new();
    let mut add = |label: &str, path: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push((
                label.to_string(),
                ReportCell::with_tone(format!("{value}{}", quality_mark(run, path)), CellTone::Number),
            ));
        }
    };
    fn words(value: Option<impl ToString>) -> Option<String> {
        value.map(|value| value.to_string())
    }
    add("wall time", "summary.wall_seconds", words(summary.wall_seconds));
    add("CPU time", "summary.cpu_seconds", words(summary.cpu_seconds));
    add("… in the program", "summary.cpu_user_seconds", words(summary.cpu_user_seconds));
    add("… in the kernel", "summary.cpu_system_seconds", words(summary.cpu_system_seconds));
    add("peak cores", "cpu.peak_cores", run.cpu.peak_cores.map(|cores| format!("{cores:.2}")));
    add("held back by a limit", "cpu.throttled_seconds", words(run.cpu.throttled_seconds));
    add("peak memory", "summary.peak_memory_bytes", words(summary.peak_memory_bytes));
    add("… anonymous", "memory.peak_anonymous_bytes", words(run.memory.peak_anonymous_bytes));
    add("… page cache", "memory.peak_file_bytes", words(run.memory.peak_file_bytes));
    add("major page faults", "memory.major_faults", words(run.memory.major_faults));
    add("killed for memory", "memory.oom_kills", words(run.memory.oom_kills.filter(|n| *n > 0)));
    add("read", "summary.read_bytes", words(summary.read_bytes));
    add("written", "summary.written_bytes", words(summary.written_bytes));
    add(
        "received",
        "network.received_bytes",
        words(run.network.as_ref().map(|network| network.received_bytes)),
    );
    add("sent", "network.sent_bytes", words(run.network.as_ref().map(|network| network.sent_bytes)));
    add("in the run queue", "cpu.run_queue_seconds", words(run.cpu.run_queue_seconds));
    add("… explains of the time", "cpu.run_queue_ratio", words(run.cpu.run_queue_ratio));
    add("some task waited for a core", "pressure.cpu_seconds", words(run.pressure.cpu_seconds));
    add("some task waited for memory", "pressure.memory_seconds", words(run.pressure.memory_seconds));
    add("some task waited for IO", "pressure.io_seconds", words(run.pressure.io_seconds));
    add("energy of the device", "summary.energy_joules", run.format_energy());
    add("mean power", "energy.mean_power_watts", words(run.energy.mean_power_watts));
    add("processes", "summary.processes", words(summary.processes));
    for gpu in run.gpus.iter().take(16) {
        add(&format!("{} busy", gpu.name), "", words(gpu.mean_utilisation_ratio));
        add(&format!("{} peak memory", gpu.name), "", words(gpu.peak_memory_bytes));
        add(&format!("{} energy", gpu.name), "", words(gpu.energy_joules));
    }
    if facts.is_empty() {
        return Vec::new();
    }
    vec![
        ReportBlock::Facts(facts),
        ReportBlock::Text("~ sampled, ≈ estimated; unmarked values are exact.".to_string()),
    ]
}
