//! How far a recorded value can be trusted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// A counter or high-water mark that the kernel or the meter keeps; read at the end.
    Exact,
    /// The largest or the sum of what periodic samples saw; true values between samples are not known.
    Sampled,
    /// Derived from something that is close to, but not, the value; the method may miss a part.
    Estimated,
}

/// Quality by dotted path of the field, such as `summary.cpu_seconds`.
pub type QualityFields = BTreeMap<String, Quality>;
