//! What the tests on a real cluster share: a session, a recorder that keeps everything in memory, and a look at what
//! is left.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use metier_measure::spec::{PodSpec, Pull, Target};
use metier_measure::{Error, Finished, Options, Recorder, Roots, Session, Spec, device};
use metier_types::{ArtefactRef, Bytes, ProcessTree, Run, RunId, Series};

/// The lab's cluster; without it a test says so and passes.
pub fn cluster() -> Option<PathBuf> {
    let found = std::env::var_os("METIER_LAB_KUBECONFIG").map(PathBuf::from);
    if found.is_none() {
        eprintln!("SKIP: no cluster, because METIER_LAB_KUBECONFIG is not set (lab/lab up kube)");
    }
    found
}

/// A run of `sh -c SCRIPT` in the lab's image.
pub fn shell(kubeconfig: &std::path::Path, script: &str) -> Spec {
    let mut spec = Spec::of(Target::Pod(PodSpec {
        image: "busybox:local".into(),
        entrypoint: Some(vec!["sh".into(), "-c".into()]),
        arguments: vec![script.into()],
        kubeconfig: Some(kubeconfig.into()),
        // Named, because other tests make nodes: with more than one it is not known before the start where a pod goes.
        node: Some("localhost".into()),
        pull: Pull::Never,
        ..PodSpec::default()
    }));
    spec.grace = Duration::from_secs(1);
    spec.interval = Duration::from_millis(50);
    spec.id = Some(RunId::new());
    spec
}

pub fn pod_of(spec: &mut Spec) -> &mut PodSpec {
    match &mut spec.target {
        Target::Pod(pod) => pod,
        other => panic!("{other:?} is no pod"),
    }
}

pub fn session(folder: &std::path::Path) -> Session {
    let roots = Roots::default();
    let device = device::this(&roots, None).unwrap();
    Session::open(Options { roots, runtime_dir: folder.into(), device }).unwrap()
}

/// Keeps everything in memory.
#[derive(Default)]
pub struct Memory {
    pub begun: usize,
    pub samples: usize,
    pub files: BTreeMap<String, Vec<u8>>,
    pub finished: Option<Run>,
    pub on_begin: Option<Box<dyn FnMut()>>,
}

impl Memory {
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.files.get(name).map_or(&[][..], |bytes| bytes)).into_owned()
    }
}

impl Recorder for Memory {
    fn begin(&mut self, _: &Run) -> Result<(), Error> {
        self.begun += 1;
        if let Some(act) = &mut self.on_begin {
            act();
        }
        Ok(())
    }

    fn samples(&mut self, _: RunId, chunk: Vec<Series>) {
        self.samples +=
            chunk.iter().filter(|series| series.name == "use").map(|s| s.times.len()).sum::<usize>();
    }

    fn artefact(
        &mut self,
        _: RunId,
        name: &str,
        media: &str,
        content: &mut dyn Read,
    ) -> Result<Option<ArtefactRef>, Error> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|reason| Error::Read { path: name.into(), reason })?;
        let artefact = ArtefactRef::new(
            name,
            media,
            metier_measure::digest::of_bytes(&bytes),
            Bytes(bytes.len() as u64),
        );
        self.files.insert(name.into(), bytes);
        Ok(Some(artefact))
    }

    fn finish(&mut self, run: &mut Run, _: &ProcessTree) -> Result<(), Error> {
        self.finished = Some(run.clone());
        Ok(())
    }
}

/// Runs it, and checks that nothing is left of it.
pub fn run(spec: &Spec) -> (Finished, Memory) {
    let mut memory = Memory::default();
    let finished = run_with(spec, &mut memory);
    (finished, memory)
}

pub fn run_with(spec: &Spec, memory: &mut Memory) -> Finished {
    let folder = tempfile::Builder::new().prefix("metier-kube-").tempdir().unwrap();
    let finished = metier_kube::run(&mut session(folder.path()), spec, memory).unwrap();
    assert_eq!(memory.finished.as_ref(), Some(&finished.run), "what is told is what is kept");
    nothing_is_left(spec, folder.path());
    finished
}

/// No object, no control group and no file of the run is there any more.
pub fn nothing_is_left(spec: &Spec, folder: &std::path::Path) {
    let id = spec.id.unwrap();
    let label = format!("metier.run={id}");
    // A busy kubelet may take its time to let go of a pod that is being deleted.
    until("the end of the run's objects", || {
        let left = kubectl(spec, &["get", "jobs,pods,configmaps", "-A", "-o", "name", "-l", &label]);
        left.trim().is_empty().then_some(())
    });
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(files.is_empty(), "{files:?} are left");
}

/// What `kubectl` says, on standard output.
pub fn kubectl(spec: &Spec, arguments: &[&str]) -> String {
    let Target::Pod(pod) = &spec.target else { panic!("no pod") };
    let output = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(pod.kubeconfig.as_ref().unwrap())
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until something is so, for at most two minutes.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}
