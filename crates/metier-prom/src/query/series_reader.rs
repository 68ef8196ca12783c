//! Reads series in JSON, as in Prometheus' responses and in files of them: `{"metric": {"name":
//! "value", …}, "values": [[seconds, "value"], …]}`.
//!
//! The input is read as a stream, with two parameters: a [`LabelFilter`] selects labels, a
//! [`JsonSample`] converts pairs of time and value. Lists of series by name are read within
//! [`SeriesLimits`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::response::MetricLabels;

/// Selects labels of series.
pub trait LabelFilter {
    fn keeps(name: &str) -> bool;
}

/// Keeps all labels.
#[derive(Debug)]
pub enum AllLabels {}

impl LabelFilter for AllLabels {
    fn keeps(_: &str) -> bool {
        true
    }
}

/// A sample, made of a pair of numbers or of texts that are numbers.
pub trait JsonSample: Sized {
    /// Parses a number from a text.
    fn parse_number<E: de::Error>(text: &str) -> Result<f64, E>;

    /// Converts a time in seconds and a value to a sample; `None` skips it.
    fn from_numbers<E: de::Error>(time: f64, value: f64) -> Result<Option<Self>, E>;
}

/// A number, parsed by a kind of sample.
struct SampleNumber<P>(f64, PhantomData<P>);

impl<'de, P: JsonSample> Deserialize<'de> for SampleNumber<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NumberVisitor<P>(PhantomData<P>);
        impl<P: JsonSample> Visitor<'_> for NumberVisitor<P> {
            type Value = f64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or one written as text")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
                P::parse_number(text)
            }
            fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
                Ok(number as f64)
            }
            fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
                Ok(number as f64)
            }
            fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
                Ok(number)
            }
        }
        from.deserialize_any(NumberVisitor::<P>(PhantomData)).map(|number| Self(number, PhantomData))
    }
}

/// Reads `[seconds, "value"]`.
pub(super) fn read_sample<'de, P: JsonSample, D: Deserializer<'de>>(from: D) -> Result<Option<P>, D::Error> {
    let (SampleNumber::<P>(time, _), SampleNumber::<P>(value, _)) = Deserialize::deserialize(from)?;
    P::from_numbers(time, value)
}

/// The name or value of a label; a value may also be a number or `null`.
struct LabelText<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for LabelText<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of a label")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(text.to_string().into())
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(number.to_string().into())
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(number.to_string().into())
            }
            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(number.to_string().into())
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Cow::default())
            }
        }
        from.deserialize_any(TextVisitor).map(Self)
    }
}

/// The selected labels of a series.
pub(super) struct LabelColumns<F> {
    pub metric: MetricLabels,
    filter: PhantomData<F>,
}

impl<'de, F: LabelFilter> Deserialize<'de> for LabelColumns<F> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct LabelVisitor<F>(PhantomData<F>);
        impl<'de, F: LabelFilter> Visitor<'de> for LabelVisitor<F> {
            type Value = LabelColumns<F>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of labels")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels: Vec<(Box<str>, Box<str>)> = Vec::new();
                while let Some(LabelText(name)) = map.next_key()? {
                    if F::keeps(&name) {
                        let LabelText(value) = map.next_value()?;
                        labels.push((name.into(), value.into()));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(LabelColumns { metric: labels.into_iter().collect(), filter: PhantomData })
            }
        }
        from.deserialize_map(LabelVisitor(PhantomData))
    }
}

/// The samples of a series.
pub(super) struct SampleColumn<P>(pub Vec<P>);

impl<'de, P: JsonSample> Deserialize<'de> for SampleColumn<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct SampleVisitor<P>(PhantomData<P>);
        impl<'de, P: JsonSample> Visitor<'de> for SampleVisitor<P> {
            type Value = SampleColumn<P>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("pairs of a time and a value")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut samples = Vec::new();
                while let Some((SampleNumber::<P>(time, _), SampleNumber::<P>(value, _))) =
                    seq.next_element()?
                {
                    samples.extend(P::from_numbers(time, value)?);
                }
                Ok(SampleColumn(samples))
            }
        }
        from.deserialize_seq(SampleVisitor(PhantomData))
    }
}

/// A series in the wire format.
#[derive(Deserialize)]
#[serde(bound(deserialize = "F: LabelFilter, P: JsonSample"))]
pub(super) struct WireSeries<F, P> {
    pub metric: LabelColumns<F>,
    pub values: Option<SampleColumn<P>>,
    pub histograms: Option<IgnoredAny>,
}

/// Maximum number of series and samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesLimits {
    pub series: usize,
    pub samples: usize,
}

/// Reads an object of lists of series by name; `make` converts the labels and samples of each
/// series.
pub fn read_series_by_name<'de, F: LabelFilter, P: JsonSample, T, D: Deserializer<'de>>(
    from: D,
    limits: SeriesLimits,
    make: impl FnMut(MetricLabels, Vec<P>) -> T,
) -> Result<BTreeMap<String, Vec<T>>, D::Error> {
    let reader = SeriesReader { limits, series: 0, samples: 0, make, parameters: PhantomData::<(F, P)> };
    from.deserialize_map(NamedLists(reader))
}

struct SeriesReader<M, Q> {
    limits: SeriesLimits,
    series: usize,
    samples: usize,
    make: M,
    parameters: PhantomData<Q>,
}

/// Visits the object of lists.
struct NamedLists<R>(R);

impl<'de, F: LabelFilter, P: JsonSample, T, M> Visitor<'de> for NamedLists<SeriesReader<M, (F, P)>>
where
    M: FnMut(MetricLabels, Vec<P>) -> T,
{
    type Value = BTreeMap<String, Vec<T>>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lists of series by name")
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut lists = BTreeMap::new();
        while let Some(name) = map.next_key()? {
            lists.insert(name, map.next_value_seed(&mut self.0)?);
        }
        Ok(lists)
    }
}

impl<'de, F: LabelFilter, P: JsonSample, T, M> DeserializeSeed<'de> for &mut SeriesReader<M, (F, P)>
where
    M: FnMut(MetricLabels, Vec<P>) -> T,
{
    type Value = Vec<T>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<T>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, F: LabelFilter, P: JsonSample, T, M> Visitor<'de> for &mut SeriesReader<M, (F, P)>
where
    M: FnMut(MetricLabels, Vec<P>) -> T,
{
    type Value = Vec<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(WireSeries::<F, P> { metric, values, .. }) = seq.next_element()? {
            let SampleColumn(samples) = values.ok_or_else(|| de::Error::missing_field("values"))?;
            self.series += 1;
            self.samples += samples.len();
            let SeriesLimits { series, samples: most } = self.limits;
            if self.series > series || self.samples > most {
                return Err(de::Error::custom(format!("more than {series} series or {most} samples")));
            }
            list.push((self.make)(metric.metric, samples));
        }
        Ok(list)
    }
}
