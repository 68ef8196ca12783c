//! Writes a page of metrics.
//!
//! Families are written one after the other, each name once. HELP and TYPE lines come with the
//! first sample, so a family without samples writes nothing. Samples beyond the limit of a family
//! are dropped and counted.

use crate::format::{Format, Kind};
use crate::labels::{LabelSet, write_escaped};
use crate::name::metric_name;
use crate::number::{Value, write_canonical};

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    text: String,
    format: Format,
    samples_per_family: usize,
    samples: usize,
    left_out: u64,
}

impl Page {
    /// Default limit of samples per family.
    pub const SAMPLES_PER_FAMILY: usize = 20_000;

    pub fn new(format: Format) -> Self {
        Self::reusing(format, String::new())
    }

    /// An empty page that reuses an existing buffer.
    pub fn reusing(format: Format, mut text: String) -> Self {
        text.clear();
        Self { text, format, samples_per_family: Self::SAMPLES_PER_FAMILY, samples: 0, left_out: 0 }
    }

    /// Sets the limit of samples per family. A histogram counts as one.
    #[must_use]
    pub const fn at_most(mut self, samples_per_family: usize) -> Self {
        self.samples_per_family = samples_per_family;
        self
    }

    /// Begins a family. `name` is the name of its samples; a counter's ends in `_total`.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &'a str) -> FamilyWriter<'a> {
        FamilyWriter { page: self, name: metric_name(name), kind, help, samples: 0 }
    }

    /// Writes a family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Value) {
        self.family(name, kind, help).sample(&(), value);
    }

    /// Writes a family of one sample without labels, if there is a value.
    pub fn single_if(&mut self, name: &str, kind: Kind, help: &str, value: Option<impl Value>) {
        if let Some(value) = value {
            self.single(name, kind, help, value);
        }
    }

    /// Number of samples written so far.
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// Number of samples dropped because their family was full.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// A family under construction.
#[derive(Debug)]
pub struct FamilyWriter<'a> {
    page: &'a mut Page,
    name: std::borrow::Cow<'a, str>,
    kind: Kind,
    help: &'a str,
    samples: usize,
}

impl FamilyWriter<'_> {
    /// Writes one sample. Histograms and summaries have their own methods.
    pub fn sample(&mut self, labels: &(impl LabelSet + ?Sized), value: impl Value) {
        if !self.begin() {
            return;
        }
        let suffix = match (self.kind, self.page.format) {
            (Kind::Counter, Format::OpenMetrics) => "_total",
            (Kind::Info, _) => "_info",
            _ => "",
        };
        if suffix.is_empty() {
            self.line("", labels, value);
        } else {
            let stem = stem(&self.name, suffix).len();
            line(self.page, &self.name[..stem], suffix, labels, value);
        }
    }

    /// Writes one sample, if there is a value.
    pub fn sample_if(&mut self, labels: &(impl LabelSet + ?Sized), value: Option<impl Value>) {
        if let Some(value) = value {
            self.sample(labels, value);
        }
    }

    /// Writes one histogram. `buckets` are upper bounds and cumulative counts, ascending, without
    /// the infinite bound.
    pub fn histogram<L: LabelSet + ?Sized>(
        &mut self,
        labels: &L,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        if !self.begin() {
            return;
        }
        for (bound, below) in buckets {
            self.line("_bucket", &Bounded(labels, "le", bound, self.page.format), below);
        }
        self.line("_bucket", &Bounded(labels, "le", f64::INFINITY, self.page.format), count);
        self.line("_sum", labels, sum);
        self.line("_count", labels, count);
    }

    /// Writes one summary. `quantiles` are quantiles and values.
    pub fn summary<L: LabelSet + ?Sized>(
        &mut self,
        labels: &L,
        quantiles: impl IntoIterator<Item = (f64, f64)>,
        count: u64,
        sum: f64,
    ) {
        if !self.begin() {
            return;
        }
        for (share, value) in quantiles {
            self.line("", &Bounded(labels, "quantile", share, self.page.format), value);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, count);
    }

    /// Writes the header before the first sample; returns `false` if the family is full.
    fn begin(&mut self) -> bool {
        if self.samples >= self.page.samples_per_family {
            self.page.left_out += 1;
            return false;
        }
        if self.samples == 0 {
            let Page { text, format, .. } = self.page;
            let name = match (self.kind, *format) {
                (Kind::Counter, Format::OpenMetrics) => stem(&self.name, "_total"),
                (Kind::Info, Format::OpenMetrics) => stem(&self.name, "_info"),
                _ => &self.name,
            };
            let suffix = match (self.kind, *format) {
                (Kind::Info, Format::Text) if !name.ends_with("_info") => "_info",
                _ => "",
            };
            for part in ["# HELP ", name, suffix, " "] {
                text.push_str(part);
            }
            // A parser would treat a trailing carriage return as part of the line end.
            write_escaped(self.help.trim_end_matches('\r'), *format == Format::OpenMetrics, text);
            for part in ["\n# TYPE ", name, suffix, " ", self.kind.word(*format), "\n"] {
                text.push_str(part);
            }
        }
        self.samples += 1;
        self.page.samples += 1;
        true
    }

    fn line(&mut self, suffix: &str, labels: &(impl LabelSet + ?Sized), value: impl Value) {
        line(self.page, &self.name, suffix, labels, value);
    }
}

fn stem<'a>(name: &'a str, suffix: &str) -> &'a str {
    name.strip_suffix(suffix).filter(|stem| !stem.is_empty()).unwrap_or(name)
}

fn line(page: &mut Page, name: &str, suffix: &str, labels: &(impl LabelSet + ?Sized), value: impl Value) {
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
struct Bounded<'a, L: ?Sized>(&'a L, &'a str, f64, Format);

impl<L: LabelSet + ?Sized> LabelSet for Bounded<'_, L> {
    fn write(&self, out: &mut String) {
        let begin = out.len();
        self.0.write(out);
        if out.len() > begin {
            out.push(',');
        }
        out.push_str(self.1);
        out.push_str("=\"");
        match self.3 {
            Format::Text => self.2.write(out),
            Format::OpenMetrics => write_canonical(self.2, out),
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Page::new(format).at_most(2);
        page.family("a_total", Kind::Counter, "Say \"a\"\\\n.").sample(&[("x", "1")], 7u64);
        page.family("nothing", Kind::Gauge, "Not here.");
        let mut full = page.family("g", Kind::Gauge, "G.");
        (0..5u32).for_each(|n| full.sample(&[("n", n.to_string().as_str())], f64::from(n)));
        page.family("h_seconds", Kind::Histogram, "H.").histogram(&(), [(0.5, 1), (2.0, 3)], 4, 9.5);
        page.family("s", Kind::Summary, "S.").summary(&[("k", "v")], [(0.5, 1.0)], 2, 3.0);
        page.family("build_info", Kind::Info, "I.").sample(&[("version", "1")], 1u64);
        assert_eq!(page.left_out(), 3);
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
        assert_eq!(page(Format::Text), want);
    }

    #[test]
    fn open_metrics_names_families_without_suffix_and_ends() {
        let text = page(Format::OpenMetrics);
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
