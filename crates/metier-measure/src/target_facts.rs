//! What the part that starts a run knows about it, for the record.

use std::collections::BTreeMap;

use metier_types::{AccountingMethod, ImageUse, MissingReason, PodRef};

/// What is known of a run's surroundings before it starts, beyond its specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetFacts {
    /// How its use is accounted; else by what its group is.
    pub method: Option<AccountingMethod>,
    /// Program and arguments as they really are; else those of the specification.
    pub command: Option<Vec<String>>,
    /// Where it starts; else where we are.
    pub working_directory: Option<String>,
    pub image: Option<ImageUse>,
    pub pod: Option<PodRef>,
    /// Limits that apply, by name.
    pub limits: BTreeMap<String, String>,
    /// Why figures are less than exact although there is a group: what of them is not the run's own.
    pub inexact: Option<MissingReason>,
    /// Why the group is one that may vanish before its last counters have been read, where a better one was tried for.
    pub fleeting: Option<MissingReason>,
}
