//! Every shape that a release prints, including those without a recorded line.

use metier_types::{Bytes, Celsius, Hertz, Watts};

use super::super::super::{BoardCore, FreeBlocks};
use super::*;

#[test]
fn shapes_of_loads_and_clocks() {
    let gpu = |text: &str| {
        let line = TegrastatsLine::parse(text);
        assert!(line.unknown.is_empty(), "{text}: {:?}", line.unknown);
        let gpu = line.board.gpus[0].clone();
        let clocks: Vec<f64> = gpu.frequencies_hertz.iter().map(|hertz| hertz.get() / 1e6).collect();
        (gpu.name, gpu.load_ratio.map(|load| load.get() * 100.0), clocks)
    };
    for (text, name, load, clocks) in [
        ("GR3D_FREQ 12%@624", "GR3D_FREQ", Some(12.0), vec![624.0]),
        ("GR3D_FREQ 12%", "GR3D_FREQ", Some(12.0), vec![]),
        ("GR3D_FREQ @624", "GR3D_FREQ", None, vec![624.0]),
        ("GR3D_FREQ 12%@[305,612]", "GR3D_FREQ", Some(12.0), vec![305.0, 612.0]),
        ("GR3D_FREQ @[1,2,3]", "GR3D_FREQ", None, vec![1.0, 2.0, 3.0]),
        ("GR3D2_FREQ 3%@9", "GR3D2_FREQ", Some(3.0), vec![9.0]),
        ("GR3D 39%@76", "GR3D", Some(39.0), vec![76.0]),
        ("GR3D_PCI 99%@[1905]", "GR3D_PCI", Some(99.0), vec![1905.0]),
    ] {
        assert_eq!(gpu(text), (name.to_string(), load, clocks), "{text}");
    }
    let emc = |text: &str| {
        TegrastatsLine::parse(text).board.emc.map(|emc| (emc.load_ratio, emc.highest_frequency()))
    };
    assert_eq!(emc("EMC_FREQ 7%@408"), Some((Some(Ratio(0.07)), Some(Hertz(408e6)))));
    assert_eq!(emc("EMC_FREQ 7%"), Some((Some(Ratio(0.07)), None)));
    assert_eq!(emc("EMC_FREQ @408"), Some((None, Some(Hertz(408e6)))));
    assert_eq!(emc("EMC 7%@408"), Some((Some(Ratio(0.07)), Some(Hertz(408e6)))));
    let both = TegrastatsLine::parse("GR3D_FREQ 1%@2 GR3D2_FREQ 3%@4");
    assert_eq!(both.board.gpus.len(), 2);
}

#[test]
fn shapes_of_engines() {
    let line = TegrastatsLine::parse(
        "NVENC 716 NVENC 78%@166 NVDEC off NVENC0_FREQ @5 NVJPG 10 NVJPG1 off VIC 1 VIC_FREQ 20%@115 OFA 7 \
         NVDLA0 off NVDLA1 @3 PVA0_FREQ 4%@[704,705] MSENC 140 APE 25",
    );
    assert!(line.unknown.is_empty(), "{:?}", line.unknown);
    let shown: Vec<String> = line
        .board
        .engines
        .iter()
        .map(|engine| {
            let clocks: Vec<String> =
                engine.frequencies_hertz.iter().map(|hertz| format!("{}", hertz.get() / 1e6)).collect();
            let load = engine.load_ratio.map_or("-".into(), |load| format!("{:.0}", load.get() * 100.0));
            format!("{} {} {} {}", engine.base_name(), engine.off, load, clocks.join(","))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "NVENC false - 716",
            "NVENC false 78 166",
            "NVDEC true - ",
            "NVENC0 false - 5",
            "NVJPG false - 10",
            "NVJPG1 true - ",
            "VIC false - 1",
            "VIC false 20 115",
            "OFA false - 7",
            "NVDLA0 true - ",
            "NVDLA1 false - 3",
            "PVA0 false 4 704,705",
            "MSENC false - 140",
            "APE false - 25",
        ]
    );
}

#[test]
fn shapes_of_cores() {
    let cores = |text: &str| TegrastatsLine::parse(text).board.cores;
    let on = |load: f64, mhz: Option<f64>| BoardCore {
        off: false,
        load_ratio: Some(Ratio(load / 100.0)),
        frequency_hertz: mhz.map(|mhz| Hertz(mhz * 1e6)),
    };
    let off = BoardCore { off: true, ..BoardCore::default() };
    assert_eq!(cores("CPU [5%@1200,off]"), [on(5.0, Some(1200.0)), off]);
    assert_eq!(cores("CPU [5%,off,0%]@918"), [on(5.0, Some(918.0)), off, on(0.0, Some(918.0))]);
    assert_eq!(cores("cpu [5%,off]@918"), [on(5.0, Some(918.0)), off]);
    assert_eq!(cores("CPU [5%,7%]"), [on(5.0, None), on(7.0, None)]);
    assert_eq!(cores("CPU [5%@1, off, 7%@3]"), [on(5.0, Some(1.0)), off, on(7.0, Some(3.0))]);
}

#[test]
fn shapes_of_memory() {
    let line = TegrastatsLine::parse(
        "RAM 3/7MB (lfb 12x512kB) CPU [1%@2] SWAP 1/2MB (cached 3MB) IRAM 4/252kB(lfb 248kB)",
    );
    assert!(line.unknown.is_empty(), "{:?}", line.unknown);
    let ram = line.board.ram.unwrap();
    assert_eq!(ram.largest_free, Some(FreeBlocks { count: Some(12), size_bytes: Bytes(512 * KB) }));
    assert_eq!(line.board.swap.unwrap().cached_bytes, Some(Bytes(3 * MB)), "also behind the cores");
    let iram = line.board.iram.unwrap();
    assert_eq!((iram.used_bytes, iram.total_bytes), (Bytes(4 * KB), Bytes(252 * KB)));
    assert_eq!(iram.largest_free, Some(FreeBlocks { count: None, size_bytes: Bytes(248 * KB) }));
    let bare = TegrastatsLine::parse("RAM 3/7MB IRAM 0/252kB(lfb kB)");
    assert!(bare.unknown.is_empty(), "{:?}", bare.unknown);
    assert_eq!((bare.board.ram.unwrap().largest_free, bare.board.iram.unwrap().largest_free), (None, None));
}

#[test]
fn shapes_of_temperatures() {
    let line = TegrastatsLine::parse(
        "CPU@31.5C gpu@-256C tj@40C/45.5C PMIC@100C cv0@-256C/-256C AO@-3.5C iwlwifi_1@42C PMIC@41.5C",
    );
    assert!(line.unknown.is_empty(), "{:?}", line.unknown);
    let shown: Vec<_> = line
        .board
        .temperatures
        .iter()
        .map(|t| {
            (t.name.as_str(), t.celsius.map(|c| c.get()), t.largest_celsius.map(|c| c.get()), t.placeholder)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("CPU", Some(31.5), None, false),
            ("gpu", None, None, false),
            ("tj", Some(40.0), Some(45.5), false),
            ("PMIC", Some(100.0), None, true),
            ("cv0", None, None, false),
            ("AO", Some(-3.5), None, false),
            ("iwlwifi_1", Some(42.0), None, false),
            ("PMIC", Some(41.5), None, false),
        ]
    );
    assert_eq!(line.board.temperature("cpu"), Some(Celsius(31.5)));
    assert_eq!(line.board.temperature("pmic"), None);
    assert_eq!(line.board.temperature("gpu"), None);
}

#[test]
fn shapes_of_power() {
    let line = TegrastatsLine::parse(
        "VDD_IN 6140/5510 VDD_SOC 650mW/711mW VDD_CPU_CV 1mW/2mW/3mW NC 0/0 NC 0mW/0mW VDD_X NC",
    );
    assert!(line.unknown.is_empty(), "{:?}", line.unknown);
    let rail = |name: &str, now: f64, mean: f64, peak: Option<f64>| PowerRail {
        name: name.into(),
        now: Watts(now),
        mean: Some(Watts(mean)),
        peak: peak.map(Watts),
    };
    assert_eq!(
        line.board.rails,
        [
            rail("VDD_IN", 6.14, 5.51, None),
            rail("VDD_SOC", 0.65, 0.711, None),
            rail("VDD_CPU_CV", 0.001, 0.002, Some(0.003)),
        ]
    );
}

#[test]
fn thor_prefers_its_input_rail_and_an_incomplete_set_has_no_total() {
    let power = |text: &str| TegrastatsLine::parse(text).board.power();
    let thor = "VDD_GPU 1mW/1mW VDD_CPU_SOC_MSS 4165mW/4165mW VIN_SYS_5V0 4126mW/4126mW";
    assert_eq!(power(thor), Some(Watts(8.292)));
    assert_eq!(power(&format!("{thor} VIN 30000mW/30000mW")), Some(Watts(30.0)));
    assert_eq!(power("VDD_GPU 1mW/1mW VIN_SYS_5V0 4126mW/4126mW"), None);
    assert_eq!(power("RAM 1/2MB"), None);
}

#[test]
fn a_power_that_no_board_has_is_no_rail() {
    let line = |now: u64| {
        TegrastatsLine::parse(&format!(
            "VDD_GPU {now}/{now} VDD_CPU_SOC_MSS {now}/{now} VIN_SYS_5V0 {now}/{now}"
        ))
    };
    assert_eq!(line(1_000_000_000).board.power(), Some(Watts(3e6)));
    for now in [1_000_000_001, i64::MAX as u64, u64::MAX] {
        // Found by fuzzing: the sum of the rails overflowed.
        assert_eq!((line(now).board.power(), line(now).board.rails.len()), (None, 0), "{now}");
    }
}
