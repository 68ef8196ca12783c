//! One door to all that can run a workload: this machine's own room for commands and containers, the cluster's for pods.

use metier_measure::spec::Target;
use metier_measure::{Error, Finished, Observer, Recorder, Session, Spec};

/// Runs and measures, with these looking on. A cluster that cannot be asked is why a run never started.
pub fn start(
    session: &mut Session,
    spec: &Spec,
    recorder: &mut dyn Recorder,
    observers: &mut [&mut dyn Observer],
) -> Result<Finished, Error> {
    match &spec.target {
        Target::Command(_) | Target::Container(_) => session.run_with(spec, recorder, observers),
        Target::Pod(_) => {
            metier_cluster::run_with(session, spec, recorder, observers).or_else(|error| match error {
                metier_cluster::Error::Measure(error) => Err(error),
                metier_cluster::Error::Spec { field, got, want } => Err(Error::Spec { field, got, want }),
                other => crate::unstarted(session, spec, &other.to_string(), recorder),
            })
        }
    }
}
