//! A measuring program with a pod that sleeps, for the tests of this crate: KUBECONFIG RUN FOLDER.
#![allow(clippy::unwrap_used, reason = "a part of the tests")]

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::spec::{PodSpec, PullPolicy, RunTarget};
use metier_measure::{MeasureOptions, MeasureSession, NoRecorder, RunSpec};

fn main() {
    let [kubeconfig, run, folder] =
        <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>()).unwrap();
    let mut spec = RunSpec::for_target(RunTarget::Pod(PodSpec {
        image: "busybox:local".into(),
        entrypoint: Some(["sh", "-c"].map(String::from).into()),
        arguments: vec!["echo up; sleep 600".into()],
        kubeconfig: Some(kubeconfig.into()),
        node: Some("localhost".into()),
        pull: PullPolicy::Never,
        ..PodSpec::default()
    }));
    spec.id = Some(run.parse().unwrap());
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    let mut session =
        MeasureSession::open(MeasureOptions { roots, runtime_dir: folder.into(), device }).unwrap();
    metier_cluster::run_pod(&mut session, &spec, &mut NoRecorder).unwrap();
}
