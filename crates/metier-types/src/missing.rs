//! Values that a host could not measure, with reason and fix.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const FIX_SEPARATOR: &str = "; fix: ";

/// Why a field is absent, and how to make it measurable.
///
/// In JSON this is one sentence, `reason` or `reason; fix: …`, so that readers need no second
/// schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct MissingReason {
    /// Why the value is absent.
    pub reason: String,
    /// The step that would make the value measurable, if there is one.
    pub fix: Option<String>,
}

/// Absent fields by dotted path in the record, such as `summary.energy_joules`.
pub type MissingFields = BTreeMap<String, MissingReason>;

impl MissingReason {
    /// A reason without a fix.
    pub fn without_fix(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: None }
    }

    /// A reason with a fix.
    pub fn with_fix(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: Some(fix.into()) }
    }
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.fix.iter().try_for_each(|fix| write!(f, "{FIX_SEPARATOR}{fix}"))
    }
}

impl From<MissingReason> for String {
    fn from(missing: MissingReason) -> String {
        missing.to_string()
    }
}

impl From<String> for MissingReason {
    fn from(text: String) -> Self {
        match text.split_once(FIX_SEPARATOR) {
            Some((reason, fix)) => Self::with_fix(reason, fix),
            None => Self::without_fix(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_and_its_fix_are_one_sentence_that_reads_back() {
        for missing in
            [MissingReason::without_fix("no sensor"), MissingReason::with_fix("no right", "run as root")]
        {
            let json = serde_json::to_string(&missing).unwrap();
            assert_eq!(serde_json::from_str::<MissingReason>(&json).unwrap(), missing);
        }
    }
}
