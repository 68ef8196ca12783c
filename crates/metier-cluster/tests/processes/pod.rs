//! A measuring program with a pod that sleeps, for the tests of this crate: KUBECONFIG RUN FOLDER.
#![allow(clippy::unwrap_used, reason = "a part of the tests")]

use metier_device::identity;
use metier_linux::Roots;
use metier_measure::spec::{PodSpec, Pull, Target};
use metier_measure::{NoRecorder, Options, Session, Spec};

fn main() {
    let [kubeconfig, run, folder] =
        <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>()).unwrap();
    let mut spec = Spec::of(Target::Pod(PodSpec {
        image: "busybox:local".into(),
        entrypoint: Some(["sh", "-c"].map(String::from).into()),
        arguments: vec!["echo up; sleep 600".into()],
        kubeconfig: Some(kubeconfig.into()),
        node: Some("localhost".into()),
        pull: Pull::Never,
        ..PodSpec::default()
    }));
    spec.id = Some(run.parse().unwrap());
    let roots = Roots::default();
    let device = identity::this(&roots, None).unwrap();
    let mut session = Session::open(Options { roots, runtime_dir: folder.into(), device }).unwrap();
    metier_cluster::run(&mut session, &spec, &mut NoRecorder).unwrap();
}
