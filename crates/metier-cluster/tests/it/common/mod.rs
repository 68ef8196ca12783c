//! What the tests on a real cluster share: a session, a recorder that keeps everything in memory,
//! and a look at what is left.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::spec::{BindMount, PodSpec, PullPolicy, RunTarget};
use metier_measure::{Error, FinishedRun, MeasureOptions, MeasureSession, RunRecorder, RunSpec};
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
pub fn shell(kubeconfig: &std::path::Path, script: &str) -> RunSpec {
    let mut spec = RunSpec::for_target(RunTarget::Pod(PodSpec {
        image: "busybox:local".into(),
        entrypoint: Some(vec!["sh".into(), "-c".into()]),
        arguments: vec![script.into()],
        kubeconfig: Some(kubeconfig.into()),
        // Named, because other tests make nodes: with more than one it is not known before the
        // start where a pod goes.
        node: Some("localhost".into()),
        pull: PullPolicy::Never,
        ..PodSpec::default()
    }));
    spec.grace = Duration::from_secs(1);
    spec.interval = Duration::from_millis(50);
    spec.id = Some(RunId::new());
    spec
}

/// The same on a node that is treated as another machine.
pub fn elsewhere(kubeconfig: &std::path::Path, script: &str) -> RunSpec {
    let mut spec = shell(kubeconfig, script);
    pod_of(&mut spec).as_elsewhere = true;
    spec
}

/// Makes it a run of a program that knows what it uses itself, for 0.3 s; false where that is not
/// built.
pub fn burn(spec: &mut RunSpec) -> bool {
    let beside = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("metier-burn");
    let burn = std::env::var_os("METIER_BURN").map_or(beside, PathBuf::from);
    if !burn.exists() {
        eprintln!("SKIP: no known load, because metier-burn is not built (cargo build -p metier-burn)");
        return false;
    }
    pod_of(spec).entrypoint =
        Some(["/burn/metier-burn", "cpu", "0.3", "--report", "-"].map(String::from).into());
    pod_of(spec).arguments = vec![];
    let folder = burn.parent().unwrap().to_path_buf();
    for (source, target) in
        [(folder, "/burn"), ("/lib".into(), "/lib"), ("/lib64".into(), "/lib64"), ("/usr".into(), "/usr")]
    {
        spec.mounts.push(BindMount { source, target: target.into(), read_only: true });
    }
    true
}

/// The CPU time that the program of [`burn`] says it used, in seconds.
pub fn burnt(memory: &Memory) -> f64 {
    let report: serde_json::Value = serde_json::from_str(&memory.text(metier_cluster::LOG_ARTEFACT)).unwrap();
    report["cpu_nanoseconds"].as_u64().unwrap() as f64 / 1e9
}

/// Waits until the pod of a run has written `up`; gives its name and uid.
pub fn until_up(spec: &RunSpec) -> (String, String) {
    let label = format!("metier.run={}", spec.id.unwrap());
    until("the pod's log", || {
        let path = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.phase}{end}";
        let text = kubectl(spec, &["get", "pods", "-l", &label, "-o", path]);
        let mut words = text.split(' ');
        let (name, uid) = (words.next()?.to_string(), words.next()?.to_string());
        let is_up = words.next()? == "Running" && kubectl(spec, &["logs", &name, "-c", "run"]).contains("up");
        is_up.then_some((name, uid))
    })
}

/// Runs it, and asks it to stop as soon as it has begun.
pub fn run_and_stop(spec: &RunSpec, folder: &std::path::Path) -> FinishedRun {
    let mut session = session(folder);
    let stopper = session.stopper();
    let mut memory = Memory { on_begin: Some(Box::new(move || stopper.stop(15))), ..Memory::default() };
    metier_cluster::run_pod(&mut session, spec, &mut memory).unwrap()
}

pub fn pod_of(spec: &mut RunSpec) -> &mut PodSpec {
    match &mut spec.target {
        RunTarget::Pod(pod) => pod,
        other => panic!("{other:?} is no pod"),
    }
}

pub fn session(folder: &std::path::Path) -> MeasureSession {
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    MeasureSession::open(MeasureOptions { roots, runtime_dir: folder.into(), device }).unwrap()
}

/// Keeps everything in memory.
#[derive(Default)]
pub struct Memory {
    pub begun: usize,
    pub samples: usize,
    pub series: Vec<String>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub finished: Option<Run>,
    pub on_begin: Option<Box<dyn FnMut()>>,
}

impl Memory {
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.files.get(name).map_or(&[][..], |bytes| bytes)).into_owned()
    }
}

impl RunRecorder for Memory {
    fn begin_run(&mut self, _: &Run) -> Result<(), Error> {
        self.begun += 1;
        if let Some(act) = &mut self.on_begin {
            act();
        }
        Ok(())
    }

    fn record_samples(&mut self, _: RunId, chunk: Vec<Series>) {
        self.series.extend(chunk.iter().map(|series| series.name.clone()));
        self.samples +=
            chunk.iter().filter(|series| series.name == "use").map(|s| s.times.len()).sum::<usize>();
    }

    fn store_artefact(
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
            metier_store::digest::digest_bytes(&bytes),
            Bytes(bytes.len() as u64),
        );
        self.files.insert(name.into(), bytes);
        Ok(Some(artefact))
    }

    fn finish_run(&mut self, run: &mut Run, _: &ProcessTree) -> Result<(), Error> {
        self.finished = Some(run.clone());
        Ok(())
    }
}

/// Runs it, and checks that nothing is left of it.
pub fn run(spec: &RunSpec) -> (FinishedRun, Memory) {
    let mut memory = Memory::default();
    let finished = run_with(spec, &mut memory);
    (finished, memory)
}

pub fn run_with(spec: &RunSpec, memory: &mut Memory) -> FinishedRun {
    let folder = tempfile::Builder::new().prefix("metier-cluster-").tempdir().unwrap();
    let finished = metier_cluster::run_pod(&mut session(folder.path()), spec, memory).unwrap();
    assert_eq!(memory.finished.as_ref(), Some(&finished.run), "what is told is what is kept");
    nothing_is_left(spec, folder.path());
    finished
}

/// No object, no control group and no file of the run is there any more.
pub fn nothing_is_left(spec: &RunSpec, folder: &std::path::Path) {
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
pub fn kubectl(spec: &RunSpec, arguments: &[&str]) -> String {
    let RunTarget::Pod(pod) = &spec.target else { panic!("no pod") };
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
