//! Detects this machine's specification in Kepler's form. Reads `/proc/cpuinfo`, `/proc/meminfo`
//! and `/sys` below roots that the caller passes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::spec::MachineSpec;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Specification of this machine; values missing in the kernel's files are `None`.
pub fn discover(proc: &Path, sys: &Path) -> MachineSpec {
    let cpuinfo = text(&proc.join("cpuinfo"));
    let field = |name: &str| {
        let of = |line: &str| {
            line.split_once(':')
                .filter(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_string())
        };
        cpuinfo.lines().filter_map(of).collect::<Vec<String>>()
    };
    let cores = field("processor").len();
    let chips: BTreeSet<String> = field("physical id").into_iter().collect();
    let current = field("cpu MHz").first().and_then(|value| value.parse::<f64>().ok());
    let highest =
        text(&sys.join("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")).trim().parse::<f64>().ok();
    let mhz = [current, highest.map(|khz| khz / 1000.0)].into_iter().flatten().fold(0.0, f64::max);
    let kib = text(&proc.join("meminfo"))
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    let above = |value: f64| Some(value).filter(|value| *value > 0.0);
    MachineSpec {
        processor: field("model name").first().map(|name| processor(name)).filter(|name| !name.is_empty()),
        cores: above(cores as f64),
        chips: (cores > 0).then(|| chips.len().max(1) as f64),
        memory: kib.and_then(|kib| above((kib / 1024.0 / 1024.0).floor())),
        frequency: above((mhz / 100.0).round() * 100.0),
    }
}

fn text(path: &Path) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    if let Ok(file) = fs::File::open(path) {
        let _ = file.take(MAX_FILE_BYTES).read_to_string(&mut text);
    }
    text
}

/// Processor name in the form of node types: `Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz` becomes
/// `intel_xeon_e5_2686v4`.
pub fn processor(brand: &str) -> String {
    let mut name = brand.to_string();
    for out in ["(R)", "(r)", "CPU", "Processor", "processor", "@", "®", ","] {
        name = name.replace(out, " ");
    }
    let end = name.find(['(', '[']).unwrap_or(name.len());
    name.truncate(end);
    let is_frequency = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let number = lower.strip_suffix("ghz").or_else(|| lower.strip_suffix("mhz"));
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    let is_form = |word: &str| word.ends_with("-Bit") || word == "Multi-Core" || word.ends_with("-Core");
    let words: Vec<&str> =
        name.split_whitespace().filter(|word| !is_frequency(word) && !is_form(word)).collect();
    words.join("_").replace('-', "_").to_lowercase().replace("_v", "v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processors_are_kepler_s() {
        for (brand, want) in [
            ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "intel_xeon_e5_2686v4"),
            ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "intel_xeon_platinum_8259cl"),
            ("AMD EPYC 7763 64-Core Processor", "amd_epyc_7763"),
            ("Intel(R) Xeon(R) Gold 5120 [Skylake]", "intel_xeon_gold_5120"),
        ] {
            assert_eq!(processor(brand), want);
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        assert!(discover(folder.path(), folder.path()).is_empty());
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let core = |n: usize, chip: usize| {
            format!(
                "processor\t: {n}\nmodel name\t: AMD EPYC 7763 64-Core Processor\ncpu MHz\t\t: 2449.9\nphysical id\t: {chip}\n\n"
            )
        };
        fs::write(
            folder.path().join("cpuinfo"),
            format!("{}{}{}{}", core(0, 0), core(1, 0), core(2, 1), core(3, 1)),
        )
        .unwrap();
        fs::write(folder.path().join("meminfo"), "MemTotal:       33554431 kB\nMemFree: 1 kB\n").unwrap();
        let spec = discover(folder.path(), folder.path());
        assert_eq!(spec.processor.as_deref(), Some("amd_epyc_7763"));
        assert_eq!(
            (spec.cores, spec.chips, spec.memory, spec.frequency),
            (Some(4.0), Some(2.0), Some(31.0), Some(2400.0))
        );
    }
}
