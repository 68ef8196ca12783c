//! Writes a page of metrics.
//!
//! Families are written one after the other, each name once. HELP and TYPE lines come with the
//! first sample, so a family without samples writes nothing. Samples beyond the limit of a family
//! are dropped and counted.

use crate::format::{ExpositionFormat, MetricKind};
use crate::labels::{LabelSet, write_escaped};
use crate::name::sanitize_metric_name;
use crate::number::{SampleValue, write_canonical};

/// A page under construction.
#[derive(Debug)]
pub struct MetricsPage {
    text: String,
    format: ExpositionFormat,
    samples_per_family: usize,
    samples: usize,
    left_out: u64,
}

impl MetricsPage {
    /// Default limit of samples per family.
    pub const SAMPLES_PER_FAMILY: usize = 20_000;

    pub fn new(format: ExpositionFormat) -> Self {
        Self::with_buffer(format, String::new())
    }

    /// An empty page that reuses an existing buffer.
    pub fn with_buffer(format: ExpositionFormat, mut text: String) -> Self {
        text.clear();
        Self { text, format, samples_per_family: Self::SAMPLES_PER_FAMILY, samples: 0, left_out: 0 }
    }

    /// Sets the limit of samples per family. A histogram counts as one.
    #[must_use]
    pub const fn with_sample_limit(mut self, samples_per_family: usize) -> Self {
        self.samples_per_family = samples_per_family;
        self
    }

    /// Begins a family. `name` is the name of its samples; a counter's ends in `_total`.
    pub fn begin_family<'a>(
        &'a mut self,
        name: &'a str,
        kind: MetricKind,
        help: &'a str,
    ) -> FamilyWriter<'a> {
        FamilyWriter { page: self, name: sanitize_metric_name(name), kind, help, samples: 0 }
    }

    /// Writes a family of one sample without labels.
    pub fn add_single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl SampleValue) {
        self.begin_family(name, kind, help).add_sample(&(), value);
    }

    /// Writes a family of one sample without labels, if there is a value.
    pub fn add_optional_single(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        value: Option<impl SampleValue>,
    ) {
        if let Some(value) = value {
            self.add_single(name, kind, help, value);
        }
    }

    /// Number of samples written so far.
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// Number of samples dropped because their family was full.
    pub const fn dropped_samples(&self) -> u64 {
        self.left_out
    }

    pub const fn format(&self) -> ExpositionFormat {
        self.format
    }

    pub fn finish(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// A family under construction.
#[derive(Debug)]
pub struct FamilyWriter<'a> {
    page: &'a mut MetricsPage,
    name: std::borrow::Cow<'a, str>,
    kind: MetricKind,
    help: &'a str,
    samples: usize,
}

impl FamilyWriter<'_> {
    /// Writes one sample. Histograms and summaries have their own methods.
    pub fn add_sample(&mut self, labels: &(impl LabelSet + ?Sized), value: impl SampleValue) {
        if !self.begin_sample() {
            return;
        }
        let suffix = match (self.kind, self.page.format) {
            (MetricKind::Counter, ExpositionFormat::OpenMetrics) => "_total",
            (MetricKind::Info, _) => "_info",
            _ => "",
        };
        if suffix.is_empty() {
            self.write_line("", labels, value);
        } else {
            let stem = strip_name_suffix(&self.name, suffix).len();
            write_line(self.page, &self.name[..stem], suffix, labels, value);
        }
    }

    /// Writes one sample, if there is a value.
    pub fn add_optional_sample(
        &mut self,
        labels: &(impl LabelSet + ?Sized),
        value: Option<impl SampleValue>,
    ) {
        if let Some(value) = value {
            self.add_sample(labels, value);
        }
    }

    /// Writes one histogram. `buckets` are upper bounds and cumulative counts, ascending, without
    /// the infinite bound.
    pub fn add_histogram<L: LabelSet + ?Sized>(
        &mut self,
        labels: &L,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        if !self.begin_sample() {
            return;
        }
        for (bound, below) in buckets {
            self.write_line("_bucket", &BoundedLabels(labels, "le", bound, self.page.format), below);
        }
        self.write_line("_bucket", &BoundedLabels(labels, "le", f64::INFINITY, self.page.format), count);
        self.write_line("_sum", labels, sum);
        self.write_line("_count", labels, count);
    }

    /// Writes one summary. `quantiles` are quantiles and values.
    pub fn add_summary<L: LabelSet + ?Sized>(
        &mut self,
        labels: &L,
        quantiles: impl IntoIterator<Item = (f64, f64)>,
        count: u64,
        sum: f64,
    ) {
        if !self.begin_sample() {
            return;
        }
        for (share, value) in quantiles {
            self.write_line("", &BoundedLabels(labels, "quantile", share, self.page.format), value);
        }
        self.write_line("_sum", labels, sum);
        self.write_line("_count", labels, count);
    }

    /// Writes the header before the first sample; returns `false` if the family is full.
    fn begin_sample(&mut self) -> bool {
        if self.samples >= self.page.samples_per_family {
            self.page.left_out += 1;
            return false;
        }
        if self.samples == 0 {
            let MetricsPage { text, format, .. } = self.page;
            let name = match (self.kind, *format) {
                (MetricKind::Counter, ExpositionFormat::OpenMetrics) => {
                    strip_name_suffix(&self.name, "_total")
                }
                (MetricKind::Info, ExpositionFormat::OpenMetrics) => strip_name_suffix(&self.name, "_info"),
                _ => &self.name,
            };
            let suffix = match (self.kind, *format) {
                (MetricKind::Info, ExpositionFormat::Text) if !name.ends_with("_info") => "_info",
                _ => "",
            };
            for part in ["# HELP ", name, suffix, " "] {
                text.push_str(part);
            }
            // A parser would treat a trailing carriage return as part of the line end.
            write_escaped(self.help.trim_end_matches('\r'), *format == ExpositionFormat::OpenMetrics, text);
            for part in ["\n# TYPE ", name, suffix, " ", self.kind.type_word(*format), "\n"] {
                text.push_str(part);
            }
        }
        self.samples += 1;
        self.page.samples += 1;
        true
    }

    fn write_line(&mut self, suffix: &str, labels: &(impl LabelSet + ?Sized), value: impl SampleValue) {
        write_line(self.page, &self.name, suffix, labels, value);
    }
}

fn strip_name_suffix<'a>(name: &'a str, suffix: &str) -> &'a str {
    name.strip_suffix(suffix).filter(|stem| !stem.is_empty()).unwrap_or(name)
}

fn write_line(
    page: &mut MetricsPage,
    name: &str,
    suffix: &str,
    labels: &(impl LabelSet + ?Sized),
    value: impl SampleValue,
) {
    let text = &mut page.text;
    text.push_str(name);
    text.push_str(suffix);
    text.push('{');
    let inside = text.len();
    labels.write(text);
    if text.len() == inside {
        text.pop();
    } else {
        text.push('}');
    }
    text.push(' ');
    value.write(text);
    text.push('\n');
}

/// A label set with a bound.
struct BoundedLabels<'a, L: ?Sized>(&'a L, &'a str, f64, ExpositionFormat);

impl<L: LabelSet + ?Sized> LabelSet for BoundedLabels<'_, L> {
    fn write(&self, out: &mut String) {
        let begin = out.len();
        self.0.write(out);
        if out.len() > begin {
            out.push(',');
        }
        out.push_str(self.1);
        out.push_str("=\"");
        match self.3 {
            ExpositionFormat::Text => self.2.write(out),
            ExpositionFormat::OpenMetrics => write_canonical(self.2, out),
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: ExpositionFormat) -> String {
        let mut page = MetricsPage::new(format).with_sample_limit(2);
        page.begin_family("a_total", MetricKind::Counter, "Say \"a\"\\\n.").add_sample(&[("x", "1")], 7u64);
        page.begin_family("nothing", MetricKind::Gauge, "Not here.");
        let mut full = page.begin_family("g", MetricKind::Gauge, "G.");
        (0..5u32).for_each(|n| full.add_sample(&[("n", n.to_string().as_str())], f64::from(n)));
        page.begin_family("h_seconds", MetricKind::Histogram, "H.").add_histogram(
            &(),
            [(0.5, 1), (2.0, 3)],
            4,
            9.5,
        );
        page.begin_family("s", MetricKind::Summary, "S.").add_summary(&[("k", "v")], [(0.5, 1.0)], 2, 3.0);
        page.begin_family("build_info", MetricKind::Info, "I.").add_sample(&[("version", "1")], 1u64);
        assert_eq!(page.dropped_samples(), 3);
        page.finish()
    }

    #[test]
    fn text_is_as_prometheus_wants_it() {
        let want = "# HELP a_total Say \"a\"\\\\\\n.\n# TYPE a_total counter\na_total{x=\"1\"} 7\n\
            # HELP g G.\n# TYPE g gauge\ng{n=\"0\"} 0\ng{n=\"1\"} 1\n\
            # HELP h_seconds H.\n# TYPE h_seconds histogram\nh_seconds_bucket{le=\"0.5\"} 1\nh_seconds_bucket{le=\"2\"} 3\n\
            h_seconds_bucket{le=\"+Inf\"} 4\nh_seconds_sum 9.5\nh_seconds_count 4\n\
            # HELP s S.\n# TYPE s summary\ns{k=\"v\",quantile=\"0.5\"} 1\ns_sum{k=\"v\"} 3\ns_count{k=\"v\"} 2\n\
            # HELP build_info I.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(page(ExpositionFormat::Text), want);
    }

    #[test]
    fn open_metrics_names_families_without_suffix_and_ends() {
        let text = page(ExpositionFormat::OpenMetrics);
        for line in [
            "# HELP a Say \\\"a\\\"\\\\\\n.",
            "# TYPE a counter",
            "a_total{x=\"1\"} 7",
            "h_seconds_bucket{le=\"2.0\"} 3",
            "# TYPE build info",
            "build_info{version=\"1\"} 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
