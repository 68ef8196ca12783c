//! Board readings under the metric names of jetson-exporter, so that its dashboards keep working.
//!
//! Names, labels and units match that program, including its spelling `celcius`. Temperatures have
//! the digits of a 32-bit float, as there. Its errors are not copied: sizes in kB are kB, load and
//! clock are reported even if only one of them is known, and the two MTS help texts are not
//! swapped. A missing reading has no series.

use metier_types::UtcTimestamp;

use super::{BoardEngine, BoardMemory, BoardSnapshot};

/// One series with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct JetsonSeries {
    /// Metric family name.
    pub name: &'static str,
    /// Text of the `# HELP` line.
    pub help: &'static str,
    /// Name and value of the label, if any.
    pub label: Option<(&'static str, String)>,
    pub value: f64,
}

/// Every series of a board, sorted by family name; all are gauges.
pub fn board_series(board: &BoardSnapshot, updated: UtcTimestamp) -> Vec<JetsonSeries> {
    let mut list = JetsonSeriesList::default();
    for (number, core) in board.cores.iter().enumerate() {
        let label = || Some(("cpu", (number + 1).to_string()));
        list.add_series(
            "tegra_cpu_frequency_hz",
            "CPU Clock frequency",
            label(),
            core.frequency_hertz.map(|f| f.get()),
        );
        let help = "Utilization of CPU in percentage";
        list.add_series(
            "tegra_cpu_util_percentage",
            help,
            label(),
            core.load_ratio.map(|load| to_percent(load.get())),
        );
    }
    if let Some(emc) = &board.emc {
        list.add_engine(
            emc,
            ("tegra_emc_frequency_hz", "External memory controller clock frequency"),
            ("tegra_emc_util_percentage", "Utilization of external memory controller in percentage"),
        );
    }
    if let Some(gpu) = board.gpus.first() {
        list.add_engine(
            gpu,
            ("tegra_gpu_frequency_hz", "GPU clock frequency"),
            ("tegra_gpu_util_percentage", "Utilization of GPU in percentage"),
        );
    }
    let help = "An epoch time of when the stats were collected from the system";
    list.add_series("tegra_last_updated_timestamp_epoch", help, None, Some(epoch_seconds(updated)));
    let blocks = board.ram.and_then(|ram| ram.largest_free);
    let (count, size) = (blocks.and_then(|b| b.count), blocks.map(|b| b.size_bytes.get()));
    list.add_series("tegra_lfb_nblock_count", "Count of largest free block", None, count.map(|n| n as f64));
    list.add_series("tegra_lfb_size_bytes", "Size of largest free block", None, size.map(|n| n as f64));
    let background = "Time of the code translator in the background, in percentage";
    let foreground = "Time of the code translator in the foreground, in percentage";
    let mts = |share: Option<f64>| share.map(to_percent);
    list.add_series(
        "tegra_mts_bg_percentage",
        background,
        None,
        mts(board.mts.and_then(|m| m.background).map(|r| r.get())),
    );
    list.add_series("tegra_mts_fg_percentage", foreground, None, mts(board.mts.map(|m| m.foreground.get())));
    let of = |memory: Option<BoardMemory>, part: fn(BoardMemory) -> Option<u64>| {
        memory.and_then(part).map(|n| n as f64)
    };
    let (used, total) =
        (|m: BoardMemory| Some(m.used_bytes.get()), |m: BoardMemory| Some(m.total_bytes.get()));
    list.add_series("tegra_ram_total_bytes", "Total memory", None, of(board.ram, total));
    list.add_series("tegra_ram_used_bytes", "Current used memory", None, of(board.ram, used));
    let cached = |m: BoardMemory| m.cached_bytes.map(|bytes| bytes.get());
    list.add_series("tegra_swap_cached_bytes", "Current swap cache memory", None, of(board.swap, cached));
    list.add_series("tegra_swap_total_bytes", "Total swap memory", None, of(board.swap, total));
    list.add_series("tegra_swap_used_bytes", "Current swap used memory", None, of(board.swap, used));
    for sensor in &board.temperatures {
        let label = Some(("sensor", sensor.name.to_ascii_lowercase()));
        let celsius = sensor.celsius.map(|celsius| f64::from(celsius.get() as f32));
        list.add_series("tegra_temperature_celcius", "Temperature reading in Celcius", label, celsius);
    }
    for rail in &board.rails {
        let label = || Some(("sensor", rail.name.to_ascii_lowercase()));
        let mean = rail.mean_milliwatts().map(|value| value as f64);
        list.add_series("tegra_wattage_average_milliwatts", "Averaged Watts of the hardware", label(), mean);
        let now = Some(rail.milliwatts() as f64);
        list.add_series("tegra_wattage_current_milliwatts", "Current Watts of the hardware", label(), now);
    }
    list.0.sort_by(|a, b| (a.name, sort_key(a)).cmp(&(b.name, sort_key(b))));
    list.0.dedup_by(|later, earlier| later.name == earlier.name && later.label == earlier.label);
    list.0
}

#[derive(Default)]
struct JetsonSeriesList(Vec<JetsonSeries>);

impl JetsonSeriesList {
    fn add_series(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: Option<(&'static str, String)>,
        value: Option<f64>,
    ) {
        self.0.extend(value.map(|value| JetsonSeries { name, help, label, value }));
    }

    fn add_engine(
        &mut self,
        engine: &BoardEngine,
        clock: (&'static str, &'static str),
        load: (&'static str, &'static str),
    ) {
        self.add_series(clock.0, clock.1, None, engine.highest_frequency().map(|f| f.get()));
        self.add_series(load.0, load.1, None, engine.load_ratio.map(|ratio| to_percent(ratio.get())));
    }
}

/// Sorts cores by number and sensors by name.
fn sort_key(series: &JetsonSeries) -> (usize, &str) {
    let text = series.label.as_ref().map_or("", |(_, value)| value.as_str());
    (text.parse().unwrap_or(usize::MAX), text)
}

/// A ratio in per cent, rounded to hide binary fraction noise.
fn to_percent(ratio: f64) -> f64 {
    (ratio * 1e8).round() / 1e6
}

fn epoch_seconds(time: UtcTimestamp) -> f64 {
    time.as_millisecond() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::boards::{TegrastatsLine, recorded};

    fn line(id: &str) -> Option<TegrastatsLine> {
        recorded::line(id).map(|text| TegrastatsLine::parse(&text))
    }

    /// Name with label, and value, of each series on a page in the text format.
    fn values(page: &str) -> BTreeSet<(String, String)> {
        let rows = page.lines().filter(|row| !row.starts_with('#'));
        rows.map(|row| row.rsplit_once(' ').unwrap())
            .map(|(name, value)| (name.to_string(), format!("{:?}", value.parse::<f64>().unwrap())))
            .collect()
    }

    fn helps(page: &str) -> BTreeSet<&str> {
        page.lines().filter_map(|row| row.strip_prefix("# HELP ")).collect()
    }

    #[test]
    fn the_pages_of_jetson_exporter_come_out_value_by_value() {
        let updated = UtcTimestamp::from_second(1_701_465_532).unwrap();
        let pages =
            [("s02", "jetson_exporter_nx_jp512.prom.txt"), ("s03", "jetson_exporter_nano_jp461.prom.txt")];
        for (id, page) in pages {
            let (Some(line), Some(page)) = (line(id), recorded::shared(page)) else { return };
            let page = page.as_str();
            let list = board_series(&line.board, updated);
            let got: BTreeSet<(String, String)> = list
                .iter()
                .map(|series| {
                    let label = series.label.as_ref().map(|(name, value)| format!("{{{name}=\"{value}\"}}"));
                    (format!("{}{}", series.name, label.unwrap_or_default()), format!("{:?}", series.value))
                })
                .collect();
            assert_eq!(got, values(page), "{id}");
            let texts: Vec<String> =
                list.iter().map(|series| format!("{} {}", series.name, series.help)).collect();
            let name_texts: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
            assert_eq!(name_texts, helps(page), "{id}");
        }
    }

    #[test]
    fn what_is_off_or_not_shown_has_no_series() {
        let get = |line: &TegrastatsLine, name: &str, label: &str| {
            board_series(&line.board, UtcTimestamp::UNIX_EPOCH)
                .into_iter()
                .find(|series| {
                    series.name == name && series.label.as_ref().is_none_or(|(_, value)| value == label)
                })
                .map(|series| series.value)
        };
        let tx2 = TegrastatsLine::parse("CPU [1%@345,off,off,1%@345] GR3D_FREQ 0%@624");
        assert_eq!(get(&tx2, "tegra_cpu_util_percentage", "1"), Some(1.0));
        assert_eq!(get(&tx2, "tegra_cpu_util_percentage", "2"), None, "off");
        assert_eq!(get(&tx2, "tegra_cpu_util_percentage", "4"), Some(1.0), "numbers do not move up");
        let thor = TegrastatsLine::parse("CPU [1%@972] GR3D_FREQ @[0,0,0]");
        assert_eq!(get(&thor, "tegra_gpu_util_percentage", ""), None);
        assert_eq!(get(&thor, "tegra_gpu_frequency_hz", ""), Some(0.0));
        let nonroot = TegrastatsLine::parse("CPU [0%@2201] GR3D_FREQ 0%");
        assert_eq!(get(&nonroot, "tegra_gpu_util_percentage", ""), Some(0.0), "without root as well");
        assert_eq!(get(&nonroot, "tegra_emc_util_percentage", ""), None);
        let nx = TegrastatsLine::parse("CPU [5%@1420] MTS fg 1% bg 9%");
        assert_eq!(get(&nx, "tegra_mts_fg_percentage", ""), Some(1.0));
        assert_eq!(get(&nx, "tegra_mts_bg_percentage", ""), Some(9.0));
    }
}
