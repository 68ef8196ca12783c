//! Builds histograms and summaries from the samples of a family.

use crate::format::MetricKind;
use crate::number;
use crate::read::{MetricFamily, MetricSample};

/// One histogram of a family.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromHistogram {
    /// Label set without `le`.
    pub labels: Vec<(String, String)>,
    /// Upper bound and cumulative count, sorted by bound; the last bound is usually infinite.
    pub buckets: Vec<(f64, f64)>,
    pub count: Option<f64>,
    pub sum: Option<f64>,
}

/// One summary of a family.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromSummary {
    /// Label set without `quantile`.
    pub labels: Vec<(String, String)>,
    /// Quantile and value, sorted by quantile.
    pub quantiles: Vec<(f64, f64)>,
    pub count: Option<f64>,
    pub sum: Option<f64>,
}

/// Samples whose label sets differ in one label only, in order of their first sample.
struct SampleGroup<'a> {
    labels: Vec<(String, String)>,
    points: Vec<(f64, f64)>,
    rest: Vec<&'a MetricSample>,
}

impl MetricFamily {
    /// The histograms of a histogram family, in order; none for other kinds. A bucket whose bound
    /// is not a number is ignored.
    pub fn histograms(&self) -> Vec<PromHistogram> {
        if !matches!(self.kind, MetricKind::Histogram | MetricKind::GaugeHistogram) {
            return Vec::new();
        }
        let groups = self.group_samples("le", |name| name.ends_with("_bucket"));
        groups
            .into_iter()
            .map(|group| PromHistogram {
                count: group.suffixed_value(&["_count", "_gcount"]),
                sum: group.suffixed_value(&["_sum", "_gsum"]),
                buckets: group.points,
                labels: group.labels,
            })
            .collect()
    }

    /// The summaries of a summary family, in order; none for other kinds.
    pub fn summaries(&self) -> Vec<PromSummary> {
        if self.kind != MetricKind::Summary {
            return Vec::new();
        }
        let groups = self.group_samples("quantile", |name| name == self.name);
        groups
            .into_iter()
            .map(|group| PromSummary {
                count: group.suffixed_value(&["_count"]),
                sum: group.suffixed_value(&["_sum"]),
                quantiles: group.points,
                labels: group.labels,
            })
            .collect()
    }

    fn group_samples(&self, by: &str, is_point: impl Fn(&str) -> bool) -> Vec<SampleGroup<'_>> {
        let mut found: Vec<SampleGroup<'_>> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            let bound = labels.iter().position(|(name, _)| name == by).map(|at| labels.remove(at).1);
            // Label order does not matter.
            let mut key = labels.clone();
            key.sort();
            let place = *places.entry(key).or_insert_with(|| {
                found.push(SampleGroup { labels, points: Vec::new(), rest: Vec::new() });
                found.len() - 1
            });
            match bound.filter(|_| is_point(&sample.name)) {
                Some(bound) => {
                    if let Some(bound) = number::parse_number(&bound) {
                        found[place].points.push((bound, sample.value));
                    }
                }
                None => found[place].rest.push(sample),
            }
        }
        found.iter_mut().for_each(|group| group.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        found
    }
}

impl SampleGroup<'_> {
    fn suffixed_value(&self, suffixes: &[&str]) -> Option<f64> {
        let is = |sample: &&&MetricSample| suffixes.iter().any(|suffix| sample.name.ends_with(suffix));
        self.rest.iter().find(is).map(|sample| sample.value)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ExpositionFormat, ScrapeLimits, parse_page};

    #[test]
    fn histograms_and_summaries_are_put_together_by_their_labels() {
        let text = "# TYPE h histogram\nh_bucket{le=\"+Inf\",a=\"1\"} 4\nh_bucket{a=\"1\",le=\"0.5\"} 3\nh_sum{a=\"1\"} 2.5\n\
            h_count{a=\"1\"} 4\nh_bucket{a=\"2\",le=\"x\"} 3\n# TYPE s summary\ns{quantile=\"0.9\"} 2\ns{quantile=\"0.5\"} 1\ns_count 9\n";
        let scrape = parse_page(text.as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default()).unwrap();
        let histograms = scrape.family("h").unwrap().histograms();
        assert_eq!(histograms.len(), 2);
        assert_eq!(histograms[0].buckets, [(0.5, 3.0), (f64::INFINITY, 4.0)]);
        assert_eq!((histograms[0].count, histograms[0].sum), (Some(4.0), Some(2.5)));
        assert_eq!(histograms[0].labels, [("a".to_string(), "1".to_string())]);
        assert!(histograms[1].buckets.is_empty() && histograms[1].count.is_none());
        let summaries = scrape.family("s").unwrap().summaries();
        assert_eq!(summaries[0].quantiles, [(0.5, 1.0), (0.9, 2.0)]);
        assert_eq!((summaries[0].count, summaries[0].sum), (Some(9.0), None));
        assert!(scrape.family("s").unwrap().histograms().is_empty());
    }
}
