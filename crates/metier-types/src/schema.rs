//! The `schema` field of top-level JSON objects, and the JSON Schemas generated from the types.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The name and major version of a record's JSON form, for example `metier.run/1`.
///
/// `NAME` fixes the record, so a device file cannot be read as a run by accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordSchema<T>(std::marker::PhantomData<fn() -> T>);

/// A record that can be a top-level JSON object.
pub trait VersionedRecord {
    /// Value of its `schema` field.
    const SCHEMA: &'static str;
}

impl<T> RecordSchema<T> {
    /// The only value of this type.
    pub const fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<T: VersionedRecord> fmt::Display for RecordSchema<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::SCHEMA)
    }
}

impl<T: VersionedRecord> Serialize for RecordSchema<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(T::SCHEMA)
    }
}

impl<'de, T: VersionedRecord> Deserialize<'de> for RecordSchema<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let got = String::deserialize(deserializer)?;
        if got == T::SCHEMA {
            Ok(Self::new())
        } else {
            Err(de::Error::custom(format!("schema is {got:?}, want {:?}", T::SCHEMA)))
        }
    }
}

impl<T: VersionedRecord> schemars::JsonSchema for RecordSchema<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Schema".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": T::SCHEMA })
    }
}

/// JSON Schemas of all top-level records, by `schema` value.
pub fn record_schemas() -> Vec<(&'static str, schemars::Schema)> {
    fn schema_of<T: VersionedRecord + schemars::JsonSchema>() -> (&'static str, schemars::Schema) {
        (T::SCHEMA, schemars::schema_for!(T))
    }
    vec![
        schema_of::<crate::Run>(),
        schema_of::<crate::Device>(),
        schema_of::<crate::Workload>(),
        schema_of::<crate::Series>(),
        schema_of::<crate::ProcessTree>(),
        schema_of::<crate::Prediction>(),
        schema_of::<crate::Passport>(),
        schema_of::<crate::Predictor>(),
        schema_of::<crate::SessionRecord>(),
    ]
}
