//! Runs `metier-burn cpu SECONDS` as pods of a cluster on this machine and prints what was measured, a JSON line for each.
//!
//! `pods KUBECONFIG BURN IMAGE REPEATS SECONDS…`; `bench/pods/run` starts it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example stops at the first trouble"
)]

use std::io::Read;
use std::path::PathBuf;

use metier_measure::spec::{Mount, PodSpec, Pull, Target};
use metier_measure::{Error, Options, Recorder, Roots, Session, Spec, device};
use metier_types::{ArtefactRef, ProcessTree, Run, RunId, Series};

/// Keeps the log, in which the workload says what it used.
#[derive(Default)]
struct Log(String);

impl Recorder for Log {
    fn begin(&mut self, _: &Run) -> Result<(), Error> {
        Ok(())
    }
    fn samples(&mut self, _: RunId, _: Vec<Series>) {}
    fn artefact(
        &mut self,
        _: RunId,
        _: &str,
        _: &str,
        content: &mut dyn Read,
    ) -> Result<Option<ArtefactRef>, Error> {
        self.0.clear();
        content.read_to_string(&mut self.0).expect("a log of text");
        Ok(None)
    }
    fn finish(&mut self, _: &mut Run, _: &ProcessTree) -> Result<(), Error> {
        Ok(())
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, burn, image, repeats, seconds @ ..] = &words[..] else {
        println!("usage: pods KUBECONFIG BURN IMAGE REPEATS SECONDS...");
        return;
    };
    let burn = PathBuf::from(burn).canonicalize().expect("a path of metier-burn");
    let folder = tempfile::tempdir().expect("a folder");
    let roots = Roots::default();
    let device = device::this(&roots, None).expect("a device");
    let mut session =
        Session::open(Options { roots, runtime_dir: folder.path().into(), device }).expect("a session");
    for seconds in seconds {
        for _ in 0..repeats.parse().expect("a number of repeats") {
            let command = ["/burn/metier-burn", "cpu", seconds, "--report", "-"].map(String::from);
            let mut spec = Spec::of(Target::Pod(PodSpec {
                image: image.clone(),
                entrypoint: Some(command.into()),
                kubeconfig: Some(kubeconfig.into()),
                pull: Pull::Missing,
                ..PodSpec::default()
            }));
            let burn = burn.parent().expect("a folder").to_path_buf();
            for (source, target) in [
                (burn, "/burn"),
                ("/lib".into(), "/lib"),
                ("/lib64".into(), "/lib64"),
                ("/usr".into(), "/usr"),
            ] {
                spec.mounts.push(Mount { source, target: target.into(), read_only: true });
            }
            let mut log = Log::default();
            let run = metier_kube::run(&mut session, &spec, &mut log).expect("a run").run;
            let said: serde_json::Value = serde_json::from_str(&log.0).expect("a report");
            println!(
                "{}",
                serde_json::json!({
                    "asked_seconds": seconds.parse::<f64>().expect("a number"),
                    "pod": run.context.pod.as_ref().and_then(|pod| pod.uid.clone()),
                    "exit": run.exit,
                    "own_cpu_seconds": said["cpu_nanoseconds"].as_f64().map(|ns| ns / 1e9),
                    "own_peak_bytes": said["peak_resident_bytes"],
                    "cpu_seconds": run.summary.cpu_seconds,
                    "peak_memory_bytes": run.summary.peak_memory_bytes,
                    "quality": run.quality.get("summary.cpu_seconds"),
                    "startup_seconds": run.overhead.startup_seconds,
                })
            );
        }
    }
}
