//! Passports shipped with metier: common boards and some machine classes, from public
//! specifications.
//!
//! Each is one file in `passports/`; a new one also needs an entry in this list. None is measured:
//! compute is cores × clock × SIMD width, and memory bandwidth is that of the bus. The tests
//! recompute both from the parts that each file states.

use std::sync::OnceLock;

use metier_types::Passport;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/passports/", $name, ".json"))),*]
    };
}

const PASSPORT_FILES: &[&str] = files![
    "raspberry-pi-3b",
    "raspberry-pi-3b-plus",
    "raspberry-pi-4b",
    "raspberry-pi-5",
    "jetson-nano",
    "jetson-xavier-nx",
    "jetson-agx-xavier",
    "jetson-orin-nano",
    "jetson-orin-nano-super",
    "jetson-orin-nx",
    "jetson-agx-orin",
    "mini-pc-n100",
    "desktop-8-core-avx2",
    "server-avx512",
    "cloud-2-vcpu",
];

/// All shipped passports in list order, parsed once; tests check that each parses.
pub fn shipped_passports() -> &'static [Passport] {
    static READ: OnceLock<Vec<Passport>> = OnceLock::new();
    READ.get_or_init(|| PASSPORT_FILES.iter().filter_map(|file| serde_json::from_str(file).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use metier_types::{NumberPrecision, PassportOrigin};

    use super::super::name_match::{name_key, reduced_name_key};
    use super::*;

    #[test]
    fn every_file_is_in_the_list_and_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("passports");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        for file in PASSPORT_FILES {
            serde_json::from_str::<Passport>(file).unwrap();
        }
        let read: BTreeSet<String> =
            shipped_passports().iter().map(|passport| format!("{}.json", passport.id)).collect();
        assert_eq!(read, files, "a file is named after its id");
    }

    #[test]
    fn each_says_that_it_is_specified_from_what_and_what_it_lacks() {
        for passport in shipped_passports() {
            let id = &passport.id;
            assert_eq!(passport.origin, PassportOrigin::Specified, "{id}");
            assert_eq!(passport.device.id.as_str(), id);
            assert_eq!(passport.device.name, passport.name, "{id}");
            assert!(!passport.sources.is_empty() && !passport.notes.is_empty(), "{id}");
            assert!(passport.sources.iter().all(|source| !source.contains("://")), "{id}");
            for precision in
                [NumberPrecision::F64, NumberPrecision::F32, NumberPrecision::F16, NumberPrecision::I8]
            {
                let field = format!("compute.{}", serde_json::to_value(precision).unwrap().as_str().unwrap());
                let there = passport.multiply_adds_per_second(precision, u32::MAX).is_some();
                assert_ne!(there, passport.missing.contains_key(&field), "{id} {field}");
            }
            for field in ["latency", "storage", "spawn_seconds", "throttling"] {
                assert!(passport.missing.contains_key(field), "{id} {field}");
            }
        }
    }

    #[test]
    fn compute_is_cores_times_clock_times_width() {
        for passport in shipped_passports() {
            let cpu = &passport.device.cpu;
            let (id, cores) = (&passport.id, cpu.cores.unwrap());
            let fastest = cpu.max_frequency_hertz.unwrap().get();
            assert!(cores <= cpu.threads, "{id}");
            assert_eq!(passport.compute.iter().map(|rate| rate.threads).max(), Some(cores), "{id}");
            for rate in &passport.compute {
                let (clock, width) = (rate.clock_hertz.unwrap().get(), rate.per_core_and_cycle.unwrap());
                assert!(rate.threads >= 1 && rate.threads <= cores, "{id} {rate:?}");
                assert!(clock > 1e9 && clock <= fastest, "{id} {rate:?}");
                let units = width_of(rate.precision, rate.instructions.as_deref().unwrap());
                assert!(units.contains(&width), "{id}: {width} a cycle with {rate:?}");
                let peak = f64::from(rate.threads) * clock * width;
                assert!((rate.multiply_adds_per_second / peak - 1.0).abs() < 1e-12, "{id} {rate:?}");
            }
            for rate in &passport.accelerators {
                assert!(passport.device.accelerators.contains(&rate.name), "{id}");
                let peak = f64::from(rate.units.unwrap()) * rate.clock_hertz.unwrap().get();
                assert!((rate.multiply_adds_per_second / peak - 1.0).abs() < 1e-12, "{id} {rate:?}");
            }
        }
    }

    /// Lanes of one register, with one or two units, and dot products of four 8-bit integers in a
    /// 32-bit lane.
    fn width_of(precision: NumberPrecision, instructions: &str) -> [f64; 2] {
        let bits = match instructions {
            text if text.starts_with("NEON") => 128.0,
            text if text.starts_with("AVX-512") => 512.0,
            text if text.starts_with("AVX2") => 256.0,
            other => panic!("unknown instructions {other}"),
        };
        let lanes = match precision {
            NumberPrecision::F64 => bits / 64.0,
            NumberPrecision::F32 => bits / 32.0,
            NumberPrecision::F16 => bits / 16.0,
            NumberPrecision::I8 => bits / 8.0,
            other => panic!("unknown precision {other:?}"),
        };
        [lanes, 2.0 * lanes]
    }

    #[test]
    fn memory_is_the_width_of_the_bus_times_its_transfers() {
        for passport in shipped_passports() {
            let id = &passport.id;
            let rate = &passport.bandwidth[0];
            assert_eq!(
                (passport.bandwidth.len(), rate.working_set_bytes, rate.threads),
                (1, None, 1),
                "{id}"
            );
            match (rate.bus_bits, rate.transfers_per_second) {
                (Some(bits), Some(transfers)) => {
                    assert_eq!(rate.bytes_per_second, f64::from(bits) / 8.0 * transfers, "{id}");
                }
                _ => {
                    assert!(passport.notes.iter().any(|note| note.contains("share")), "{id} says how it came")
                }
            }
        }
    }

    #[test]
    fn no_name_means_two_devices() {
        let mut seen = BTreeSet::new();
        for passport in shipped_passports() {
            let names = [&passport.id, &passport.name].into_iter().chain(&passport.aliases);
            let keys: BTreeSet<String> = names.clone().map(|name| name_key(name)).collect();
            let all: BTreeSet<String> = names.map(|name| reduced_name_key(name)).chain(keys).collect();
            for name in all {
                assert!(
                    !name.is_empty() && seen.insert(name.clone()),
                    "{name} is {} and another",
                    passport.id
                );
            }
        }
    }
}
