//! Query responses: typed, and as raw bytes.

use std::fmt;

use metier_types::UtcTimestamp;
use serde::{Deserialize, Deserializer, de};

use super::series_reader::{AllLabels, JsonSample, LabelColumns, WireSeries, read_sample};

/// The labels that identify a series, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MetricLabels(Vec<(Box<str>, Box<str>)>);

impl MetricLabels {
    /// The name of the series; an expression's result has none.
    pub fn name(&self) -> Option<&str> {
        self.label("__name__")
    }

    /// The value of a label; an empty one counts as absent, as it does in Prometheus.
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| value.as_ref()).filter(|value| !value.is_empty())
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for MetricLabels {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(labels: I) -> Self {
        let mut labels: Vec<_> =
            labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        labels.sort_unstable();
        labels.dedup_by(|next, previous| next.0 == previous.0);
        Self(labels)
    }
}

impl fmt::Display for MetricLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())?;
        f.write_str("{")?;
        let labels = self.labels().filter(|(name, _)| *name != "__name__");
        for (at, (name, value)) in labels.enumerate() {
            write!(f, "{}{name}={value:?}", if at > 0 { "," } else { "" })?;
        }
        f.write_str("}")
    }
}

impl<'de> Deserialize<'de> for MetricLabels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        LabelColumns::<AllLabels>::deserialize(from).map(|labels| labels.metric)
    }
}

/// A value at a time. The value may be NaN or infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesPoint {
    pub at: UtcTimestamp,
    pub value: f64,
}

impl SeriesPoint {
    /// The value, if it is finite.
    pub fn finite_value(&self) -> Option<f64> {
        self.value.is_finite().then_some(self.value)
    }
}

impl JsonSample for SeriesPoint {
    fn parse_number<E: de::Error>(text: &str) -> Result<f64, E> {
        let want = &"a number, NaN, +Inf or -Inf";
        crate::number::parse_number(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), want))
    }

    fn from_numbers<E: de::Error>(time: f64, value: f64) -> Result<Option<Self>, E> {
        Ok(Some(Self { at: timestamp_from_seconds(time)?, value }))
    }
}

/// Converts seconds of Unix time; Prometheus stores milliseconds.
fn timestamp_from_seconds<E: de::Error>(seconds: f64) -> Result<UtcTimestamp, E> {
    let millis = (seconds * 1000.0).round();
    // Out-of-range times saturate and are then rejected.
    let at = UtcTimestamp::from_millisecond(millis as i64).ok().filter(|_| millis.is_finite());
    at.ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &"seconds of Unix time"))
}

impl<'de> Deserialize<'de> for SeriesPoint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_sample(from)?.ok_or_else(|| de::Error::custom("no value"))
    }
}

/// One series at the requested time.
#[derive(Debug, Clone, PartialEq)]
pub struct InstantSample {
    pub metric: MetricLabels,
    /// Its value, with the requested time as timestamp.
    pub point: SeriesPoint,
}

/// One series over a time range.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeSeries {
    pub metric: MetricLabels,
    /// Its values in time order.
    pub points: Vec<SeriesPoint>,
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryValues {
    /// Series at one time.
    Vector(Vec<InstantSample>),
    /// Series over a time range.
    Matrix(Vec<RangeSeries>),
    Scalar(SeriesPoint),
    Text(UtcTimestamp, String),
}

#[derive(Debug, Clone)]
pub struct QueryResponse {
    pub values: QueryValues,
    /// Warnings of the server: the response may be incomplete.
    pub warnings: Vec<String>,
    /// Series left out of `values` because they are native histograms; they are in `raw`.
    pub histograms: usize,
    /// The payload as received, JSON.
    pub raw: Vec<u8>,
}

impl QueryResponse {
    /// Parses a stored payload, for example from a file. The error describes the unexpected
    /// content.
    pub fn parse(raw: Vec<u8>) -> serde_json::Result<Self> {
        let envelope: ResponseEnvelope<ResultPayload> = parse_envelope(&raw)?;
        let (values, histograms) = envelope.data.into_values()?;
        Ok(Self { values, warnings: envelope.warnings, histograms, raw })
    }

    /// The series, if it is a vector.
    pub fn as_vector(&self) -> Option<&[InstantSample]> {
        match &self.values {
            QueryValues::Vector(readings) => Some(readings),
            _ => None,
        }
    }

    /// The series, if it is a matrix.
    pub fn as_matrix(&self) -> Option<&[RangeSeries]> {
        match &self.values {
            QueryValues::Matrix(series) => Some(series),
            _ => None,
        }
    }

    /// The number, if the result is one: a scalar, or a vector with one element.
    pub fn as_number(&self) -> Option<f64> {
        match &self.values {
            QueryValues::Scalar(point) => Some(point.value),
            QueryValues::Vector(readings) => match readings.as_slice() {
                [only] => Some(only.point.value),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The envelope of every response.
pub(super) struct ResponseEnvelope<T> {
    pub data: T,
    pub warnings: Vec<String>,
}

/// Unwraps a response; the error describes the unexpected content.
pub(super) fn parse_envelope<T: de::DeserializeOwned>(raw: &[u8]) -> serde_json::Result<ResponseEnvelope<T>> {
    #[derive(Deserialize)]
    #[serde(bound = "T: de::DeserializeOwned")]
    struct EnvelopeWire<T> {
        status: String,
        data: Option<T>,
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        warnings: Vec<String>,
    }
    let wire: EnvelopeWire<T> = serde_json::from_slice(raw)?;
    match (wire.status.as_str(), wire.data) {
        ("success", Some(data)) => Ok(ResponseEnvelope { data, warnings: wire.warnings }),
        ("success", None) => Err(de::Error::custom("it has no `data`")),
        (status, _) => {
            let text = wire.error.unwrap_or_default();
            Err(de::Error::custom(format!("its status is {status:?}: {text}")))
        }
    }
}

/// `data` of a query in the wire format.
#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum ResultPayload {
    Vector(Vec<WireInstantSample>),
    Matrix(Vec<WireSeries<AllLabels, SeriesPoint>>),
    Scalar(SeriesPoint),
    String((f64, String)),
}

#[derive(Deserialize)]
struct WireInstantSample {
    metric: MetricLabels,
    value: Option<SeriesPoint>,
    histogram: Option<de::IgnoredAny>,
}

impl ResultPayload {
    fn into_values(self) -> serde_json::Result<(QueryValues, usize)> {
        let mut left_out = 0;
        let values = match self {
            Self::Vector(wire) => {
                let mut readings = Vec::with_capacity(wire.len());
                for WireInstantSample { metric, value, histogram } in wire {
                    match (value, histogram) {
                        (Some(point), _) => readings.push(InstantSample { metric, point }),
                        (None, Some(_)) => left_out += 1,
                        (None, None) => return Err(de::Error::custom(format!("{metric} has no value"))),
                    }
                }
                QueryValues::Vector(readings)
            }
            Self::Matrix(wire) => {
                let mut series = Vec::with_capacity(wire.len());
                for WireSeries { metric: LabelColumns { metric, .. }, values, histograms } in wire {
                    let points = values.map(|samples| samples.0).unwrap_or_default();
                    left_out += usize::from(histograms.is_some());
                    if histograms.is_none() || !points.is_empty() {
                        series.push(RangeSeries { metric, points });
                    }
                }
                QueryValues::Matrix(series)
            }
            Self::Scalar(point) => QueryValues::Scalar(point),
            Self::String((seconds, text)) => QueryValues::Text(timestamp_from_seconds(seconds)?, text),
        };
        Ok((values, left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> serde_json::Result<QueryResponse> {
        QueryResponse::parse(text.as_bytes().to_vec())
    }

    #[test]
    fn every_type_is_read_with_its_special_values() {
        let vector = parse(
            r#"{"status":"success","warnings":["partial"],"data":{"resultType":"vector","result":[
                {"metric":{"__name__":"a","z":"1","b":""},"value":[1435781451.781,"NaN"]},
                {"metric":{},"value":[1435781451,"+Inf"]},
                {"metric":{"__name__":"h"},"histogram":[1435781451,{"count":"1"}]}]}}"#,
        )
        .unwrap();
        let readings = vector.as_vector().unwrap();
        assert_eq!(
            (readings.len(), vector.histograms, vector.warnings.as_slice()),
            (2, 1, &["partial".to_string()][..])
        );
        assert!(readings[0].point.value.is_nan() && readings[0].point.finite_value().is_none());
        assert_eq!(readings[0].point.at.as_millisecond(), 1_435_781_451_781);
        assert_eq!(readings[0].metric.label("z"), Some("1"));
        assert_eq!((readings[0].metric.label("b"), readings[0].metric.name()), (None, Some("a")));
        assert_eq!(readings[0].metric.to_string(), r#"a{b="",z="1"}"#);
        assert_eq!(readings[1].point.value, f64::INFINITY);
        // `resultType` may follow `result`.
        let matrix = parse(
            r#"{"data":{"result":[{"metric":{"x":"y"},"values":[[1,"1"],[2,"-Inf"]]}],"resultType":"matrix"},"status":"success"}"#,
        )
        .unwrap();
        assert_eq!(matrix.as_matrix().unwrap()[0].points[1].value, f64::NEG_INFINITY);
        let scalar =
            parse(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"0.1"]}}"#).unwrap();
        assert_eq!(scalar.as_number(), Some(0.1));
        let text = parse(r#"{"status":"success","data":{"resultType":"string","result":[1,"so"]}}"#).unwrap();
        assert!(matches!(text.values, QueryValues::Text(_, text) if text == "so"));
    }

    #[test]
    fn what_is_not_an_answer_is_refused_with_what_was_found() {
        for (wrong, found) in [
            ("", "EOF"),
            ("<html>", "expected value"),
            ("[]", "invalid"),
            (r#"{"status":"success"}"#, "no `data`"),
            (r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#, "parse error"),
            (r#"{"status":"success","data":{"resultType":"tensor","result":[]}}"#, "tensor"),
            (r#"{"status":"success","data":{"resultType":"scalar","result":[1]}}"#, "invalid length"),
            (r#"{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}"#, "a number, NaN"),
            (
                r#"{"status":"success","data":{"resultType":"scalar","result":[1e300,"1"]}}"#,
                "seconds of Unix time",
            ),
            (
                r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"}}]}}"#,
                "has no value",
            ),
        ] {
            let text = parse(wrong).unwrap_err().to_string();
            assert!(text.contains(found), "{wrong}: {text}");
        }
    }
}
