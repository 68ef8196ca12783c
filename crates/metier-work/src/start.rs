//! One door to all that can run a workload: this machine's own room for commands and containers, the cluster's for pods.

use metier_measure::spec::Target;
use metier_measure::{Error, Finished, Recorder, Session, Spec};

/// Runs and measures.
pub fn start(session: &mut Session, spec: &Spec, recorder: &mut dyn Recorder) -> Result<Finished, Error> {
    match &spec.target {
        Target::Command(_) | Target::Container(_) => session.run(spec, recorder),
        Target::Pod(pod) => {
            let want = "a command or an image: pods are not in this build";
            Err(Error::Spec { field: "pod", got: pod.image.clone(), want })
        }
    }
}
