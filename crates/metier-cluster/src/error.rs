//! Errors between metier and a cluster before a run begins. Later failures are in the record of the
//! run.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster's address or credentials are missing or invalid.
    #[error("no cluster: {reason}; name a kubeconfig file, set KUBECONFIG, or run inside a pod")]
    Cluster { reason: String },
    /// The API server does not answer, or returns an error.
    #[error("{doing}: {reason}")]
    Api {
        /// The operation that failed.
        doing: String,
        reason: String,
    },
    /// A Deployment that metier did not make would be replaced.
    #[error(
        "Deployment {name} in namespace {namespace} was not made by metier, so nothing was written; choose another name, or replace it with --replace (over HTTP: \"replace\": true in `deployment`)"
    )]
    ForeignDeployment { name: String, namespace: String },
    /// The account lacks a required right.
    #[error(
        "this account may not {verb} {resource} in namespace {namespace}; deploy/kubernetes/rbac.yaml has the rights that are needed"
    )]
    Forbidden {
        verb: &'static str,
        /// The kind of object.
        resource: &'static str,
        namespace: String,
    },
    /// A field of the specification is invalid for a pod.
    #[error("{field} is {got}; want {want}")]
    Spec {
        field: &'static str,
        got: String,
        /// The expected value.
        want: &'static str,
    },
    /// A file of metier cannot be created.
    #[error("cannot make {path}: {reason}")]
    File {
        path: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    #[error(transparent)]
    Measure(#[from] metier_measure::Error),
}

impl Error {
    /// A failed call, with the operation.
    pub(crate) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Api { doing, reason: api_message(&error) }
    }

    /// The exit code of `metier run` for this error: metier's own failure.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Measure(error) => error.exit_code(),
            _ => 125,
        }
    }
}

/// The API server's message. The status message alone is used, since the wrapping error repeats it.
pub(crate) fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => error_chain(other),
    }
}

/// An error with its causes, without repetition.
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
