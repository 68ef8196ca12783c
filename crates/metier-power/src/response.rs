//! A Prometheus response to range queries, in the trainers' input format: metric name → list of
//! series with labels and samples.
//!
//! Limits: [`MAX_SERIES`] series, [`MAX_SAMPLES`] samples. Samples that are not numbers are left
//! out.

use std::collections::BTreeMap;

use metier_prom::query::{JsonSample, LabelFilter, MetricLabels, SeriesLimits, read_series_by_name};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Error;

pub const MAX_SERIES: usize = 1_000_000;
pub const MAX_SAMPLES: usize = 50_000_000;

/// Labels used by this crate; others are dropped.
const KEPT_LABELS: [&str; 11] = [
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
pub struct KeplerSeries {
    /// The labels in [`KEPT_LABELS`].
    pub labels: MetricLabels,
    /// Time in seconds and value, in the order of time.
    pub samples: Vec<(f64, f64)>,
}

impl KeplerSeries {
    /// Converts a Prometheus series; unused labels and non-numeric samples are dropped.
    pub fn from_query_series(series: &metier_prom::query::RangeSeries) -> Self {
        let labels = series.metric.labels().filter(|(name, _)| KEPT_LABELS.contains(name));
        let samples = series
            .points
            .iter()
            .filter_map(|point| Some((point.at.as_millisecond() as f64 / 1e3, point.finite_value()?)));
        Self { labels: labels.collect(), samples: samples.collect() }
    }

    /// A label, or an empty text.
    pub fn label(&self, name: &str) -> &str {
        self.labels.label(name).unwrap_or_default()
    }
}

/// Series by the name of their metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeplerResponse(pub BTreeMap<String, Vec<KeplerSeries>>);

impl KeplerResponse {
    /// Reads the JSON text.
    pub fn read(text: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(text).map_err(|error| Error::table(format!("query response: {error}")))
    }

    /// The series of a metric.
    pub fn metric(&self, name: &str) -> &[KeplerSeries] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a metric has a series with more than one sample.
    pub fn has(&self, name: &str) -> bool {
        self.metric(name).iter().map(|series| series.samples.len()).sum::<usize>() > 1
    }
}

/// Keeps [`KEPT_LABELS`].
struct KeplerLabels;

impl LabelFilter for KeplerLabels {
    fn keeps(name: &str) -> bool {
        KEPT_LABELS.contains(&name)
    }
}

/// Time and value; non-numeric values are dropped.
struct FiniteSample(f64, f64);

impl JsonSample for FiniteSample {
    fn parse_number<E: de::Error>(text: &str) -> Result<f64, E> {
        Ok(text.trim().parse().unwrap_or(f64::NAN))
    }

    fn from_numbers<E: de::Error>(time: f64, value: f64) -> Result<Option<Self>, E> {
        Ok((time.is_finite() && value.is_finite()).then_some(Self(time, value)))
    }
}

impl<'de> Deserialize<'de> for KeplerResponse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let limits = SeriesLimits { series: MAX_SERIES, samples: MAX_SAMPLES };
        read_series_by_name::<KeplerLabels, _, _, _>(
            from,
            limits,
            |labels, mut samples: Vec<FiniteSample>| {
                samples.sort_by(|sample, two| sample.0.total_cmp(&two.0));
                KeplerSeries {
                    labels,
                    samples: samples.into_iter().map(|FiniteSample(time, value)| (time, value)).collect(),
                }
            },
        )
        .map(Self)
    }
}

impl Serialize for KeplerSeries {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let labels: BTreeMap<&str, &str> = self.labels.labels().collect();
        let samples: Vec<(f64, String)> =
            self.samples.iter().map(|(time, value)| (*time, value.to_string())).collect();
        let mut series = to.serialize_struct("Series", 2)?;
        series.serialize_field("metric", &labels)?;
        series.serialize_field("values", &samples)?;
        series.end()
    }
}

impl Serialize for KeplerResponse {
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
        let response = KeplerResponse::read(text).unwrap();
        let series = &response.metric("m")[0];
        assert_eq!(series.samples, [(2.0, 7.0), (3.0, 2.5)]);
        assert_eq!((series.label("job"), series.label("other")), ("vm", ""));
        let again = KeplerResponse::read(&serde_json::to_vec(&response).unwrap()).unwrap();
        assert_eq!(again, response);
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for text in
            ["[]", "{\"m\":1}", "{\"m\":[{\"metric\":{}}]}", "{\"m\":[{\"metric\":{},\"values\":[[1]]}]}", ""]
        {
            assert!(KeplerResponse::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
