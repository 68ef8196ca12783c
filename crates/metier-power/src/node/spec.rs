//! The five attributes of a machine, and the similarity of two machines.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A compared attribute of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineAttribute {
    /// The processor, as `intel_xeon_e5_2686v4`.
    Processor,
    Cores,
    Chips,
    Memory,
    /// Highest frequency in MHz.
    Frequency,
}

impl MachineAttribute {
    /// All attributes in their order.
    pub const ALL: [Self; 5] = [Self::Processor, Self::Cores, Self::Chips, Self::Memory, Self::Frequency];

    const fn weight(self) -> f64 {
        match self {
            Self::Processor => 5.0,
            Self::Cores | Self::Chips => 1.0,
            Self::Memory | Self::Frequency => 0.5,
        }
    }
}

const TOTAL_ATTRIBUTE_WEIGHT: f64 = 8.0;

/// A machine's specification. Unknown, empty and non-positive values are `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachineSpec {
    /// The processor, as `intel_xeon_e5_2686v4`.
    pub processor: Option<String>,
    pub cores: Option<f64>,
    pub chips: Option<f64>,
    pub memory: Option<f64>,
    /// Highest frequency in MHz.
    pub frequency: Option<f64>,
}

impl MachineSpec {
    /// Whether no attribute is known.
    pub fn is_empty(&self) -> bool {
        MachineAttribute::ALL.iter().all(|attribute| !self.has(*attribute))
    }

    /// Whether the attribute is known.
    pub fn has(&self, attribute: MachineAttribute) -> bool {
        match attribute {
            MachineAttribute::Processor => self.processor.is_some(),
            other => self.number(other).is_some(),
        }
    }

    /// A numeric attribute.
    pub fn number(&self, attribute: MachineAttribute) -> Option<f64> {
        match attribute {
            MachineAttribute::Processor => None,
            MachineAttribute::Cores => self.cores,
            MachineAttribute::Chips => self.chips,
            MachineAttribute::Memory => self.memory,
            MachineAttribute::Frequency => self.frequency,
        }
    }

    /// A copy without the attribute.
    pub fn without(mut self, attribute: MachineAttribute) -> Self {
        match attribute {
            MachineAttribute::Processor => self.processor = None,
            MachineAttribute::Cores => self.cores = None,
            MachineAttribute::Chips => self.chips = None,
            MachineAttribute::Memory => self.memory = None,
            MachineAttribute::Frequency => self.frequency = None,
        }
        self
    }

    /// Whether both machines have the attribute with the same value.
    pub fn agrees(&self, other: &Self, attribute: MachineAttribute) -> bool {
        match attribute {
            MachineAttribute::Processor => self.processor.is_some() && self.processor == other.processor,
            number => self.number(number).is_some() && self.number(number) == other.number(number),
        }
    }

    /// Whether all known attributes of `other` are equal here.
    pub fn covers(&self, other: &Self) -> bool {
        MachineAttribute::ALL.iter().all(|attribute| !other.has(*attribute) || self.agrees(other, *attribute))
    }

    /// Similarity of two machines, 0 to 1; the processor name has a weight of five eighths.
    pub fn similarity(&self, other: &Self) -> f64 {
        let mut sum = 0.0;
        for attribute in MachineAttribute::ALL {
            let alike = match (attribute, self.number(attribute), other.number(attribute)) {
                (MachineAttribute::Processor, ..) => {
                    processors(self.processor.as_deref(), other.processor.as_deref())
                }
                (_, Some(value), Some(two)) => numbers(value, two),
                _ => 0.0,
            };
            sum += alike * attribute.weight();
        }
        (sum / TOTAL_ATTRIBUTE_WEIGHT).min(1.0)
    }
}

/// Half of the Jaccard similarity of the letter sets; 1 for equal names.
fn processors(name_text: Option<&str>, two: Option<&str>) -> f64 {
    let (Some(text), Some(two)) = (name_text, two) else { return 0.0 };
    if text.eq_ignore_ascii_case(two) {
        return 1.0;
    }
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.to_lowercase().chars().collect();
        letters.sort_unstable();
        letters.dedup();
        letters
    };
    let (left, right) = (letters(text), letters(two));
    let common = left.iter().filter(|letter| right.contains(letter)).count();
    let all = left.len() + right.len() - common;
    if all == 0 { 0.0 } else { 0.5 * common as f64 / all as f64 }
}

fn numbers(value: f64, two: f64) -> f64 {
    let mean = (value + two) / 2.0;
    if mean == 0.0 { 1.0 } else { (1.0 - (value - two).abs() / mean).max(0.0) }
}

impl<'de> Deserialize<'de> for MachineSpec {
    /// Numbers may be strings; other keys (`vendor`, `threads_per_core`) are ignored.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Map::<String, Value>::deserialize(from)?;
        let number = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_f64()),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => text.trim().parse().map(Some).map_err(|_| {
                serde::de::Error::custom(format!(
                    "{name} is {:?}; want a number",
                    crate::kepler_terms::shorten(text)
                ))
            }),
            Some(_) => Err(serde::de::Error::custom(format!("{name} is no number"))),
        };
        let usable = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
        let processor = match object.get("processor") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => return Err(serde::de::Error::custom("processor is no text")),
        };
        Ok(Self {
            processor,
            cores: usable(number("cores")?),
            chips: usable(number("chips")?),
            memory: usable(number("memory")?),
            frequency: usable(number("frequency")?),
        })
    }
}

impl Serialize for MachineSpec {
    /// Writes all five keys; whole numbers have no decimal point, as the exporter requires.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let number = |value: Option<f64>| match value {
            Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => Value::from(value as i64),
            Some(value) => Value::from(value),
            None => Value::Null,
        };
        let mut object = Map::new();
        object.insert("processor".into(), self.processor.clone().map_or(Value::Null, Value::String));
        object.insert("cores".into(), number(self.cores));
        object.insert("chips".into(), number(self.chips));
        object.insert("memory".into(), number(self.memory));
        object.insert("frequency".into(), number(self.frequency));
        object.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> MachineSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn letters_in_common_count_half() {
        assert_eq!(processors(Some("abcd"), Some("abcdefgh")), 0.25);
        assert_eq!(processors(Some("AbCd"), Some("aBcD")), 1.0);
        assert_eq!(processors(None, Some("a")), 0.0);
    }

    #[test]
    fn what_is_not_usable_is_not_known() {
        let spec =
            spec(r#"{"processor":"","cores":0,"chips":-1,"memory":null,"frequency":"2400","vendor":"x"}"#);
        assert_eq!(spec, MachineSpec { frequency: Some(2400.0), ..MachineSpec::default() });
        assert!(serde_json::from_str::<MachineSpec>(r#"{"cores":"many"}"#).is_err());
        assert!(serde_json::from_str::<MachineSpec>(r#"{"cores":[1]}"#).is_err());
    }

    #[test]
    fn whole_numbers_have_no_point() {
        let written = serde_json::to_string(&spec(r#"{"processor":"x","cores":4.0,"memory":1.5}"#)).unwrap();
        assert_eq!(written, r#"{"processor":"x","cores":4,"chips":null,"memory":1.5,"frequency":null}"#);
    }

    #[test]
    fn an_empty_machine_is_covered_by_all() {
        assert!(spec(r#"{"cores":4}"#).covers(&MachineSpec::default()));
        assert!(!spec(r#"{"cores":4}"#).covers(&spec(r#"{"cores":8}"#)));
        assert!(!MachineSpec::default().covers(&spec(r#"{"cores":8}"#)));
    }
}
