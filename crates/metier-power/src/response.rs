//! What Prometheus answered to range queries, as the trainers are given it: metric name → list of series with labels and samples.
//!
//! Bounded: [`SERIES`] series, [`SAMPLES`] samples. A sample that is no number is left out.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::Error;

pub const SERIES: usize = 1_000_000;
pub const SAMPLES: usize = 50_000_000;

/// Labels that anything here looks at; others are not kept.
const LABELS: [&str; 11] = [
    "container_id",
    "pod_name",
    "container_name",
    "container_namespace",
    "job",
    "pid",
    "source",
    "mode",
    "package",
    "pkg_id",
    "type",
];

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Its labels, of those that matter.
    pub labels: Vec<(String, String)>,
    /// Time in seconds and value, in the order of time.
    pub samples: Vec<(f64, f64)>,
}

impl Series {
    /// A series as Prometheus gives it; labels and samples that nothing here looks at are left out.
    pub fn of(series: &metier_prom::query::Series) -> Self {
        let labels = series.metric.labels().filter(|(name, _)| LABELS.contains(name));
        let samples = series
            .points
            .iter()
            .filter_map(|point| Some((point.at.as_millisecond() as f64 / 1e3, point.finite()?)));
        Self {
            labels: labels.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            samples: samples.collect(),
        }
    }

    /// A label, or an empty text.
    pub fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Series by the name of their metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Response(pub BTreeMap<String, Vec<Series>>);

impl Response {
    /// Reads the JSON text.
    pub fn read(text: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(text).map_err(|error| Error::table(format!("query response: {error}")))
    }

    /// The series of a metric.
    pub fn metric(&self, name: &str) -> &[Series] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a metric is there with more than one sample.
    pub fn has(&self, name: &str) -> bool {
        self.metric(name).iter().map(|series| series.samples.len()).sum::<usize>() > 1
    }
}

/// A label or value: text, or anything that is left out.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Some(text.to_string())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(Some(number.to_string())))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(Some(number.to_string())))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
                Ok(Text(Some(number.to_string())))
            }
            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text(None))
            }
        }
        from.deserialize_any(Of)
    }
}

/// A sample's value: a number written as text, or a number.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or one written as text")
            }
            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.trim().parse().unwrap_or(f64::NAN)))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
        }
        from.deserialize_any(Of)
    }
}

struct Labels(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Vec::new();
                while let Some(name) = map.next_key_seed(LabelName)? {
                    match name {
                        Some(name) => {
                            let Text(value) = map.next_value()?;
                            labels.push((name.to_string(), value.unwrap_or_default()));
                        }
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Labels(labels))
            }
        }
        from.deserialize_map(Of)
    }
}

/// One of our labels, without a copy of those that are not.
struct LabelName;

impl Visitor<'_> for LabelName {
    type Value = Option<&'static str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a label's name")
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(LABELS.into_iter().find(|known| *known == text))
    }
}

impl<'de> DeserializeSeed<'de> for LabelName {
    type Value = Option<&'static str>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

#[derive(Deserialize)]
struct Raw {
    metric: Labels,
    values: Vec<(Number, Number)>,
}

struct Counted<'a> {
    series: &'a mut usize,
    samples: &'a mut usize,
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Vec<Series>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(raw) = seq.next_element::<Raw>()? {
            *self.series += 1;
            *self.samples += raw.values.len();
            if *self.series > SERIES || *self.samples > SAMPLES {
                return Err(serde::de::Error::custom(format!(
                    "more than {SERIES} series or {SAMPLES} samples"
                )));
            }
            let samples = raw.values.into_iter().map(|(time, value)| (time.0, value.0));
            let is_number = |(time, value): &(f64, f64)| time.is_finite() && value.is_finite();
            let mut samples: Vec<(f64, f64)> = samples.filter(is_number).collect();
            samples.sort_by(|one, two| one.0.total_cmp(&two.0));
            list.push(Series { labels: raw.metric.0, samples });
        }
        Ok(list)
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Vec<Series>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Response;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metrics by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Response, A::Error> {
                let (mut series, mut samples, mut metrics) = (0, 0, BTreeMap::new());
                while let Some(name) = map.next_key::<String>()? {
                    let list = map.next_value_seed(Counted { series: &mut series, samples: &mut samples })?;
                    metrics.insert(name, list);
                }
                Ok(Response(metrics))
            }
        }
        from.deserialize_map(Of)
    }
}

impl Serialize for Series {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let labels: BTreeMap<&str, &str> =
            self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let samples: Vec<(f64, String)> =
            self.samples.iter().map(|(time, value)| (*time, value.to_string())).collect();
        let mut series = to.serialize_struct("Series", 2)?;
        series.serialize_field("metric", &labels)?;
        series.serialize_field("values", &samples)?;
        series.end()
    }
}

impl Serialize for Response {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_as_text_or_as_numbers() {
        let text =
            br#"{"m":[{"metric":{"job":"vm","other":{"x":1}},"values":[[3,"2.5"],[1.5,"NaN"],[2,7]]}]}"#;
        let response = Response::read(text).unwrap();
        let series = &response.metric("m")[0];
        assert_eq!(series.samples, [(2.0, 7.0), (3.0, 2.5)]);
        assert_eq!((series.label("job"), series.label("other")), ("vm", ""));
        let again = Response::read(&serde_json::to_vec(&response).unwrap()).unwrap();
        assert_eq!(again, response);
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for text in
            ["[]", "{\"m\":1}", "{\"m\":[{\"metric\":{}}]}", "{\"m\":[{\"metric\":{},\"values\":[[1]]}]}", ""]
        {
            assert!(Response::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
