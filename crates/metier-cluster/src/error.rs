//! What can go wrong between us and a cluster, before a run has begun. What goes wrong later is in the run's record.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not known where the cluster is, or how to speak to it.
    #[error("no cluster: {reason}; name a kubeconfig file, set KUBECONFIG, or run inside of a pod")]
    Cluster { reason: String },
    /// The API server does not answer, or not with what was asked for.
    #[error("{doing}: {reason}")]
    Api {
        /// What was being done.
        doing: String,
        reason: String,
    },
    /// The account may not do what is needed.
    #[error(
        "this account may not {verb} {resource} in namespace {namespace}; deploy/kubernetes/rbac.yaml has the rights that are needed"
    )]
    Forbidden {
        verb: &'static str,
        /// The kind of object.
        resource: &'static str,
        namespace: String,
    },
    /// A field of what was asked for makes no sense for a pod.
    #[error("{field} is {got}; want {want}")]
    Spec {
        field: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// A file of ours cannot be made.
    #[error("cannot make {path}: {reason}")]
    File {
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    #[error(transparent)]
    Measure(#[from] metier_measure::Error),
}

impl Error {
    /// A failed call, with what was being done.
    pub(crate) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Api { doing, reason: api_message(&error) }
    }

    /// The exit code of `metier run` for it: our own failure.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Measure(error) => error.exit_code(),
            _ => 125,
        }
    }
}

/// What the API server said. Its status says it in a sentence; the wrapping says it twice.
pub(crate) fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => error_chain(other),
    }
}

/// An error with its causes, each once.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}
