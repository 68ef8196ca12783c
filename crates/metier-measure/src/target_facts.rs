//! Facts about a run from the component that starts it, for the record.

use std::collections::BTreeMap;

use metier_types::{AccountingMethod, ImageUse, MissingReason, PodRef};

/// Facts about a run before its start, beyond its specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetFacts {
    /// Accounting method; by default derived from its control group.
    pub method: Option<AccountingMethod>,
    /// Effective program and arguments; by default those of the specification.
    pub command: Option<Vec<String>>,
    /// Working directory; by default this process's.
    pub working_directory: Option<String>,
    pub image: Option<ImageUse>,
    pub pod: Option<PodRef>,
    /// Effective limits, by name.
    pub limits: BTreeMap<String, String>,
    /// Why figures are inexact despite a control group: which part is not the run's own.
    pub inexact: Option<MissingReason>,
    /// Why the control group may vanish before its last counters are read, although a better one
    /// was attempted.
    pub fleeting: Option<MissingReason>,
}
