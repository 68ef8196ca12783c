//! Boards as file trees, laid out as on real ones.

use std::fs;
use std::path::Path;

use metier_types::{Bytes, Celsius, Hertz, Ratio};

use super::*;
use crate::boards::{BoardCore, BoardTemperature, FreeBlocks};

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, KernelRoots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = KernelRoots {
        proc: folder.path().join("proc"),
        sys: folder.path().join("sys"),
        etc: folder.path().join("etc"),
    };
    for (path, text) in files {
        write(folder.path(), path, text);
    }
    (folder, roots)
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// An Orin NX with JetPack 6: hwmon, devfreq, two of four cores on.
fn orin() -> (tempfile::TempDir, KernelRoots) {
    let (folder, roots) = tree(&[
        ("proc/device-tree/compatible", "nvidia,p3768-0000+p3767-0000\0nvidia,tegra234\0"),
        ("proc/device-tree/model", "NVIDIA Jetson Orin NX Engineering Reference Developer Kit\0"),
        (
            "proc/stat",
            "cpu  10 0 0 90 0 0 0 0 0 0\ncpu0 5 0 5 90 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5\n",
        ),
        (
            "proc/meminfo",
            "MemTotal: 1000 kB\nMemFree: 300 kB\nBuffers: 50 kB\nCached: 150 kB\nSwapCached: 2 kB\nSwapTotal: 40 kB\nSwapFree: 30 kB\n",
        ),
        (
            "proc/buddyinfo",
            "Node 0, zone      DMA      1      2      0\nNode 0, zone   Normal      4      5      0\n",
        ),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "729600\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1190400\n"),
        ("sys/devices/system/cpu/cpu1/online", "1\n"),
        ("sys/devices/system/cpu/cpu2/online", "0\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "729600\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("sys/class/thermal/thermal_zone0/temp", "47937\n"),
        ("sys/class/thermal/thermal_zone1/type", "cv0-thermal\n"),
        ("sys/class/thermal/thermal_zone1/temp", "-256000\n"),
        ("sys/class/hwmon/hwmon2/name", "ina3221\n"),
        ("sys/class/hwmon/hwmon2/in1_label", "VDD_IN\n"),
        ("sys/class/hwmon/hwmon2/in1_input", "5000\n"),
        ("sys/class/hwmon/hwmon2/curr1_input", "1060\n"),
        ("sys/class/hwmon/hwmon2/in2_label", "VDD_CPU_GPU_CV\n"),
        ("sys/class/hwmon/hwmon2/in2_input", "4984\n"),
        ("sys/class/hwmon/hwmon2/curr2_input", "-8\n"),
        ("sys/kernel/debug/bpmp/debug/clk/emc/rate", "2133000000\n"),
        ("sys/class/devfreq/17000000.gpu/cur_freq", "612000000\n"),
        ("sys/class/devfreq/17000000.gpu/device/load", "345\n"),
        ("sys/class/devfreq/15340000.vic/cur_freq", "115200000\n"),
    ]);
    (folder, roots)
}

#[test]
fn an_orin_shows_what_its_tegrastats_would_print() {
    let (folder, roots) = orin();
    let mut board = LocalBoard::open(&roots);
    assert_eq!(board.kind, BoardKind::Jetson);
    assert_eq!(board.model.as_deref(), Some("NVIDIA Jetson Orin NX Engineering Reference Developer Kit"));
    let first = board.read_snapshot();
    assert!(first.cores.iter().all(|core| core.load_ratio.is_none()), "nothing to compare with yet");
    write(
        folder.path(),
        "proc/stat",
        "cpu  60 0 0 130 0 0 0 0 0 0\ncpu0 30 0 10 160 0 0 0 0 0 0\ncpu1 0 0 0 200 0 0 0 0 0 0\n",
    );
    let now = board.read_snapshot();
    let on = |load: f64, mhz: f64| BoardCore {
        off: false,
        load_ratio: Some(Ratio(load)),
        frequency_hertz: Some(Hertz(mhz * 1e6)),
    };
    assert_eq!(now.cores, [on(0.3, 729.6), on(0.0, 1190.4), BoardCore { off: true, ..BoardCore::default() }]);
    let ram = now.ram.unwrap();
    assert_eq!((ram.used_bytes, ram.total_bytes), (Bytes(500 * 1024), Bytes(1000 * 1024)));
    let FreeBlocks { count, size_bytes } = ram.largest_free.unwrap();
    assert_eq!((count, size_bytes.get() % 8192), (Some(7), 0), "pairs of pages are the largest");
    assert_eq!(now.swap.unwrap().used_bytes, Bytes(10 * 1024));
    assert_eq!(now.gpus[0].load_ratio, Some(Ratio(0.345)));
    assert_eq!(now.gpus[0].highest_frequency(), Some(Hertz(612e6)));
    assert_eq!(now.gpus.len(), 1, "the image compositor is no GPU");
    assert_eq!(now.emc.as_ref().and_then(BoardEngine::highest_frequency), Some(Hertz(2133e6)));
    assert_eq!(now.temperature("CPU"), Some(Celsius(47.937)));
    let off =
        BoardTemperature { name: "cv0".into(), celsius: None, largest_celsius: None, placeholder: false };
    assert_eq!(now.temperatures[1], off);
    assert_eq!(now.rail("VDD_IN").unwrap().milliwatts(), 5300);
    assert_eq!(now.rail("VDD_CPU_GPU_CV").unwrap().milliwatts(), -40, "noise around nothing has a sign");
    assert_eq!(board.device_watts(), Some(Watts(5.3)));
    assert_eq!(now.power(), Some(Watts(5.3)));
}

#[test]
fn the_gpu_is_found_on_every_generation() {
    for (files, load, clock) in [
        (
            vec![("sys/devices/gpu.0/load", "999"), ("sys/class/devfreq/57000000.gpu/cur_freq", "921600000")],
            Some(0.999),
            Some(921.6e6),
        ),
        (
            vec![
                ("sys/class/devfreq/17000000.gp10b/device/load", "170"),
                ("sys/class/devfreq/17000000.gp10b/cur_freq", "1134750000"),
            ],
            Some(0.17),
            Some(1134.75e6),
        ),
        (
            vec![
                ("sys/class/devfreq/17000000.gv11b/device/load", "0"),
                ("sys/class/devfreq/17000000.gv11b/cur_freq", "114750000"),
            ],
            Some(0.0),
            Some(114.75e6),
        ),
        (vec![("sys/class/devfreq/17000000.ga10b/cur_freq", "306000000")], None, Some(306e6)),
        (vec![("sys/devices/platform/gpu.0/load", "12")], Some(0.012), None),
    ] {
        let (_folder, roots) = tree(&files);
        let mut found = IntegratedGpu::find(&roots);
        assert_eq!(found.len(), 1, "{files:?}");
        let gpu = found[0].read();
        assert_eq!(
            (gpu.load_ratio, gpu.highest_frequency()),
            (load.map(Ratio), clock.map(Hertz)),
            "{files:?}"
        );
    }
}

#[test]
fn a_nano_with_jetpack_4_has_its_rails_as_industrial_io() {
    let chip = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0";
    let files = [
        (
            "proc/device-tree/compatible".to_string(),
            "nvidia,p3450-0000\0nvidia,jetson-nano\0nvidia,tegra210\0",
        ),
        (format!("{chip}/rail_name_0"), "POM_5V_IN\n"),
        (format!("{chip}/in_power0_input"), "2431\n"),
        (format!("{chip}/rail_name_1"), "POM_5V_GPU\n"),
        (format!("{chip}/in_power1_input"), "38\n"),
        (format!("{chip}/rail_name_2"), "NC\n"),
        (format!("{chip}/in_power2_input"), "0\n"),
        ("sys/class/thermal/thermal_zone0/type".to_string(), "PMIC-Die\n"),
        ("sys/class/thermal/thermal_zone0/temp".to_string(), "50000\n"),
        ("sys/class/thermal/thermal_zone1/type".to_string(), "AO-therm\n"),
        ("sys/class/thermal/thermal_zone1/temp".to_string(), "29500\n"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let (_folder, roots) = tree(&files);
    let mut board = LocalBoard::open(&roots);
    let now = board.read_snapshot();
    assert_eq!((board.kind, now.rails.len()), (BoardKind::Jetson, 2));
    assert_eq!(board.device_watts(), Some(Watts(2.431)));
    assert!(now.temperatures[0].placeholder);
    assert_eq!((now.temperature("PMIC"), now.temperature("AO")), (None, Some(Celsius(29.5))));
}

#[test]
fn a_raspberry_pi_says_why_it_is_held_back() {
    let flags = "devices/platform/soc/soc:firmware/get_throttled";
    let (_folder, roots) = tree(&[
        ("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0"),
        ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
        ("sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n"),
        ("sys/class/hwmon/hwmon1/name", "rpi_volt\n"),
        ("sys/class/hwmon/hwmon1/in0_lcrit_alarm", "1\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("sys/class/thermal/thermal_zone0/temp", "61342\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n"),
    ]);
    let mut board = LocalBoard::open(&roots);
    let now = board.read_snapshot();
    assert_eq!(board.kind, BoardKind::RaspberryPi);
    let held = now.throttling.unwrap();
    assert!(held.under_voltage && held.throttled && held.since_boot && held.is_active());
    assert!(!held.frequency_capped && !held.soft_temperature_limit);
    assert_eq!(now.temperature("cpu"), Some(Celsius(61.342)));
    assert_eq!((board.device_watts(), now.rails.len()), (None, 0), "a Pi 4 measures no power");
    write(&roots.sys, flags, "0x50000\n");
    let later = board.read_snapshot().throttling.unwrap();
    assert!(!later.is_active() && later.since_boot);
    write(&roots.sys, flags, "none\n");
    assert_eq!(board.read_snapshot().throttling, None);
}

#[test]
fn a_server_shows_its_counters_as_power() {
    let energy = "class/powercap/intel-rapl:0/energy_uj";
    let (_folder, roots) = tree(&[
        ("sys/class/dmi/id/product_name", "PowerEdge R640\n"),
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "1000000\n"),
        ("sys/class/powercap/intel-rapl:0:0/name", "core\n"),
        ("sys/class/powercap/intel-rapl:0:0/energy_uj", "1000000\n"),
    ]);
    let mut board = LocalBoard::open(&roots);
    assert_eq!((board.kind, board.model.as_deref()), (BoardKind::Other, Some("PowerEdge R640")));
    assert!(board.read_snapshot().rails.is_empty(), "a counter needs two looks");
    write(&roots.sys, energy, "1500000\n");
    let now = board.read_snapshot();
    let package = now.rail("package-0").unwrap().now.get();
    assert!(package > 0.0);
    assert_eq!(board.device_watts(), Some(Watts(package)), "cores are inside of the package");
}

#[test]
fn a_host_that_shows_nothing_gives_an_empty_snapshot() {
    let (_folder, roots) = tree(&[]);
    let mut board = LocalBoard::open(&roots);
    assert!(board.read_snapshot().is_empty());
    assert_eq!((board.kind, board.device_watts(), board.model), (BoardKind::Other, None, None));
}
