//! One run as a pod, from the first question to the cluster to the last removed object.

use metier_measure::spec::Target;
use metier_measure::{Finished, Recorder, Session, Spec};

use crate::Error;

/// Runs a pod and measures it.
pub fn run(_session: &mut Session, spec: &Spec, _recorder: &mut dyn Recorder) -> Result<Finished, Error> {
    spec.check()?;
    let got = spec.target.words().join(" ");
    match &spec.target {
        Target::Pod(_) => {
            Err(Error::Spec { field: "pod", got, want: "a command: pods cannot be measured yet" })
        }
        _ => Err(Error::Spec { field: "target", got, want: "a pod" }),
    }
}
