//! Tests with simulated hosts.

use std::fs;
use std::path::Path;

use metier_power::node::MachineSpec;
use metier_power::selection::PipelineRegistry;

use super::sampler::NodePowerProbe;
use super::*;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn watch(root: &Path) -> PowerMonitor {
    let machine = MachineSpec { cores: Some(4.0), ..MachineSpec::default() };
    let estimator = Arc::new(PowerEstimator::new(PipelineRegistry::default(), machine).unwrap());
    let roots = KernelRoots { proc: root.join("proc"), sys: root.join("sys"), etc: root.join("etc") };
    PowerMonitor::new(NodePowerConfig { roots, interval: DEFAULT_INTERVAL, estimator, engine: None })
}

fn busy(root: &Path, ticks: u64, own: u64) {
    put(root, "proc/stat", &format!("cpu  {ticks} 0 0 5000 0 0 0 0 0 0\n"));
    put(root, "proc/7/stat", &format!("7 (worker) R 1 1 1 0 -1 0 1 0 0 0 {own} 0 0 0 20 0 1 0 5 1000 10\n"));
}

#[test]
fn without_a_meter_the_estimate_is_shared_and_the_reason_said() {
    let folder = tempfile::tempdir().unwrap();
    busy(folder.path(), 0, 0);
    let watch = watch(folder.path());
    let mut eyes = NodePowerProbe::open(&watch);
    busy(folder.path(), 4, 3);
    std::thread::sleep(Duration::from_millis(30));
    eyes.sample(&watch);
    let seen = watch.lock_history();
    assert!(seen.meter.is_none() && seen.missing["measured"].reason.contains("no energy meter"));
    assert_eq!(seen.predictor.as_ref().unwrap().about.pipeline, "fallback");
    let entry = seen.ledger.entries().next().unwrap();
    assert_eq!(entry.measured, None);
    let parts = entry.parts.as_ref().unwrap();
    let worker = parts.named.iter().find(|(identity, _)| identity.name == "worker").unwrap().1;
    assert!((worker - 3.0 * parts.unseen).abs() < 1e-9 * worker, "three of four ticks were its own");
    let sum = parts.idle + worker + parts.unseen + parts.others;
    assert!((sum - entry.node().unwrap()).abs() < 1e-9 * sum);
}

#[test]
fn a_meter_is_shared_and_the_estimate_is_of_the_same_parts() {
    let folder = tempfile::tempdir().unwrap();
    busy(folder.path(), 0, 0);
    for (zone, name) in [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram")] {
        put(folder.path(), &format!("sys/class/powercap/{zone}/name"), name);
        put(folder.path(), &format!("sys/class/powercap/{zone}/energy_uj"), "1000000");
    }
    let watch = watch(folder.path());
    let mut eyes = NodePowerProbe::open(&watch);
    std::thread::sleep(Duration::from_millis(30));
    put(folder.path(), "sys/class/powercap/intel-rapl:0/energy_uj", "3000000");
    busy(folder.path(), 1, 1);
    eyes.sample(&watch);
    put(folder.path(), "sys/class/powercap/intel-rapl:0:0/energy_uj", "torn");
    eyes.sample(&watch);
    let seen = watch.lock_history();
    assert_eq!(seen.meter.as_ref().unwrap().0, MeterScope::PackageAndMemory);
    assert!(!seen.missing.contains_key("measured"));
    let entries: Vec<_> = seen.ledger.entries().collect();
    assert!(entries[0].measured.unwrap() > 0.0 && entries[0].estimated.is_some());
    assert_eq!(entries[1].measured, None, "a meter that was not read says nothing");
    assert_eq!(seen.predictor.as_ref().unwrap().about.source.name(), "rapl-sysfs");
    assert_eq!(seen.ledger.view(9, 9).compared.unwrap().entries, 1);
}

#[test]
fn a_host_that_says_nothing_is_told_with_reasons_and_nothing_is_made_up() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path());
    let mut eyes = NodePowerProbe::open(&watch);
    eyes.sample(&watch);
    let seen = watch.lock_history();
    let entry = seen.ledger.entries().next().unwrap();
    assert_eq!((entry.measured, entry.estimated, entry.parts.is_none()), (None, None, true));
    assert!(seen.missing["estimated"].reason.contains("/proc/stat"));
}

#[test]
fn a_container_has_the_name_that_its_engine_knows_also_after_its_end() {
    use std::io::{Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    let id = "a".repeat(64);
    busy(folder.path(), 0, 0);
    put(folder.path(), "proc/7/cgroup", &format!("0::/docker/{id}\n"));
    let socket = folder.path().join("engine.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let answer = format!("HTTP/1.0 200 OK\r\n\r\n[{{\"Id\":\"{id}\",\"Names\":[\"/camera\"]}}]");
    let engine = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let mut watch = watch(folder.path());
    watch.power.engine = Some(socket);
    let mut eyes = NodePowerProbe::open(&watch);
    busy(folder.path(), 4, 3);
    eyes.sample(&watch);
    engine.join().unwrap();
    // The name arrives in the table shortly after the lookup returned.
    for look in 5.. {
        busy(folder.path(), look, 3 + look);
        eyes.sample(&watch);
        if !watch.lock_history().names.is_empty() {
            break;
        }
        assert!(look < 5000, "the name never came");
        std::thread::sleep(Duration::from_millis(2));
    }
    fs::remove_dir_all(folder.path().join("proc/7")).unwrap();
    eyes.sample(&watch);
    assert_eq!(watch.lock_history().names.get(&id).map(String::as_str), Some("camera"));
}
