//! The text formats and the kinds of metric families.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpositionFormat {
    /// Version 0.0.4, which all Prometheus servers and client libraries support. Timestamps are
    /// milliseconds.
    #[default]
    Text,
    /// OpenMetrics 1.0: counters end in `_total`, timestamps are seconds, the page ends with `#
    /// EOF`.
    OpenMetrics,
}

impl ExpositionFormat {
    /// Media type of a page in this format.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format of a page from its `Content-Type`; unknown types mean 0.0.4, as in Prometheus.
    pub fn from_media_type(media_type: &str) -> Self {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// The preferred format of an `Accept` header; 0.0.4 without a preference.
    pub fn from_accept_header(accept: &str) -> Self {
        let (mut best, mut weight) = (Self::Text, 0.0);
        for part in accept.split(',').take(32) {
            let mut fields = part.split(';').map(str::trim);
            let format = match fields.next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => Self::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Self::Text,
                _ => continue,
            };
            let mut quality = 1.0;
            let mut is_known = true;
            for field in fields {
                match field.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
                    Some(("q", value)) => quality = value.parse().unwrap_or(0.0),
                    Some(("version", "1.0.0" | "0.0.1")) if format == Self::OpenMetrics => {}
                    Some(("version", "0.0.4")) if format == Self::Text => {}
                    Some(("version", _)) => is_known = false,
                    _ => {}
                }
            }
            if is_known && quality > weight {
                (best, weight) = (format, quality);
            }
        }
        best
    }
}

/// Metric kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MetricKind {
    /// Only increases, until the program restarts.
    Counter,
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// Quantiles, a sum and a count.
    Summary,
    /// A histogram whose counts may decrease (OpenMetrics).
    GaugeHistogram,
    /// Facts as labels of a sample with value 1 (OpenMetrics; written as a gauge in 0.0.4).
    Info,
    /// Booleans of an enumeration (OpenMetrics; written as a gauge in 0.0.4).
    StateSet,
    #[default]
    Unknown,
}

impl MetricKind {
    /// The type word of a TYPE line.
    pub const fn type_word(self, format: ExpositionFormat) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Gauge, _) => "gauge",
            (Self::Histogram, _) => "histogram",
            (Self::Summary, _) => "summary",
            (Self::GaugeHistogram, ExpositionFormat::OpenMetrics) => "gaugehistogram",
            (Self::Info, ExpositionFormat::OpenMetrics) => "info",
            (Self::StateSet, ExpositionFormat::OpenMetrics) => "stateset",
            (Self::Info | Self::StateSet, ExpositionFormat::Text) => "gauge",
            (Self::Unknown, ExpositionFormat::OpenMetrics) => "unknown",
            (Self::GaugeHistogram | Self::Unknown, ExpositionFormat::Text) => "untyped",
        }
    }

    /// The kind for the type word of a TYPE line; the words of both formats are accepted.
    pub fn from_type_word(word: &str) -> Option<Self> {
        Some(match word {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            "summary" => Self::Summary,
            "gaugehistogram" => Self::GaugeHistogram,
            "info" => Self::Info,
            "stateset" => Self::StateSet,
            "untyped" | "unknown" => Self::Unknown,
            _ => return None,
        })
    }

    /// Suffixes that a sample name may add to the family name.
    pub(crate) const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total", "_created"],
            Self::Histogram => &["_bucket", "_count", "_sum", "_created"],
            Self::Summary => &["_count", "_sum", "_created"],
            Self::GaugeHistogram => &["_bucket", "_gcount", "_gsum"],
            Self::Info => &["_info"],
            Self::Gauge | Self::StateSet | Self::Unknown => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_what_the_client_wants_most() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, want) in [
            ("", ExpositionFormat::Text),
            ("*/*", ExpositionFormat::Text),
            (prometheus, ExpositionFormat::OpenMetrics),
            ("text/plain;version=0.0.4, application/openmetrics-text;q=0.5", ExpositionFormat::Text),
            ("application/openmetrics-text; version=9.0.0", ExpositionFormat::Text),
            ("application/vnd.google.protobuf;q=1", ExpositionFormat::Text),
            ("application/openmetrics-text;q=zero", ExpositionFormat::Text),
        ] {
            assert_eq!(ExpositionFormat::from_accept_header(accept), want, "{accept}");
        }
    }

    #[test]
    fn a_page_tells_its_format_by_its_media_type() {
        for format in [ExpositionFormat::Text, ExpositionFormat::OpenMetrics] {
            assert_eq!(ExpositionFormat::from_media_type(format.media_type()), format);
        }
        assert_eq!(ExpositionFormat::from_media_type("text/html"), ExpositionFormat::Text);
    }
}
