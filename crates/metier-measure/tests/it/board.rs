//! A real command on this host, whose sensors are a Jetson's: files in a folder of the test, which
//! changes them while the command runs.

use std::path::Path;
use std::time::Duration;

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::{CommandSpec, Error, MeasureOptions, MeasureSession, RunRecorder, RunSpec};
use metier_types::{ProcessTree, Run, RunId, Series};

/// Keeps the names and columns of the time line.
#[derive(Default)]
struct Columns(Vec<(String, String)>);

impl RunRecorder for Columns {
    fn begin_run(&mut self, _: &Run) -> Result<(), Error> {
        Ok(())
    }
    fn record_samples(&mut self, _: RunId, chunk: Vec<Series>) {
        for series in chunk {
            self.0.extend(series.columns.iter().map(|column| (series.name.clone(), column.name.clone())));
        }
    }
    fn finish_run(&mut self, _: &mut Run, _: &ProcessTree) -> Result<(), Error> {
        Ok(())
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_run_on_a_jetson_has_its_gpu_and_its_energy_with_the_error_of_that() {
    let folder = tempfile::tempdir().unwrap();
    let sys = folder.path();
    for (path, text) in [
        ("class/hwmon/hwmon0/name", "ina3221"),
        ("class/hwmon/hwmon0/in1_label", "VDD_IN"),
        ("class/hwmon/hwmon0/in1_input", "5000"),
        ("class/hwmon/hwmon0/curr1_input", "1000"),
        ("class/hwmon/hwmon0/in2_label", "VDD_SOC"),
        ("class/hwmon/hwmon0/in2_input", "5000"),
        ("class/hwmon/hwmon0/curr2_input", "400"),
        ("class/devfreq/17000000.ga10b/cur_freq", "306000000"),
        ("class/devfreq/17000000.ga10b/device/load", "500"),
    ] {
        write(sys, path, text);
    }
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    let roots = KernelRoots { sys: sys.into(), ..KernelRoots::default() };
    let mut session =
        MeasureSession::open(MeasureOptions { roots, runtime_dir: std::env::temp_dir(), device }).unwrap();
    let current = sys.join("class/hwmon/hwmon0/curr1_input");
    let script = format!(
        "for i in 1 2 3 4; do echo 3000 > {0}; sleep 0.2; echo 1000 > {0}; sleep 0.2; done",
        current.display()
    );
    let mut spec =
        RunSpec::new(CommandSpec { program: "sh".into(), arguments: vec!["-c".into(), script.into()] });
    spec.interval = Duration::from_millis(20);
    let mut columns = Columns::default();
    let run = session.run(&spec, &mut columns).unwrap().run;

    let wall = run.summary.wall_seconds.unwrap().get();
    let energy = run.summary.energy_joules.unwrap().get();
    assert!(energy > 5.0 * wall * 0.9 && energy < 15.0 * wall * 1.1, "{energy} J in {wall} s at 5 to 15 W");
    let rail = run.energy.meters.iter().find(|meter| meter.name == "VDD_IN").unwrap();
    assert_eq!(rail.energy_joules.get(), energy, "the other rail is a part of it");
    assert!(rail.error_joules.unwrap().get() >= 0.0);
    assert!(rail.error_bound_joules.unwrap().get() > 0.0, "{rail:?}");
    let [gpu] = &run.gpus[..] else { panic!("{:?}", run.gpus) };
    assert_eq!(gpu.name, "Jetson 17000000.ga10b");
    assert_eq!(gpu.mean_utilisation_ratio.unwrap().get(), 0.5);
    assert!(!run.missing.keys().any(|field| field.starts_with("gpus")), "{:?}", run.missing);
    for wanted in [("gpu", "utilisation"), ("gpu", "frequency"), ("energy", "VDD_IN")] {
        assert!(
            columns.0.iter().any(|(series, column)| (series.as_str(), column.as_str()) == wanted),
            "{columns:?}",
            columns = columns.0
        );
    }
}
