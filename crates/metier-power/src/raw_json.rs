//! JSON text stored without building a tree. It costs its own length in memory and is parsed only
//! on request.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// JSON text without blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(pub Box<str>);

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut text = String::new();
        RawJsonSeed(&mut text).deserialize(from)?;
        Ok(Self(text.into_boxed_str()))
    }
}

struct RawJsonSeed<'a>(&'a mut String);

impl RawJsonSeed<'_> {
    fn put(self, value: impl serde::Serialize) {
        // Serialising numbers, strings and null cannot fail.
        self.0.push_str(&serde_json::to_string(&value).unwrap_or_default());
    }
}

impl<'de> DeserializeSeed<'de> for RawJsonSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RawJsonSeed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.put(value);
        Ok(())
    }
    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }
    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }
    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }
    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.put(value);
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push_str("null");
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push('[');
        let empty = self.0.len();
        while seq.next_element_seed(RawJsonSeed(self.0))?.is_some() {
            self.0.push(',');
        }
        if self.0.len() > empty {
            self.0.pop();
        }
        self.0.push(']');
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push('{');
        let empty = self.0.len();
        while map.next_key_seed(RawJsonSeed(self.0))?.is_some() {
            self.0.push(':');
            map.next_value_seed(RawJsonSeed(self.0))?;
            self.0.push(',');
        }
        if self.0.len() > empty {
            self.0.pop();
        }
        self.0.push('}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_is_taken_over_is_what_was_there() {
        for text in [
            "null",
            "[]",
            "{}",
            "[[],{}]",
            r#"{"a":[1,-2,2.5,1e-7,true,null,"x\"\n"],"b":{"c":18446744073709551615}}"#,
        ] {
            let RawJson(taken) = serde_json::from_str(text).unwrap();
            let (value, two): (Value, Value) =
                (serde_json::from_str(text).unwrap(), serde_json::from_str(&taken).unwrap());
            assert_eq!(value, two, "{text}: {taken}");
            assert_eq!(*taken, *two.to_string());
        }
        assert!(serde_json::from_str::<RawJson>("[1,").is_err());
    }
}
