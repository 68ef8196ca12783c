//! Written pages read back equally, and no input bytes make the reader panic.

use std::collections::BTreeMap;

use metier_prom::{
    ExpositionFormat, MetricKind, MetricsPage, RenderedLabels, ScrapeLimits, parse_page, sanitize_label_name,
    sanitize_metric_name,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Content {
    Single(Vec<(BTreeMap<String, String>, f64)>),
    Histogram(Vec<(f64, u64)>, u64, f64),
    Summary(Vec<(f64, f64)>, u64, f64),
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("NaN is not equal to itself", |x| !x.is_nan()),
        Just(f64::INFINITY),
        Just(0.0),
        -1e6..1e6f64
    ]
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let pairs = proptest::collection::vec((".{0,12}", "(?s).{0,20}"), 0..4);
    pairs.prop_map(|pairs| {
        pairs.into_iter().map(|(name, value)| (sanitize_label_name(&name).into_owned(), value)).collect()
    })
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        proptest::collection::vec((labels(), number()), 1..4).prop_map(Content::Single),
        (proptest::collection::btree_set(-1000i32..1000, 0..5), any::<u32>(), number()).prop_map(
            |(bounds, count, sum)| {
                let buckets =
                    bounds.iter().enumerate().map(|(at, b)| (f64::from(*b) / 8.0, at as u64)).collect();
                Content::Histogram(buckets, u64::from(count), sum)
            }
        ),
        (proptest::collection::btree_map(0u32..100, number(), 0..4), any::<u32>(), number()).prop_map(
            |(quantiles, count, sum)| {
                let quantiles = quantiles.into_iter().map(|(q, v)| (f64::from(q) / 100.0, v)).collect();
                Content::Summary(quantiles, u64::from(count), sum)
            }
        ),
    ]
}

fn families() -> impl Strategy<Value = Vec<(String, MetricKind, String, Content)>> {
    let family = (".{1,12}", any::<bool>(), "(?s).{0,20}", content());
    proptest::collection::vec(family, 0..5).prop_map(|families| {
        families
            .into_iter()
            .enumerate()
            .map(|(at, (name, is_counter, help, content))| {
                // Numbered, so that no name equals another or is its suffix.
                let name = format!("{}{at}", sanitize_metric_name(&name));
                match content {
                    Content::Single(_) if is_counter => {
                        (format!("{name}_total"), MetricKind::Counter, help, content)
                    }
                    Content::Single(_) => (name, MetricKind::Gauge, help, content),
                    Content::Histogram(..) => (name, MetricKind::Histogram, help, content),
                    Content::Summary(..) => (name, MetricKind::Summary, help, content),
                }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_reads_back(families in families(), is_open in any::<bool>()) {
        let format = if is_open { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Text };
        let mut page = MetricsPage::new(format);
        for (name, kind, help, content) in &families {
            let mut family = page.begin_family(name, *kind, help);
            match content {
                Content::Single(samples) => for (labels, value) in samples {
                    let mut set = RenderedLabels::new();
                    labels.iter().for_each(|(name, value)| set.push_label(name, value));
                    family.add_sample(&set, *value);
                },
                Content::Histogram(buckets, count, sum) => {
                    family.add_histogram(&[("k", "v")], buckets.iter().copied(), *count, *sum);
                }
                Content::Summary(quantiles, count, sum) => family.add_summary(&(), quantiles.iter().copied(), *count, *sum),
            }
        }
        let text = page.finish();
        let scrape = parse_page(text.as_bytes(), format, &ScrapeLimits::default()).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(scrape.families.len(), families.len());
        for (read, (name, kind, help, content)) in scrape.families.iter().zip(&families) {
            prop_assert_eq!(read.kind, *kind);
            prop_assert_eq!(read.help.as_deref(), Some(help.trim_end_matches('\r')));
            match content {
                Content::Single(samples) => {
                    prop_assert_eq!(read.samples.len(), samples.len());
                    for (got, (labels, value)) in read.samples.iter().zip(samples) {
                        prop_assert_eq!(&got.name, name);
                        prop_assert_eq!(&got.labels.iter().cloned().collect::<BTreeMap<_, _>>(), labels);
                        prop_assert_eq!(got.value.to_bits(), value.to_bits());
                    }
                }
                Content::Histogram(buckets, count, sum) => {
                    let got = read.histograms().remove(0);
                    let mut want: Vec<(f64, f64)> = buckets.iter().map(|(b, n)| (*b, *n as f64)).collect();
                    want.push((f64::INFINITY, *count as f64));
                    prop_assert_eq!(got.buckets, want);
                    prop_assert_eq!((got.count, got.sum), (Some(*count as f64), Some(*sum)));
                }
                Content::Summary(quantiles, count, sum) => {
                    let got = read.summaries().remove(0);
                    prop_assert_eq!(&got.quantiles, quantiles);
                    prop_assert_eq!((got.count, got.sum), (Some(*count as f64), Some(*sum)));
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_open in any::<bool>()) {
        let format = if is_open { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Text };
        let _ = parse_page(&bytes, format, &ScrapeLimits::default());
    }

    #[test]
    fn no_near_miss_makes_the_reader_panic(page in "([a#_ ]{0,3}(HELP|TYPE|EOF)?[ \\t]{0,2}[a-z:\"{}=,\\\\é 0-9.+#\\n]{0,12}(NaN|1|\\{a=\"b\"\\}|histogram)?\\n?){0,8}") {
        for format in [ExpositionFormat::Text, ExpositionFormat::OpenMetrics] {
            if let Err(error) = parse_page(page.as_bytes(), format, &ScrapeLimits::default()) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
