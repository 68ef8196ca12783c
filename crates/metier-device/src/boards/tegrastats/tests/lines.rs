//! Every value of the recorded lines, read by eye.

use metier_types::{Bytes, Celsius, Hertz, Watts};

use super::super::super::{Blocks, Core, Temperature};
use super::*;

/// A core that is switched off, and an absent load, in the tables below.
const OFF: (i32, u32) = (-1, 0);
const NO_LOAD: i32 = -2;

/// Name of an engine, and its load and clocks unless it is off.
type State = (&'static str, Option<(i32, Vec<u32>)>);

/// What a line should say, as it is written down below.
#[derive(Default)]
struct Want {
    stamp: Option<&'static str>,
    /// Used, total, blocks, size of a block.
    ram: (u64, u64, u64, u64),
    swap: Option<(u64, u64, u64)>,
    iram: Option<(u64, u64, u64)>,
    cores: Vec<(i32, u32)>,
    emc: Option<(&'static str, i32, Vec<u32>)>,
    gpu: Option<(&'static str, i32, Vec<u32>)>,
    /// Engines; `None` is off.
    engines: Vec<State>,
    mts: Option<(u32, u32)>,
    temperatures: Vec<(&'static str, f64)>,
    /// Name, now, mean in milliwatts.
    rails: Vec<(&'static str, u32, u32)>,
    power: Option<u32>,
}

fn share(percent: i32) -> Option<Ratio> {
    (percent != NO_LOAD).then(|| Ratio(f64::from(percent) / 100.0))
}

fn engine((name, load, clocks): &(&str, i32, Vec<u32>)) -> Engine {
    let clocks = clocks.iter().map(|clock| Hertz(f64::from(*clock) * 1e6)).collect();
    Engine { name: (*name).to_string(), off: false, load_ratio: share(*load), frequencies_hertz: clocks }
}

fn check(id: &str, want: Want) {
    let Some(text) = recorded::line(id) else { return };
    let line = Line::parse(&text);
    let board = &line.board;
    assert_eq!(line.unknown, Vec::<String>::new(), "{id}");
    assert_eq!(line.stamp.map(|stamp| stamp.to_string()).as_deref(), want.stamp, "{id}");
    let (used, total, count, size) = want.ram;
    let blocks = Blocks { count: Some(count), size_bytes: Bytes(size * MB) };
    let memory = |used, total, largest_free, cached_bytes| Memory {
        used_bytes: Bytes(used),
        total_bytes: Bytes(total),
        largest_free,
        cached_bytes,
    };
    assert_eq!(board.ram, Some(memory(used * MB, total * MB, Some(blocks), None)), "{id}");
    let swap =
        want.swap.map(|(used, total, cached)| memory(used * MB, total * MB, None, Some(Bytes(cached * MB))));
    assert_eq!(board.swap, swap, "{id}");
    let iram = want.iram.map(|(used, total, block)| {
        memory(used * KB, total * KB, Some(Blocks { count: None, size_bytes: Bytes(block * KB) }), None)
    });
    assert_eq!(board.iram, iram, "{id}");
    let cores: Vec<Core> = want
        .cores
        .iter()
        .map(|core| match *core {
            OFF => Core { off: true, ..Core::default() },
            (load, clock) => Core {
                off: false,
                load_ratio: share(load),
                frequency_hertz: Some(Hertz(f64::from(clock) * 1e6)),
            },
        })
        .collect();
    assert_eq!(board.cores, cores, "{id}");
    assert_eq!(board.emc, want.emc.as_ref().map(engine), "{id}");
    assert_eq!(board.gpus, want.gpu.as_ref().map(engine).into_iter().collect::<Vec<_>>(), "{id}");
    let engines: Vec<Engine> = want
        .engines
        .iter()
        .map(|(name, state)| match state {
            Some((load, clocks)) => engine(&(name, *load, clocks.clone())),
            None => Engine { name: (*name).to_string(), off: true, ..Engine::default() },
        })
        .collect();
    assert_eq!(board.engines, engines, "{id}");
    let mts = want.mts.map(|(foreground, background)| Morphing {
        foreground: Ratio(f64::from(foreground) / 100.0),
        background: Some(Ratio(f64::from(background) / 100.0)),
    });
    assert_eq!(board.mts, mts, "{id}");
    let is_r39 = id == "s10";
    let temperatures: Vec<Temperature> = want
        .temperatures
        .iter()
        .map(|(name, celsius)| Temperature {
            name: (*name).to_string(),
            celsius: Some(Celsius(*celsius)),
            largest_celsius: is_r39.then_some(Celsius(*celsius)),
            placeholder: *name == "PMIC",
        })
        .collect();
    assert_eq!(board.temperatures, temperatures, "{id}");
    let watts = |milli: u32| Watts(f64::from(milli) / 1e3);
    let rails: Vec<Rail> = want
        .rails
        .iter()
        .map(|(name, now, mean)| Rail {
            name: (*name).to_string(),
            now: watts(*now),
            mean: Some(watts(*mean)),
            peak: is_r39.then_some(watts(*now)),
        })
        .collect();
    assert_eq!(board.rails, rails, "{id}");
    assert_eq!(board.power(), want.power.map(watts), "{id}");
}

fn same(clock: u32, loads: &[i32]) -> Vec<(i32, u32)> {
    loads.iter().map(|load| (*load, clock)).collect()
}

fn clock(name: &'static str, clock: u32) -> State {
    (name, Some((NO_LOAD, vec![clock])))
}

fn off(name: &'static str) -> State {
    (name, None)
}

#[test]
fn xavier_nx_jetpack_4_s01() {
    check(
        "s01",
        Want {
            ram: (5246, 7771, 7, 4),
            swap: Some((983, 20269, 280)),
            cores: same(1420, &[47, 23, 32, 22, 31, 96]),
            emc: Some(("EMC_FREQ", 2, vec![1600])),
            gpu: Some(("GR3D_FREQ", 0, vec![1109])),
            engines: vec![clock("APE", 150)],
            mts: Some((1, 9)),
            temperatures: vec![
                ("AO", 29.0),
                ("GPU", 31.5),
                ("PMIC", 100.0),
                ("AUX", 30.0),
                ("CPU", 33.5),
                ("thermal", 31.35),
            ],
            rails: vec![("VDD_IN", 6140, 5510), ("VDD_CPU_GPU_CV", 2706, 2119), ("VDD_SOC", 1074, 1051)],
            power: Some(6140),
            ..Want::default()
        },
    );
}

#[test]
fn xavier_nx_jetpack_5_s02() {
    check(
        "s02",
        Want {
            stamp: Some("2024-07-09T13:31:31"),
            ram: (3168, 6851, 2, 4),
            swap: Some((161, 3426, 0)),
            cores: vec![(23, 1397), (17, 1192), (16, 1190), (13, 1190), (23, 1190), (10, 1190)],
            emc: Some(("EMC_FREQ", 2, vec![204])),
            gpu: Some(("GR3D_FREQ", 0, vec![114])),
            engines: vec![clock("VIC_FREQ", 115), clock("APE", 150)],
            temperatures: vec![
                ("AUX", 45.0),
                ("CPU", 46.5),
                ("thermal", 45.6),
                ("AO", 45.0),
                ("GPU", 45.5),
                ("PMIC", 50.0),
            ],
            rails: vec![("VDD_IN", 2763, 2846), ("VDD_CPU_GPU_CV", 650, 670), ("VDD_SOC", 650, 711)],
            power: Some(2763),
            ..Want::default()
        },
    );
}

#[test]
fn nano_jetpack_4_s03() {
    check(
        "s03",
        Want {
            ram: (1923, 3964, 2, 2),
            swap: Some((191, 1982, 6)),
            iram: Some((0, 252, 252)),
            cores: same(1224, &[5, 4, 3, 6]),
            emc: Some(("EMC_FREQ", 0, vec![1600])),
            gpu: Some(("GR3D_FREQ", 0, vec![76])),
            engines: vec![clock("APE", 25)],
            temperatures: vec![
                ("PLL", 37.0),
                ("CPU", 40.0),
                ("PMIC", 50.0),
                ("GPU", 40.0),
                ("AO", 45.0),
                ("thermal", 40.0),
            ],
            rails: vec![("POM_5V_IN", 1750, 1628), ("POM_5V_GPU", 0, 0), ("POM_5V_CPU", 366, 406)],
            power: Some(1750),
            ..Want::default()
        },
    );
}

#[test]
fn tx1_s04() {
    check(
        "s04",
        Want {
            ram: (1179, 3983, 120, 4),
            iram: Some((0, 252, 252)),
            cores: same(102, &[1, 4, 0, 0]),
            emc: Some(("EMC_FREQ", 7, vec![408])),
            gpu: Some(("GR3D_FREQ", 0, vec![76])),
            engines: vec![clock("APE", 25)],
            temperatures: vec![
                ("AO", 42.5),
                ("CPU", 37.5),
                ("GPU", 39.0),
                ("PLL", 37.0),
                ("Tdiode", 42.75),
                ("PMIC", 100.0),
                ("Tboard", 42.0),
                ("thermal", 38.5),
            ],
            rails: vec![("VDD_IN", 2532, 2698), ("VDD_CPU", 76, 178), ("VDD_GPU", 19, 19)],
            power: Some(2532),
            ..Want::default()
        },
    );
}

#[test]
fn tx2_s05() {
    check(
        "s05",
        Want {
            ram: (2344, 7852, 1154, 4),
            swap: Some((0, 3926, 0)),
            cores: vec![(1, 345), OFF, OFF, (1, 345), (0, 345), (2, 345)],
            emc: Some(("EMC_FREQ", 4, vec![1600])),
            gpu: Some(("GR3D_FREQ", 0, vec![624])),
            engines: vec![clock("APE", 150)],
            temperatures: vec![
                ("PLL", 37.5),
                ("MCPU", 37.5),
                ("PMIC", 100.0),
                ("Tboard", 32.0),
                ("GPU", 35.0),
                ("BCPU", 37.5),
                ("thermal", 36.5),
                ("Tdiode", 34.25),
            ],
            rails: vec![
                ("VDD_SYS_GPU", 152, 152),
                ("VDD_SYS_SOC", 687, 687),
                ("VDD_4V0_WIFI", 0, 0),
                ("VDD_IN", 3056, 3056),
                ("VDD_SYS_CPU", 152, 152),
                ("VDD_SYS_DDR", 883, 883),
            ],
            power: Some(3056),
            ..Want::default()
        },
    );
}

#[test]
fn agx_xavier_s06_whose_rails_are_called_as_its_cores() {
    check(
        "s06",
        Want {
            ram: (721, 31927, 7291, 4),
            swap: Some((0, 15963, 0)),
            cores: vec![(2, 1190), (0, 1190), (0, 1190), (0, 1190), OFF, OFF, OFF, OFF],
            emc: Some(("EMC_FREQ", 0, vec![665])),
            gpu: Some(("GR3D_FREQ", 0, vec![318])),
            engines: vec![clock("APE", 150)],
            mts: Some((0, 0)),
            temperatures: vec![
                ("AO", 37.5),
                ("GPU", 37.5),
                ("Tdiode", 40.0),
                ("PMIC", 100.0),
                ("AUX", 36.0),
                ("CPU", 37.5),
                ("thermal", 36.9),
                ("Tboard", 37.0),
            ],
            rails: vec![
                ("GPU", 0, 0),
                ("CPU", 311, 311),
                ("SOC", 932, 932),
                ("CV", 0, 0),
                ("VDDRQ", 621, 621),
                ("SYS5V", 1482, 1482),
            ],
            power: Some(3346),
            ..Want::default()
        },
    );
}

#[test]
fn orin_nx_s07() {
    check(
        "s07",
        Want {
            ram: (6334, 15388, 1770, 4),
            swap: Some((491, 7694, 0)),
            cores: vec![(6, 729), (9, 729), (5, 729), (16, 729), OFF, OFF, OFF, OFF],
            emc: Some(("EMC_FREQ", 0, vec![2133])),
            gpu: Some(("GR3D_FREQ", 0, vec![611])),
            engines: vec![clock("VIC_FREQ", 729), clock("APE", 174)],
            temperatures: vec![
                ("CV0", 45.812),
                ("CPU", 47.937),
                ("SOC2", 46.093),
                ("SOC0", 46.968),
                ("CV1", 46.406),
                ("GPU", 45.875),
                ("tj", 48.875),
                ("SOC1", 48.875),
                ("CV2", 45.75),
            ],
            rails: vec![("VDD_IN", 5299, 5299), ("VDD_CPU_GPU_CV", 773, 773), ("VDD_SOC", 1424, 1424)],
            power: Some(5299),
            ..Want::default()
        },
    );
}

#[test]
fn agx_orin_32_s08_with_irregular_blanks() {
    let mut cores = same(729, &[3, 4, 0, 1]);
    cores.extend(same(2201, &[0, 100, 1, 0, 100, 0, 0, 0]));
    check(
        "s08",
        Want {
            ram: (29114, 30697, 3, 4),
            swap: Some((4915, 15348, 1)),
            cores,
            emc: Some(("EMC_FREQ", 1, vec![2133])),
            gpu: Some(("GR3D_FREQ", 0, vec![305, 305])),
            engines: vec![
                off("NVENC"),
                off("NVDEC"),
                off("NVJPG"),
                off("NVJPG1"),
                off("VIC"),
                off("OFA"),
                off("NVDLA0"),
                off("NVDLA1"),
                off("PVA0_FREQ"),
                clock("APE", 174),
            ],
            temperatures: vec![
                ("cpu", 53.062),
                ("soc2", 48.25),
                ("soc0", 48.843),
                ("gpu", 47.812),
                ("tj", 53.062),
                ("soc1", 48.968),
            ],
            rails: vec![("VDD_GPU_SOC", 3205, 3205), ("VDD_CPU_CV", 4405, 4405), ("VIN_SYS_5V0", 4767, 4767)],
            power: Some(12377),
            ..Want::default()
        },
    );
}

#[test]
fn agx_orin_64_without_root_s09() {
    check(
        "s09",
        Want {
            ram: (2448, 62840, 2, 4),
            swap: Some((0, 31420, 0)),
            cores: same(2201, &[0; 12]),
            gpu: Some(("GR3D_FREQ", 0, vec![])),
            temperatures: vec![
                ("cpu", 42.0),
                ("soc2", 37.843),
                ("soc0", 39.187),
                ("gpu", 37.75),
                ("tj", 42.0),
                ("soc1", 37.937),
            ],
            rails: vec![("VDD_GPU_SOC", 4940, 4940), ("VDD_CPU_CV", 988, 988), ("VIN_SYS_5V0", 4442, 4442)],
            power: Some(10370),
            ..Want::default()
        },
    );
}

#[test]
fn agx_orin_r39_s10_with_maxima() {
    check(
        "s10",
        Want {
            stamp: Some("2026-07-25T09:08:28"),
            ram: (20642, 62817, 1, 2),
            cores: same(2201, &[23, 10, 4, 14, 30, 18, 10, 10, 33, 7, 5, 27]),
            emc: Some(("EMC_FREQ", 3, vec![3199])),
            gpu: Some(("GR3D_FREQ", 12, vec![1300, 1300])),
            engines: vec![
                off("NVENC0"),
                off("NVDEC0"),
                off("NVJPG0"),
                off("NVJPG1"),
                off("VIC"),
                off("OFA"),
                off("NVDLA0"),
                off("NVDLA1"),
                off("PVA0_FREQ"),
                clock("APE", 174),
            ],
            temperatures: vec![("cpu", 52.968), ("soc2", 48.406), ("soc0", 49.531), ("gpu", 47.625)],
            rails: vec![("VDD_GPU_SOC", 5139, 5139), ("VDD_CPU_CV", 3268, 3268), ("VIN_SYS_5V0", 5500, 5500)],
            power: Some(13907),
            ..Want::default()
        },
    );
}

#[test]
fn nano_without_root_s11() {
    check(
        "s11",
        Want {
            ram: (1758, 3956, 12, 4),
            swap: Some((440, 1978, 9)),
            cores: vec![(28, 921), (19, 921), OFF, OFF],
            emc: Some(("EMC_FREQ", 0, vec![])),
            gpu: Some(("GR3D_FREQ", 0, vec![])),
            temperatures: vec![
                ("PLL", 41.0),
                ("CPU", 42.5),
                ("PMIC", 50.0),
                ("GPU", 40.5),
                ("AO", 50.0),
                ("thermal", 41.75),
            ],
            ..Want::default()
        },
    );
}

#[test]
fn tx2_carrier_s12_whose_gpu_shows_no_load() {
    check(
        "s12",
        Want {
            ram: (284, 7860, 1808, 4),
            cores: vec![(48, 2034), OFF, OFF, (53, 2034), (43, 2033), (41, 2034)],
            emc: Some(("EMC_FREQ", 2, vec![1600])),
            gpu: Some(("GR3D_FREQ", NO_LOAD, vec![0])),
            engines: vec![clock("APE", 150)],
            temperatures: vec![
                ("PLL", 29.5),
                ("MCPU", 29.5),
                ("PMIC", 100.0),
                ("Tboard", 26.0),
                ("GPU", 27.5),
                ("BCPU", 29.5),
                ("thermal", 28.7),
                ("Tdiode", 25.0),
            ],
            rails: vec![
                ("VDD_SYS_GPU", 192, 192),
                ("VDD_SYS_SOC", 529, 529),
                ("VDD_4V0_WIFI", 38, 38),
                ("VDD_IN", 3566, 3566),
                ("VDD_SYS_CPU", 1156, 1156),
                ("VDD_SYS_DDR", 902, 902),
            ],
            power: Some(3566),
            ..Want::default()
        },
    );
}

#[test]
fn old_tx1_s13_with_one_clock_behind_its_cores() {
    check(
        "s13",
        Want {
            ram: (3607, 3983, 47, 4),
            swap: Some((873, 8192, 281)),
            cores: same(1734, &[17, 11, 65, 0]),
            emc: Some(("EMC", 1, vec![1600])),
            gpu: Some(("GR3D", 39, vec![76])),
            engines: vec![clock("APE", 25)],
            ..Want::default()
        },
    );
}

#[test]
fn agx_orin_r36_s14_with_busy_engines() {
    check(
        "s14",
        Want {
            stamp: Some("2026-05-09T18:42:07"),
            ram: (18202, 62841, 466, 4),
            swap: Some((86, 31420, 0)),
            cores: vec![
                (16, 1949),
                (6, 1761),
                (4, 1222),
                (4, 2201),
                (4, 1036),
                (33, 1036),
                (0, 1036),
                (40, 1036),
                (3, 1190),
                (46, 1190),
                (6, 1190),
                (2, 1190),
            ],
            emc: Some(("EMC_FREQ", 3, vec![2133])),
            gpu: Some(("GR3D_FREQ", 0, vec![0, 0])),
            engines: vec![
                ("NVENC", Some((78, vec![166]))),
                off("NVDEC"),
                off("NVJPG"),
                off("NVJPG1"),
                ("VIC", Some((32, vec![115]))),
                off("OFA"),
                off("NVDLA0"),
                off("NVDLA1"),
                off("PVA0_FREQ"),
                clock("APE", 174),
            ],
            temperatures: vec![
                ("cpu", 52.343),
                ("soc2", 48.343),
                ("soc0", 49.062),
                ("tj", 52.343),
                ("soc1", 49.531),
            ],
            rails: vec![("VDD_GPU_SOC", 2412, 2412), ("VDD_CPU_CV", 1607, 1607), ("VIN_SYS_5V0", 4607, 4657)],
            power: Some(8626),
            ..Want::default()
        },
    );
}

#[test]
fn agx_thor_s15_whose_gpu_has_clocks_and_no_load() {
    check(
        "s15",
        Want {
            stamp: Some("2026-05-17T10:00:32"),
            ram: (4208, 125773, 31, 4),
            swap: Some((0, 2048, 0)),
            cores: same(972, &[1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 3, 0, 0, 1]),
            emc: Some(("EMC_FREQ", 0, vec![665])),
            gpu: Some(("GR3D_FREQ", NO_LOAD, vec![0, 0, 0])),
            engines: vec![
                clock("NVENC0_FREQ", 0),
                clock("NVENC1_FREQ", 0),
                clock("NVDEC0_FREQ", 0),
                clock("NVDEC1_FREQ", 0),
                clock("NVJPG0_FREQ", 0),
                off("VIC"),
                clock("OFA_FREQ", 0),
                off("PVA0_FREQ"),
                clock("APE", 300),
            ],
            temperatures: vec![("cpu", 34.468), ("tj", 34.5), ("soc012", 33.781), ("soc345", 34.5)],
            rails: vec![("VDD_GPU", 0, 0), ("VDD_CPU_SOC_MSS", 4165, 4165), ("VIN_SYS_5V0", 4126, 4126)],
            power: Some(8291),
            ..Want::default()
        },
    );
}
