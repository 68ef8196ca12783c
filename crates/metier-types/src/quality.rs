//! Accuracy class of recorded values.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a value was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ValueQuality {
    /// A counter or high-water mark of the kernel or the meter, read at the end.
    Exact,
    /// Maximum or sum over periodic samples; values between samples are unknown.
    Sampled,
    /// Derived from a related quantity; the method may miss a part.
    Estimated,
}

/// Accuracy class by dotted path of the field, such as `summary.cpu_seconds`.
pub type QualityFields = BTreeMap<String, ValueQuality>;
