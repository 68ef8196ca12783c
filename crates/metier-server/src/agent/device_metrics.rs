//! This device under the `char_node_*` metric names of EdgeCloud-Mon's char_agent, so that its
//! clients go on working.
//!
//! Names, labels and units are that program's. Its errors are not repeated: the uuid is stable and
//! belongs to this device. Watts are measured between two scrapes or absent. Nothing is requested
//! over a network; the location comes from the configuration. Every board has a page.
//!
//! Constant facts are read once, battery and watts at each scrape.

use std::time::Instant;

use metier_device::sensors::EnergyMeters;
use metier_linux::{KernelRoots, kernel_file};
use metier_prom::{MetricKind, MetricsPage, RenderedLabels};
use metier_types::{Bytes, Device, Watts};

use super::config::NodeLocation;

#[derive(Debug, Clone, PartialEq, Eq)]
struct GpuLabels {
    model: String,
    sort: &'static str,
    id: String,
}

/// Facts about the device.
pub struct DeviceMetrics {
    common: RenderedLabels,
    device: Device,
    model: Option<String>,
    bits: u32,
    disk: Option<Bytes>,
    os: (String, String),
    gpus: Vec<GpuLabels>,
    location: Option<NodeLocation>,
    batteries: Vec<std::path::PathBuf>,
    meters: EnergyMeters,
    last: Option<(Instant, f64)>,
    watts: Option<Watts>,
}

impl DeviceMetrics {
    /// Reads the constant facts.
    pub fn new(
        roots: &KernelRoots,
        device: Device,
        node: Option<String>,
        location: Option<NodeLocation>,
    ) -> Self {
        let cpuinfo = std::fs::read_to_string(roots.proc.join("cpuinfo")).unwrap_or_default();
        let is_virtual = roots.sys.join("hypervisor/type").exists()
            || cpuinfo.lines().any(|line| {
                line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
            });
        let node = node.unwrap_or_else(|| device.name.clone());
        let common = RenderedLabels::new()
            .with_label("char_node_name", &node)
            .with_label("char_node_class", if is_virtual { "VM" } else { "Computer" })
            .with_label("char_node_uuid", device.id.as_str());
        let supplies =
            std::fs::read_dir(roots.sys.join("class/power_supply")).into_iter().flatten().flatten();
        let batteries = supplies
            .map(|entry| entry.path())
            .filter(|path| kernel_file::read_text(path.join("type")).is_some_and(|kind| kind == "Battery"))
            // Batteries of mice and keyboards have the scope `Device`.
            .filter(|path| kernel_file::read_text(path.join("scope")).is_none_or(|scope| scope != "Device"))
            .take(8)
            .collect();
        let is_64_bit = device.cpu.architecture.contains("64") || device.cpu.architecture == "s390x";
        let mut sheet = Self {
            common,
            model: device.product.as_deref().map(board_model_name).filter(|name| !name.is_empty()),
            bits: if is_64_bit { 64 } else { 32 },
            disk: root_disk_size(roots),
            os: (
                kernel_file::read_text(roots.proc.join("sys/kernel/ostype"))
                    .unwrap_or_else(|| "Linux".into()),
                device.kernel.clone().unwrap_or_default(),
            ),
            gpus: find_gpus(roots),
            location,
            batteries,
            meters: EnergyMeters::open(roots),
            last: None,
            watts: None,
            device,
        };
        sheet.meters.reset();
        sheet.last = sheet.processor_joules().map(|joules| (Instant::now(), joules));
        sheet
    }

    /// Accumulated energy of the processor.
    fn processor_joules(&self) -> Option<f64> {
        let (meters, _) = self.meters.usage();
        let of = |meter: &&metier_types::EnergyMeterReading| {
            let name = meter.name.to_ascii_lowercase();
            name.starts_with("package") || (name.contains("cpu") && !name.contains("gpu"))
        };
        let mut found = meters.iter().filter(of).map(|meter| meter.energy_joules.get()).peekable();
        found.peek()?;
        Some(found.sum())
    }

    pub fn read(&mut self) {
        self.meters.sample();
        let Some(joules) = self.processor_joules() else { return };
        let now = Instant::now();
        if let Some((then, before)) = self.last {
            let seconds = (now - then).as_secs_f64();
            // Below this, the counter's resolution would show.
            if seconds < 0.2 {
                return;
            }
            self.watts = (joules >= before).then(|| Watts((joules - before) / seconds));
        }
        self.last = Some((now, joules));
    }

    pub fn write(&self, page: &mut MetricsPage) {
        let common = &self.common;
        let cpu = &self.device.cpu;
        let architecture = py_cpuinfo_architecture(&cpu.architecture);
        let bits = self.bits.to_string();
        let brand = cpu.model.as_deref().unwrap_or("unknown");
        let processor =
            [("char_node_brand", brand), ("char_node_arch", architecture), ("char_node_bits", bits.as_str())];

        page.begin_family(
            "char_node_device_model",
            MetricKind::Gauge,
            "Model of the device; 1 if it is known.",
        )
        .add_sample(
            &common.join(&[("char_node_device_model_name", self.model.as_deref().unwrap_or("unknown"))]),
            self.model.is_some(),
        );
        let charge =
            self.batteries.iter().filter_map(|path| kernel_file::read_number(path.join("capacity"))).next();
        let has_battery = if self.batteries.is_empty() { "false" } else { "true" };
        page.begin_family(
            "char_node_battery",
            MetricKind::Gauge,
            "Charge of the battery in per cent; 0 without one.",
        )
        .add_sample(&common.join(&[("char_node_plugged_battery", has_battery)]), charge.unwrap_or(0));
        page.begin_family("char_node_ram_total_bytes", MetricKind::Gauge, "Memory of the device.")
            .add_optional_sample(common, self.device.memory_bytes);
        page.begin_family("char_node_cpu_total_cores", MetricKind::Gauge, "Logical cores of the device.")
            .add_sample(&common.join(&processor), cpu.threads);
        page.begin_family(
            "char_node_cpu_energy_watt",
            MetricKind::Gauge,
            "Power of the processor since the last scrape, measured; absent where nothing measures it.",
        )
        .add_optional_sample(&common.join(&processor), self.watts);
        if let Some(place) = &self.location {
            let labels = [
                ("char_node_city", place.city.as_str()),
                ("char_node_country", &place.country),
                ("char_node_continent", &place.continent),
                ("char_node_latitude", &place.latitude),
                ("char_node_longitude", &place.longitude),
            ];
            page.begin_family(
                "char_node_location",
                MetricKind::Gauge,
                "Where the device stands, as configured; always 1.",
            )
            .add_sample(&common.join(&labels), 1u64);
        }
        page.begin_family(
            "char_node_disk_total_size",
            MetricKind::Gauge,
            "Size of the root file system in bytes.",
        )
        .add_optional_sample(common, self.disk);
        let os = [("char_node_os_name", self.os.0.as_str()), ("char_node_os_version", &self.os.1)];
        page.begin_family("char_node_os", MetricKind::Gauge, "System of the device; always 1.")
            .add_sample(&common.join(&os), 1u64);
        let mut family =
            page.begin_family("char_node_gpu", MetricKind::Gauge, "Graphics processors of the device.");
        if self.gpus.is_empty() {
            let none = [("char_node_gpu_model", ""), ("char_node_gpu_type", ""), ("char_node_gpu_id", "")];
            family.add_sample(&common.join(&none), 0u64);
        }
        for gpu in &self.gpus {
            let labels = [
                ("char_node_gpu_model", gpu.model.as_str()),
                ("char_node_gpu_type", gpu.sort),
                ("char_node_gpu_id", &gpu.id),
            ];
            family.add_sample(&common.join(&labels), 1u64);
        }
    }
}

/// The model without revision and variant: `Raspberry Pi 4 Model B`, `NVIDIA Jetson Nano`.
fn board_model_name(product: &str) -> String {
    let name = product.split(" Rev ").next().unwrap_or(product);
    name.replace("Developer Kit", "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Architecture names of py-cpuinfo, which char_agent shows.
fn py_cpuinfo_architecture(name: &str) -> &str {
    match name {
        "x86_64" => "X86_64",
        "x86" => "X86_32",
        "aarch64" => "ARM_8",
        "arm" => "ARM_7",
        "powerpc64" => "PPC_64",
        "riscv64" => "RISCV_64",
        "s390x" => "S390X",
        other => other,
    }
}

/// Size of the host's root file system.
fn root_disk_size(roots: &KernelRoots) -> Option<Bytes> {
    let about = super::host_load::root_filesystem(&roots.proc)?;
    Some(Bytes(about.f_blocks.saturating_mul(about.f_frsize)))
}

fn find_gpus(roots: &KernelRoots) -> Vec<GpuLabels> {
    let mut found = Vec::new();
    let folders = |path: std::path::PathBuf| {
        let mut paths: Vec<_> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .take(64)
            .collect();
        paths.sort();
        paths
    };
    for folder in folders(roots.proc.join("driver/nvidia/gpus")) {
        let about = std::fs::read_to_string(folder.join("information")).unwrap_or_default();
        let model = about.lines().find_map(|line| line.strip_prefix("Model:")).unwrap_or("unknown").trim();
        let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.push(GpuLabels {
            model: format!("nvidia.com/{}", dashed_gpu_name(model)),
            sort: "dedicated",
            id,
        });
    }
    // A Jetson's GPU is part of the chip and on no bus.
    let compatible = std::fs::read(roots.proc.join("device-tree/compatible")).unwrap_or_default();
    let compatible = String::from_utf8_lossy(&compatible).into_owned();
    if found.is_empty() && compatible.contains("nvidia,tegra") {
        let chip = compatible.split('\0').filter_map(|name| name.strip_prefix("nvidia,tegra")).next_back();
        let model = match chip {
            Some("210") => "Tegra-X1-Maxwell",
            Some("186") => "Tegra-X2-Pascal",
            Some("194") => "Xavier-Volta",
            Some("234") => "Orin-Ampere",
            Some("264") => "Thor-Blackwell",
            _ => "Tegra",
        };
        found.push(GpuLabels { model: format!("nvidia.com/{model}"), sort: "integrated", id: "0".into() });
    }
    for card in folders(roots.sys.join("class/drm")) {
        let name = card.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_card = name.strip_prefix("card").is_some_and(|n| n.parse::<u32>().is_ok());
        let Some(vendor) = kernel_file::read_text(card.join("device/vendor")).filter(|_| is_card) else {
            continue;
        };
        let place = std::fs::canonicalize(card.join("device")).unwrap_or_default();
        let id = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if found.iter().any(|gpu| gpu.id.eq_ignore_ascii_case(&id)) {
            continue;
        }
        let device = kernel_file::read_text(card.join("device/device")).unwrap_or_default();
        // A GPU on the processor's own bus shares its memory; a GPU behind a bridge has its own.
        let sort = if id.contains(":00:") { "integrated" } else { "dedicated" };
        let maker = match vendor.as_str() {
            "0x10de" => "nvidia.com",
            "0x8086" => "intel.com",
            "0x1002" => "amd.com",
            other => other,
        };
        found.push(GpuLabels { model: format!("{maker}/{device}"), sort, id });
    }
    found
}

fn dashed_gpu_name(name: &str) -> String {
    name.trim_start_matches("NVIDIA ").split_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use metier_prom::{ExpositionFormat, ScrapeLimits, parse_page};

    use super::*;

    fn put(path: std::path::PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn page(roots: &KernelRoots, location: Option<NodeLocation>) -> metier_prom::ScrapedPage {
        let device = metier_device::identity::identify_device(roots, None).unwrap();
        let sheet = DeviceMetrics::new(roots, device, Some("edge-1".into()), location);
        let mut page = MetricsPage::new(ExpositionFormat::Text);
        sheet.write(&mut page);
        parse_page(page.finish().as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default()).unwrap()
    }

    fn roots(folder: &Path) -> KernelRoots {
        let roots =
            KernelRoots { proc: folder.join("proc"), sys: folder.join("sys"), etc: folder.join("etc") };
        put(roots.proc.join("sys/kernel/hostname"), "box\n");
        put(roots.proc.join("sys/kernel/osrelease"), "6.1.0\n");
        put(roots.proc.join("meminfo"), "MemTotal: 4 kB\n");
        put(roots.etc.join("machine-id"), "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
        roots
    }

    #[test]
    fn a_jetson_has_all_its_series() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        put(roots.proc.join("device-tree/model"), "NVIDIA Jetson Nano Developer Kit\0");
        put(roots.proc.join("device-tree/compatible"), "nvidia,p3450-0000\0nvidia,tegra210\0");
        put(roots.sys.join("class/power_supply/BAT0/type"), "Battery\n");
        put(roots.sys.join("class/power_supply/BAT0/capacity"), "87\n");
        let place = NodeLocation {
            city: "Pisa".into(),
            country: "Italy".into(),
            latitude: "43.7".into(),
            ..Default::default()
        };
        let scrape = page(&roots, Some(place));
        let sample = |name: &str| scrape.family(name).unwrap_or_else(|| panic!("{name}")).samples[0].clone();
        let model = sample("char_node_device_model");
        assert_eq!(
            (model.label("char_node_device_model_name"), model.value),
            (Some("NVIDIA Jetson Nano"), 1.0)
        );
        assert_eq!(
            (model.label("char_node_name"), model.label("char_node_class")),
            (Some("edge-1"), Some("Computer"))
        );
        assert!(model.label("char_node_uuid").unwrap().starts_with("device-"));
        let battery = sample("char_node_battery");
        assert_eq!((battery.label("char_node_plugged_battery"), battery.value), (Some("true"), 87.0));
        assert_eq!(sample("char_node_ram_total_bytes").value, 4096.0);
        assert!(sample("char_node_cpu_total_cores").label("char_node_bits").is_some());
        assert_eq!(sample("char_node_location").label("char_node_city"), Some("Pisa"));
        assert!(sample("char_node_disk_total_size").value > 0.0);
        assert_eq!(sample("char_node_os").label("char_node_os_version"), Some("6.1.0"));
        let gpu = sample("char_node_gpu");
        assert_eq!(
            (gpu.label("char_node_gpu_model"), gpu.label("char_node_gpu_type"), gpu.value),
            (Some("nvidia.com/Tegra-X1-Maxwell"), Some("integrated"), 1.0)
        );
        assert!(scrape.family("char_node_cpu_energy_watt").is_none(), "nothing measures it");
    }

    #[test]
    fn a_device_that_knows_nothing_of_itself_still_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let scrape = page(&roots(folder.path()), None);
        assert_eq!(scrape.family("char_node_device_model").unwrap().samples[0].value, 0.0);
        assert_eq!(
            scrape.family("char_node_battery").unwrap().samples[0].label("char_node_plugged_battery"),
            Some("false")
        );
        assert_eq!(scrape.family("char_node_gpu").unwrap().samples[0].value, 0.0);
        assert!(
            scrape.family("char_node_location").is_none(),
            "no place was configured, and none is looked up"
        );
    }

    #[test]
    fn boards_of_one_model_have_one_name() {
        assert_eq!(board_model_name("Raspberry Pi 4 Model B Rev 1.4"), "Raspberry Pi 4 Model B");
        assert_eq!(board_model_name("NVIDIA Jetson AGX Orin Developer Kit"), "NVIDIA Jetson AGX Orin");
        assert_eq!(board_model_name("Dell Inc. OptiPlex 7050"), "Dell Inc. OptiPlex 7050");
    }

    #[test]
    fn watts_are_measured_between_scrapes() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let rapl = roots.sys.join("class/powercap/intel-rapl:0");
        put(rapl.join("name"), "package-0\n");
        put(rapl.join("max_energy_range_uj"), "262143328850\n");
        put(rapl.join("energy_uj"), "1000000\n");
        let device = metier_device::identity::identify_device(&roots, None).unwrap();
        let mut sheet = DeviceMetrics::new(&roots, device, None, None);
        assert!(sheet.watts.is_none());
        if sheet.meters.is_empty() {
            panic!("the meter was not found");
        }
        sheet.last = sheet.last.map(|(then, joules)| (then - std::time::Duration::from_secs(10), joules));
        put(rapl.join("energy_uj"), "51000000\n");
        sheet.read();
        let watts = sheet.watts.unwrap().get();
        assert!((watts - 5.0).abs() < 0.5, "{watts}");
    }
}
