//! Identifiers. Run, batch and session ids are UUIDv7, so they sort by time. A workload id is its
//! given name or a digest of its definition. A device id is derived from the machine and is stable
//! over restarts.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Error of parsing an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Not a UUID.
    #[error("{got:?} is not a {kind} id; want a UUID such as 0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f")]
    NotUuid {
        /// The expected kind of id.
        kind: &'static str,
        /// The given text.
        got: String,
    },
    /// Not a SHA-256 digest.
    #[error("{got:?} is not a digest; want \"sha256:\" and 64 hexadecimal digits")]
    NotDigest {
        /// The given text.
        got: String,
    },
    /// Empty, too long, or with characters that break lists and paths.
    #[error("{got:?} is not a usable name; want 1 to 200 printable characters without '/' at either end")]
    NotName {
        /// The given text.
        got: String,
    },
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(#[schemars(with = "String", regex(pattern = r"^[0-9a-f-]{36}$"))] Uuid);

        impl $name {
            /// A new identifier; it sorts after all earlier ones of this machine.
            #[allow(clippy::new_without_default, reason = "an identifier has no default")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The 16 bytes, for stores.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Short form for users: the last 8 digits, which differ even between runs of one
            /// second.
            pub fn short(&self) -> String {
                let text = self.0.simple().to_string();
                text[24..].to_string()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0.hyphenated().to_string())
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::parse_str(text)
                    .map(Self)
                    .map_err(|_| IdError::NotUuid { kind: $kind, got: text.chars().take(80).collect() })
            }
        }
    };
}

uuid_id!(
    /// Id of a run.
    RunId,
    "run"
);
uuid_id!(
    /// Id of a batch: the repetitions of one command.
    BatchId,
    "batch"
);
uuid_id!(
    /// Id of a session: a submitted run file.
    SessionId,
    "session"
);

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                check_name(&text)?;
                Ok(Self(text))
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                check_name(text)?;
                Ok(Self(text.to_string()))
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

name_id!(
    /// Id of a workload: its given name, else a digest of kind, executable and arguments.
    WorkloadId
);
name_id!(
    /// Id of a device: stable over restarts, unique among machines.
    DeviceId
);

fn check_name(text: &str) -> Result<(), IdError> {
    let usable = (1..=200).contains(&text.chars().count())
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && !text.starts_with('/')
        && !text.ends_with('/');
    if usable { Ok(()) } else { Err(IdError::NotName { got: text.chars().take(80).collect() }) }
}

/// A SHA-256 digest, written `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest(#[schemars(with = "String", regex(pattern = r"^sha256:[0-9a-f]{64}$"))] [u8; 32]);

impl ContentDigest {
    /// Makes a digest from the 32 bytes of a hash.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 hexadecimal digits, for display.
    pub fn short(&self) -> String {
        self.0[..6].iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl From<ContentDigest> for WorkloadId {
    /// The text of a digest is always a valid name.
    fn from(digest: ContentDigest) -> WorkloadId {
        WorkloadId(digest.to_string())
    }
}

impl From<ContentDigest> for String {
    fn from(digest: ContentDigest) -> String {
        digest.to_string()
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl FromStr for ContentDigest {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::NotDigest { got: text.chars().take(80).collect() };
        let hex = text.strip_prefix("sha256:").ok_or_else(wrong)?.as_bytes();
        if hex.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |c: u8| match c {
                b'0'..=b'9' => Some(c - b'0'),
                b'a'..=b'f' => Some(c - b'a' + 10),
                _ => None,
            };
            *byte = digit(pair[0]).zip(digit(pair[1])).map(|(h, l)| h << 4 | l).ok_or_else(wrong)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_sort_by_the_time_they_were_made() {
        let ids: Vec<RunId> = (0..1000).map(|_| RunId::new()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_digest_reads_back_what_it_writes() {
        let digest = ContentDigest::from_bytes(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(digest.to_string().parse::<ContentDigest>().unwrap(), digest);
    }

    #[test]
    fn wrong_identifiers_say_what_would_be_right() {
        let error = "banana".parse::<RunId>().unwrap_err().to_string();
        assert!(error.contains("banana") && error.contains("UUID"), "{error}");
        for bad in ["sha256:", "sha256:zz", "md5:00", &"sha256:".repeat(9)] {
            assert!(bad.parse::<ContentDigest>().is_err(), "{bad}");
        }
        for bad in ["", " x", "a\nb", "/x"] {
            assert!(bad.parse::<WorkloadId>().is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<WorkloadId>("\"\"").is_err());
    }
}
