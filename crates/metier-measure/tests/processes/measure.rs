//! A measuring program for the tests of this crate: `command WORD…`, `container ENGINE STORE RUN
//! SCRIPT`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a part of the tests")]

use std::time::Duration;

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::spec::{ContainerSpec, PullPolicy};
use metier_measure::{
    CommandSpec, MeasureOptions, MeasureSession, NoRecorder, RunSpec, RunTarget, StoreRecorder,
};
use metier_store::{RecordStore, StoreLocation};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    let options = MeasureOptions { roots, runtime_dir: std::env::temp_dir(), device: device.clone() };
    let mut session = MeasureSession::open(options).unwrap();
    match words[..] {
        ["command", program, ref arguments @ ..] => {
            let arguments = arguments.iter().map(Into::into).collect();
            let mut spec = RunSpec::new(CommandSpec { program: program.into(), arguments });
            spec.grace = Duration::from_millis(200);
            session.run(&spec, &mut NoRecorder).unwrap();
        }
        ["container", engine, store, run, script] => {
            let store = RecordStore::open(&StoreLocation::Sqlite(store.into())).unwrap();
            let mut spec = RunSpec::for_target(RunTarget::Container(ContainerSpec {
                image: "busybox:local".into(),
                arguments: ["sh", "-c", script].map(String::from).into(),
                engine: Some(engine.into()),
                pull: PullPolicy::Never,
                network: Some("none".into()),
                stdin: true,
                ..ContainerSpec::default()
            }));
            spec.grace = Duration::from_millis(300);
            spec.id = Some(run.parse().unwrap());
            session.run(&spec, &mut StoreRecorder::new(store, &device)).unwrap();
        }
        _ => panic!("{words:?}"),
    }
}
