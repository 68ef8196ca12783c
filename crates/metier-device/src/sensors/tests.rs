//! Sensors on synthetic file trees, so that the tests need no real sensor.

use std::fs;
use std::path::Path;

use super::*;

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, KernelRoots) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let roots = KernelRoots {
        proc: folder.path().join("proc"),
        sys: folder.path().join("sys"),
        etc: folder.path().into(),
    };
    (folder, roots)
}

fn write(roots: &KernelRoots, path: &str, text: &str) {
    fs::write(Path::new(&roots.sys).join(path), text).unwrap();
}

#[test]
fn a_package_and_its_memory_count_but_cores_do_not_count_twice() {
    let (_folder, roots) = tree(&[
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj", "1000000"),
        ("class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850"),
        ("class/powercap/intel-rapl:0:0/name", "core"),
        ("class/powercap/intel-rapl:0:0/energy_uj", "500000"),
        ("class/powercap/intel-rapl:0:1/name", "dram"),
        ("class/powercap/intel-rapl:0:1/energy_uj", "0"),
        ("class/powercap/intel-rapl-mmio:0/name", "package-0"),
        ("class/powercap/intel-rapl-mmio:0/energy_uj", "1000000"),
    ]);
    let mut meters = EnergyMeters::open(&roots);
    meters.reset();
    write(&roots, "class/powercap/intel-rapl:0/energy_uj", "3500000");
    write(&roots, "class/powercap/intel-rapl:0:0/energy_uj", "1500000");
    write(&roots, "class/powercap/intel-rapl:0:1/energy_uj", "250000");
    meters.sample();
    let (result, counters_only) = meters.usage();
    let counted: f64 = result.iter().filter(|m| m.counted).map(|m| m.energy_joules.get()).sum();
    assert_eq!(result.len(), 3);
    assert!((counted - 2.75).abs() < 1e-9, "{result:?}");
    assert!(counters_only);
}

#[test]
fn a_counter_that_wraps_goes_on() {
    let near_end = MeterReading::Counter { microjoules: 900, largest: 1000 };
    let after = MeterReading::Counter { microjoules: 50, largest: 1000 };
    assert!((energy_between(near_end, after, 1.0) - 150e-6).abs() < 1e-12);
}

#[test]
fn power_is_integrated_over_time() {
    assert_eq!(energy_between(MeterReading::Power(2.0), MeterReading::Power(4.0), 2.0), 6.0);
}

#[test]
fn a_jetson_with_a_rail_for_all_counts_only_that_one() {
    let (_folder, roots) = tree(&[
        ("class/hwmon/hwmon3/name", "ina3221"),
        ("class/hwmon/hwmon3/in1_label", "VDD_IN"),
        ("class/hwmon/hwmon3/in1_input", "5000"),
        ("class/hwmon/hwmon3/curr1_input", "1200"),
        ("class/hwmon/hwmon3/in2_label", "VDD_CPU_GPU_CV"),
        ("class/hwmon/hwmon3/in2_input", "5000"),
        ("class/hwmon/hwmon3/curr2_input", "400"),
        ("class/hwmon/hwmon3/in3_label", "NC"),
        ("class/hwmon/hwmon3/in3_input", "0"),
        ("class/hwmon/hwmon3/curr3_input", "0"),
    ]);
    let mut found = SensorInventory::default();
    ina3221::open(&roots, &mut found);
    let counted: Vec<_> = found.accounts.iter().filter(|a| a.counted).map(|a| a.name.as_str()).collect();
    assert_eq!(counted, ["VDD_IN"]);
    assert_eq!(found.accounts.len(), 2);
    assert_eq!(found.accounts[0].sensor.read(), Some(MeterReading::Power(6.0)));
}

#[test]
fn an_old_jetson_shows_its_rails_as_industrial_io() {
    let (_folder, roots) = tree(&[
        ("bus/i2c/drivers/ina3221x/6-0040/iio:device0/rail_name_0", "POM_5V_IN"),
        ("bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_power0_input", "2500"),
        ("bus/i2c/drivers/ina3221x/6-0040/iio:device0/rail_name_1", "POM_5V_GPU"),
        ("bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_power1_input", "100"),
    ]);
    let mut meters = EnergyMeters::open(&roots);
    assert_eq!(meters.names(), ["ina3221:POM_5V_IN", "ina3221:POM_5V_GPU"]);
    assert_eq!(meters.found.accounts[0].sensor.read(), Some(MeterReading::Power(2.5)));
    meters.reset();
    assert!(!meters.usage().1, "integrated power is not a counter");
}

#[test]
fn batteries_are_left_out_and_boards_are_not() {
    let (_folder, roots) = tree(&[
        ("class/hwmon/hwmon0/name", "BAT0"),
        ("class/hwmon/hwmon0/power1_input", "9000000"),
        ("class/hwmon/hwmon1/name", "amdgpu"),
        ("class/hwmon/hwmon1/power1_average", "9000000"),
    ]);
    assert_eq!(EnergyMeters::open(&roots).names(), ["hwmon:amdgpu-power1"]);
}

#[test]
fn a_host_without_sensors_says_so() {
    let (_folder, roots) = tree(&[]);
    let meters = EnergyMeters::open(&roots);
    assert!(meters.is_empty() && meters.missing().is_some());
    assert!(meters.usage().0.is_empty());
}

#[test]
fn an_agx_counts_the_rails_that_make_up_the_board_and_not_those_behind_them() {
    let chip = |number: u32, channels: [(&str, &str); 3]| {
        let folder = format!("class/hwmon/hwmon{number}");
        let mut files = vec![(format!("{folder}/name"), "ina3221".to_string())];
        for (channel, (name, milliamperes)) in channels.iter().enumerate() {
            let channel = channel + 1;
            files.push((format!("{folder}/in{channel}_label"), (*name).to_string()));
            files.push((format!("{folder}/in{channel}_input"), "5000".to_string()));
            files.push((format!("{folder}/curr{channel}_input"), (*milliamperes).to_string()));
        }
        files
    };
    let mut files = chip(3, [("VDD_GPU_SOC", "600"), ("VDD_CPU_CV", "200"), ("VIN_SYS_5V0", "700")]);
    files.extend(chip(4, [("NC", "0"), ("VDDQ_VDD2_1V8AO", "-3"), ("NC", "0")]));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (_folder, roots) = tree(&files);
    let mut meters = EnergyMeters::open(&roots);
    meters.reset();
    assert_eq!(meters.names().len(), 4, "channels without a rail are left out");
    assert_eq!(meters.device_watts(), Some(7.5), "the memory's rail is behind another");
    assert!(meters.has_power_sensor());
}

#[test]
fn integrated_energy_states_its_error_and_a_counter_has_none() {
    let (_folder, roots) = tree(&[
        ("class/hwmon/hwmon1/name", "ina3221"),
        ("class/hwmon/hwmon1/in1_label", "VDD_IN"),
        ("class/hwmon/hwmon1/in1_input", "5000"),
        ("class/hwmon/hwmon1/curr1_input", "1000"),
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj", "1"),
    ]);
    let mut meters = EnergyMeters::open(&roots);
    meters.reset();
    for milliamperes in ["3000", "1000", "3000", "1000"] {
        write(&roots, "class/hwmon/hwmon1/curr1_input", milliamperes);
        meters.sample();
    }
    let (result, _) = meters.usage();
    let of = |name: &str| result.iter().find(|meter| meter.name == name).unwrap();
    let rail = of("VDD_IN");
    let error = rail.error_joules.unwrap().get();
    assert!(error > 0.0 && error <= rail.energy_joules.get(), "{rail:?}");
    assert!(rail.error_bound_joules.unwrap().get() > 0.0);
    assert!(rail.interval_seconds.is_some());
    assert_eq!((of("package-0").error_joules, of("package-0").interval_seconds), (None, None));
}

#[test]
fn the_oldest_layout_of_industrial_io_is_known_too() {
    let chip = "bus/i2c/drivers/ina3221x/0-0041/iio_device";
    let files = [
        (format!("{chip}/rail_name_0"), "VDD_IN".to_string()),
        (format!("{chip}/in_power0_input"), "3624".to_string()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (_folder, roots) = tree(&files);
    let mut meters = EnergyMeters::open(&roots);
    meters.reset();
    assert_eq!(meters.device_watts(), Some(3.624));
}

#[test]
fn the_whole_machine_stands_for_the_node_else_the_processor_and_never_a_part() {
    let package = [
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj", "1000000"),
        ("class/powercap/intel-rapl:0:1/name", "dram"),
        ("class/powercap/intel-rapl:0:1/energy_uj", "500000"),
        ("class/hwmon/hwmon2/name", "amdgpu"),
        ("class/hwmon/hwmon2/power1_average", "9000000"),
    ];
    let (_folder, roots) = tree(&package);
    let mut meters = EnergyMeters::open_files(&roots);
    let names = ["rapl:package-0", "rapl:dram-0:1"].map(String::from).to_vec();
    assert_eq!(meters.node_meters(), Some((MeterScope::PackageAndMemory, names)));
    meters.reset();
    write(&roots, "class/powercap/intel-rapl:0/energy_uj", "4000000");
    write(&roots, "class/powercap/intel-rapl:0:1/energy_uj", "1500000");
    meters.sample();
    let node = meters.node_energy().unwrap();
    assert_eq!((node.covers, node.energy), (MeterScope::PackageAndMemory, Joules(4.0)));
    assert_eq!(meters.missing_node(), None);

    let (_folder, roots) = tree(&[
        package[0],
        package[1],
        ("class/hwmon/hwmon1/name", "power_meter"),
        ("class/hwmon/hwmon1/power1_average", "42000000"),
    ]);
    let meters = EnergyMeters::open_files(&roots);
    assert_eq!(
        meters.node_meters(),
        Some((MeterScope::Platform, vec!["hwmon:power_meter-power1".to_string()])),
        "the processor is inside of it"
    );
    let counted = |meters: &EnergyMeters| {
        let counted = meters.found.accounts.iter().filter(|account| account.counted);
        counted.map(|account| account.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!((counted(&meters), meters.includes_whole_machine()), (vec!["package-0".to_string()], false));

    // Without counters only the machine's meter counts, not the parts it includes.
    let (_folder, roots) = tree(&[
        ("class/hwmon/hwmon1/name", "amdgpu"),
        ("class/hwmon/hwmon1/power1_average", "9000000"),
        ("class/hwmon/hwmon2/name", "power_meter"),
        ("class/hwmon/hwmon2/power1_average", "42000000"),
    ]);
    let meters = EnergyMeters::open_files(&roots);
    assert_eq!(
        (counted(&meters), meters.includes_whole_machine()),
        (vec!["power_meter-power1".to_string()], true)
    );
    assert_eq!(meters.node_meters().unwrap().0, MeterScope::Platform);

    let (_folder, roots) = tree(&package[4..]);
    let meters = EnergyMeters::open_files(&roots);
    assert_eq!(meters.node_meters(), None);
    assert!(meters.missing_node().unwrap().reason.contains("hwmon:amdgpu-power1"));
}

#[test]
fn a_meter_that_was_not_read_gives_no_power_and_catches_up_later() {
    let path = "class/powercap/intel-rapl:0/energy_uj";
    let (_folder, roots) = tree(&[("class/powercap/intel-rapl:0/name", "package-0"), (path, "1000000")]);
    let mut meters = EnergyMeters::open_files(&roots);
    meters.reset();
    assert_eq!(meters.node_energy().unwrap().energy, Joules(0.0));
    write(&roots, path, "not a number");
    meters.sample();
    assert_eq!(meters.node_energy(), None, "nothing read is not nothing used");
    write(&roots, path, "7000000");
    meters.sample();
    assert_eq!(meters.node_energy().unwrap().energy, Joules(6.0));
}
